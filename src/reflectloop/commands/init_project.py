"""`init` and `config`: what a project starts with, and what it is set to."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import config
from reflectloop.plan.schema import plan_schema
from reflectloop.system import files
from reflectloop.workspace import project, store
from reflectloop.workspace.folders import folders_at

_FIRST_PLAN = """\
# yaml-language-server: $schema=./plan.schema.json
plan:
  title: A first plan
  track: direct
  checks:
    tree-is-sound: {run: [git, fsck, --connectivity-only, --no-dangling]}
  steps:
    - id: P-1
      title: Say hello from the workspace
      commands:
        - echo "hello from $PWD" > hello-from-reflectloop.txt
      verify:
        - {file_nonempty: hello-from-reflectloop.txt}
        - tree-is-sound
"""

_TABLES = "agents"  # as many as the user names


def settings_text(*, triflow: bool = False) -> str:
    """Every setting with its default and what it means, commented out but for what was asked for."""
    lines = [
        "# Settings of reflectloop for this project. Everything here is optional; these are the defaults.",
        "",
    ]
    for section, info in config.Config.model_fields.items():
        lines.append(f"[{section}]")
        if section == _TABLES:
            lines += ["# a table for each agent of your own, such as [agents.local]; see docs/agents.md", ""]
            continue
        for name, setting in type(info.default).model_fields.items():
            lines += [f"# {setting.description}", f"# {name} = {_toml(setting.default)}"]
        lines.append("")
    text = "\n".join(lines)
    return text.replace("# triflow = false", "triflow = true") if triflow else text


def _toml(value: object) -> str:
    if value is None:
        return "…"
    if isinstance(value, tuple):
        return json.dumps(value)
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


class InitResult(NamedTuple):
    written: list[str]
    kept: list[str]
    left: list[str]  # to be done by hand


def init(start: Path, *, triflow: bool = False) -> InitResult:
    """Write what is missing; what is there already is never touched."""
    folders = folders_at(start)
    wanted = {
        folders.root / config.NAME: settings_text(triflow=triflow),
        folders.own / ".gitignore": store.HIDDEN,
        folders.own / "plan.yaml": _FIRST_PLAN,
        folders.own / "plan.schema.json": json.dumps(plan_schema(), indent=2) + "\n",
    }
    made = InitResult([], [], [])
    for path, text in wanted.items():
        name = os.fspath(path.relative_to(folders.root))
        if path.exists():
            made.kept.append(name)
        else:
            files.write_atomic(path, text)
            made.written.append(name)
    if triflow and not config.load(folders.root).publish.triflow:
        made.left.append(f"{config.NAME} was there already: set triflow = true under [publish] in it")
    return made


def settings(start: Path) -> list[dict[str, Any]]:
    """Return every setting in force, and which file it comes from."""
    root = project.locate(start)
    found = config.sources(root)
    out = []
    named = {f"{_TABLES}.{name}": agent for name, agent in found.config.agents.items()}
    plain = {name: getattr(found.config, name) for name in config.Config.model_fields if name != _TABLES}
    for section, model in {**plain, **named}.items():
        for name in type(model).model_fields:
            value = model.model_dump(mode="json")[name]
            out.append({"name": f"{section}.{name}", "value": value, "origin": _origin(found, section, name)})
    return out


def _origin(found: config.Sources, section: str, name: str) -> str:
    def says(values: dict[str, Any]) -> bool:
        for part in section.split(".", 1):
            values = values.get(part, {})
        return name in values

    if says(found.project if found.is_trusted or not found.split.grants else found.split.always):
        return config.NAME
    origin = "your config.toml" if says(found.user) else "default"
    return f"{origin} ({config.NAME} is not trusted)" if says(found.project) else origin
