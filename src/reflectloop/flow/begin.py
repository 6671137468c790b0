"""`init` and `doctor`: what a project starts with, and what the machine gives."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal, NamedTuple

import reflectloop
from reflectloop import config
from reflectloop.errors import ReflectloopError
from reflectloop.flow.folders import folders_at
from reflectloop.plan.schema import plan_schema
from reflectloop.terms import Isolation
from reflectloop.workspace import project
from reflectloop.world import bubblewrap, files, git, process, tools

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


def settings_text() -> str:
    """Every setting with its default and what it means, commented out."""
    lines = [
        "# Settings of reflectloop for this project. Everything here is optional; these are the defaults.",
        "",
    ]
    for section, info in config.Config.model_fields.items():
        lines.append(f"[{section}]")
        for name, setting in type(info.default).model_fields.items():
            lines += [f"# {setting.description}", f"# {name} = {_toml(setting.default)}"]
        lines.append("")
    return "\n".join(lines)


def _toml(value: object) -> str:
    if value is None:
        return "…"
    if isinstance(value, tuple):
        return json.dumps(value)
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


class Made(NamedTuple):
    written: list[str]
    kept: list[str]


def init(start: Path) -> Made:
    """Write what is missing; what is there already is never touched."""
    folders = folders_at(start)
    wanted = {
        folders.root / config.NAME: settings_text(),
        folders.own / ".gitignore": "*\n",
        folders.own / "plan.yaml": _FIRST_PLAN,
        folders.own / "plan.schema.json": json.dumps(plan_schema(), indent=2) + "\n",
    }
    made = Made([], [])
    for path, text in wanted.items():
        name = os.fspath(path.relative_to(folders.root))
        if path.exists():
            made.kept.append(name)
        else:
            files.write_atomic(path, text)
            made.written.append(name)
    return made


class Finding(NamedTuple):
    name: str
    state: Literal["ok", "missing", "weak"]
    detail: str
    remedy: str = ""


class Diagnosis(NamedTuple):
    findings: list[Finding]
    level: Isolation

    @property
    def sound(self) -> bool:
        return all(finding.state != "missing" for finding in self.findings)


def doctor(start: Path) -> Diagnosis:
    findings = [_python(), _git(), _shell(), _namespace(), *_disk(start)]
    findings.append(_project(start))
    return Diagnosis(findings, Isolation.WORKSPACE)


def _python() -> Finding:
    detail = f"{platform.python_version()}, reflectloop {reflectloop.__version__}"
    return Finding("python", "ok" if sys.version_info >= (3, 11) else "missing", detail, "Python 3.11 or newer")


def _git() -> Finding:
    found = tools.find("git")
    if not found:
        return Finding("git", "missing", "not installed", "apt-get install git")
    version = git.version()
    text = ".".join(map(str, version))
    if version < git.MINIMUM:
        return Finding("git", "missing", f"{text} is too old", "git 2.38 or newer")
    return Finding("git", "ok", text)


def _shell() -> Finding:
    found = tools.find("bash")
    return (
        Finding("bash", "ok", found) if found else Finding("bash", "missing", "not installed", "apt-get install bash")
    )


def _namespace() -> Finding:
    reason = bubblewrap.refusal()
    if reason is None:
        version = process.capture([tools.need("bwrap"), "--version"]).stdout.decode().strip()
        return Finding("bubblewrap", "ok", f"{version}; each command has a process namespace of its own")
    detail = f"{reason}; commands are ended by process group and mark, and outlive a killed engine"
    return Finding("bubblewrap", "weak", detail, "apt-get install bubblewrap, and allow user namespaces")


def _disk(start: Path) -> list[Finding]:
    out = []
    for name, path in (("temp folder", Path(tempfile.gettempdir())), ("project folder", start)):
        try:
            free = shutil.disk_usage(path).free
        except OSError as fault:
            out.append(Finding(name, "missing", f"{path}: {fault.strerror}", f"make {path} readable"))
            continue
        writable = os.access(path, os.W_OK)
        state: Literal["ok", "missing", "weak"] = (
            "ok" if writable and free > 1 << 30 else "weak" if writable else "missing"
        )
        detail = f"{path}, {free / 1e9:.1f} GB free" + ("" if writable else ", not writable")
        out.append(Finding(name, state, detail, "free some space or choose another folder" if state != "ok" else ""))
    return out


def _project(start: Path) -> Finding:
    try:
        found = project.open_at(start)
    except ReflectloopError as fault:
        return Finding("repository", "weak", fault.message, fault.next_step)
    return Finding("repository", "ok", f"{found.root} on {found.branch or 'a detached HEAD'}")


def settings(start: Path) -> list[dict[str, Any]]:
    """Every setting in force, and whether it was set or is the default."""
    root = project.locate(start)
    values = config.load(root)
    out = []
    for section in config.Config.model_fields:
        model = getattr(values, section)
        for name in type(model).model_fields:
            value = model.model_dump(mode="json")[name]
            origin = config.NAME if name in model.model_fields_set else "default"
            out.append({"name": f"{section}.{name}", "value": value, "origin": origin})
    return out
