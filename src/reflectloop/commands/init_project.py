"""`init` and `config`: write a project's first files, and list its settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import config
from reflectloop.plan.schema import plan_schema
from reflectloop.system import files
from reflectloop.workspace import project, store
from reflectloop.workspace.folders import open_project_dirs

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

_TABLES = "agents"  # one table for each agent that the user names


def settings_text(*, triflow: bool = False) -> str:
    """Return a settings file with every setting, its default and its meaning, commented out; `triflow` sets one."""
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
    left: list[str]  # what the user must do by hand


def init(start: Path, *, triflow: bool = False) -> InitResult:
    """Write the files that are missing; existing files are never changed."""
    folders = open_project_dirs(start)
    wanted = {
        folders.root / config.NAME: settings_text(triflow=triflow),
        folders.own / ".gitignore": store.HIDDEN,
        folders.own / "plan.yaml": _FIRST_PLAN,
        folders.own / "plan.schema.json": json.dumps(plan_schema(), indent=2) + "\n",
    }
    result = InitResult([], [], [])
    for path, text in wanted.items():
        name = os.fspath(path.relative_to(folders.root))
        if path.exists():
            result.kept.append(name)
        else:
            files.write_atomic(path, text)
            result.written.append(name)
    if triflow and not config.load(folders.root).publish.triflow:
        result.left.append(f"{config.NAME} exists already: set triflow = true under [publish] in it")
    return result


def settings(start: Path) -> list[dict[str, Any]]:
    """Return every active setting and the file it comes from."""
    root = project.locate(start)
    sources = config.sources(root)
    out = []
    named = {f"{_TABLES}.{name}": agent for name, agent in sources.config.agents.items()}
    plain = {name: getattr(sources.config, name) for name in config.Config.model_fields if name != _TABLES}
    for section, model in {**plain, **named}.items():
        for name in type(model).model_fields:
            value = model.model_dump(mode="json")[name]
            out.append({"name": f"{section}.{name}", "value": value, "origin": _origin(sources, section, name)})
    return out


def _origin(sources: config.Sources, section: str, name: str) -> str:
    def sets(values: dict[str, Any]) -> bool:
        for part in section.split(".", 1):
            values = values.get(part, {})
        return name in values

    if sets(sources.project if sources.is_trusted or not sources.split.grants else sources.split.always):
        return config.NAME
    origin = "your config.toml" if sets(sources.user) else "default"
    return f"{origin} ({config.NAME} is not trusted)" if sets(sources.project) else origin
