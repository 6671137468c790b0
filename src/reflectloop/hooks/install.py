"""Enter our hooks into a client's settings, look whether they are there, and take them out again.

A ledger remembers each edit: the file as it was, the hash of the file as it became, and every fragment. A file that
nobody touched since gets its old bytes back; in any other file exactly our fragments are removed.
"""

from __future__ import annotations

import base64
import difflib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.hooks import codex_trust, json_files
from reflectloop.hooks.fragments import SETTINGS, Fragment, Scope
from reflectloop.system import files, process
from reflectloop.trust import installed
from reflectloop.workspace.folders import open_project_dirs

_TRY_S = 60.0


class Edit(NamedTuple):
    """The change of one settings file."""

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def diff(self) -> list[str]:
        old = (self.before or b"").decode("utf-8", "replace").splitlines()
        new = (self.after or b"").decode("utf-8", "replace").splitlines()
        name = os.fspath(self.path)
        return [line.rstrip("\n") for line in difflib.unified_diff(old, new, name, name, lineterm="")]


class Place(NamedTuple):
    """One client's settings in the project or the home folder."""

    client: str
    scope: Scope
    path: Path
    ledger: Path
    root: Path  # the project, or the home folder

    @property
    def key(self) -> str:
        return f"{self.client} {self.path}"


def place(client: str, scope: Scope, start: Path, home: Path) -> Place:
    root = open_project_dirs(start).root if scope == "project" else home
    path = root / SETTINGS[client].files[scope]
    return Place(client, scope, Path(os.path.realpath(path)), installed.path(), root)


def program() -> str:
    """Return the name by which a client finds this program: from PATH, or its own path."""
    here = Path(sys.argv[0]).absolute()
    named = shutil.which("reflectloop")
    if named and Path(named).exists() and here.exists() and Path(named).samefile(here):
        return "reflectloop"
    beside = Path(sys.executable).parent / "reflectloop"
    return os.fspath(beside if beside.exists() else here)


def plan_install(at: Place, command: str) -> Edit:
    """Return the edit that enters all fragments; other versions of our entries are replaced."""
    raw, document = json_files.read(at.path)
    for fragment in _recorded(at):
        json_files.remove(document, fragment.keys, fragment.value)
    for fragment in SETTINGS[at.client].fragments(command):
        json_files.add(document, fragment.keys, fragment.value)
    after = json_files.text(document, raw)
    unchanged = raw is not None and json_files.read(at.path)[1] == document
    return Edit(at.path, raw, raw if unchanged else after)


def install(at: Place, command: str, edit: Edit) -> None:
    """Write the settings and the ledger."""
    known = _ledger(at).get(at.key)
    original = known["before"] if known and known["after"] == installed.digest(edit.before) else _encoded(edit.before)
    if edit.changes:
        _write(at.path, edit.after or b"")
    fragments = [[list(item.keys), item.value] for item in SETTINGS[at.client].fragments(command)]
    _write_ledger(at, {"before": original, "after": installed.digest(edit.after), "fragments": fragments})


def plan_uninstall(at: Place) -> tuple[Edit, list[str]]:
    """Return the edit that takes our fragments out, and what somebody edited and we leave there."""
    entry = _ledger(at).get(at.key)
    if not entry:
        raise NothingToDo(f"nothing of ours is known in {at.path}", next_step=f"reflectloop install {at.client}")
    raw, document = json_files.read(at.path)
    if installed.digest(raw) == entry["after"]:
        return Edit(at.path, raw, _decoded(entry["before"])), []
    left = []
    for fragment in _recorded(at):
        if not json_files.holds(document, fragment.keys, fragment.value):
            left.append(".".join(fragment.keys))
        json_files.remove(document, fragment.keys, fragment.value)
    return Edit(at.path, raw, json_files.text(document, raw) if document or raw is None else None), left


def uninstall(at: Place, edit: Edit) -> None:
    """Write the settings without our fragments; a file that we created and that is empty now is removed."""
    if edit.after is None:
        edit.path.unlink(missing_ok=True)
        folder = edit.path.parent
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    elif edit.changes:
        _write(edit.path, edit.after)
    ledger = _ledger(at)
    ledger.pop(at.key, None)
    if ledger:
        files.write_atomic(at.ledger, json.dumps(ledger, indent=2) + "\n")
    else:
        at.ledger.unlink(missing_ok=True)


def check(at: Place, command: str) -> list[str]:
    """Return what is wrong with the installation: a missing fragment, or a command that does not answer."""
    _, document = json_files.read(at.path)
    wanted = SETTINGS[at.client].fragments(command)
    faults = [
        f"{at.path}: {'.'.join(item.keys)} is missing or edited"
        for item in wanted
        if item.keys[0] == "hooks" and not json_files.holds(document, item.keys, item.value)
    ]
    faults = faults or _tried(at.client, wanted)
    if faults or at.client != "codex":
        return faults
    return codex_trust.faults(at.root, commands(at.client, command))


def commands(client: str, program_name: str) -> list[str]:
    """Return the commands of all hooks of a client."""
    lines = (_command_line(item.value) for item in SETTINGS[client].fragments(program_name))
    return [line for line in lines if line]


def _tried(client: str, wanted: list[Fragment]) -> list[str]:
    """Start the command of each hook once, in a folder that is no project, as the client would."""
    faults = []
    for fragment in wanted:
        line = _command_line(fragment.value)
        if not line:
            continue
        sample = json.dumps({"session_id": "check", "cwd": "/", "stop_hook_active": False}).encode()
        try:
            done = process.capture(["sh", "-c", line], cwd=Path("/"), stdin=sample, timeout_s=_TRY_S)
        except (TimeoutError, OSError) as fault:
            faults.append(f"{client} {fragment.keys[-1]}: {fault}")
            continue
        if done.code != 0:
            text = done.stderr.decode("utf-8", "replace").strip()[-200:]
            faults.append(f"{client} {fragment.keys[-1]}: exit code {done.code}: {text}")
    return faults


def _command_line(value: object) -> str:
    if not isinstance(value, dict):
        return ""
    inner = value.get("hooks")
    handler: dict[str, Any] = inner[0] if isinstance(inner, list) and inner else value
    return str(handler.get("command") or handler.get("bash") or "")


def _recorded(at: Place) -> list[Fragment]:
    entry = _ledger(at).get(at.key)
    return [Fragment(tuple(keys), value) for keys, value in entry["fragments"]] if entry else []


def _ledger(at: Place) -> dict[str, Any]:
    _, document = json_files.read(at.ledger)
    return document


def _write_ledger(at: Place, entry: dict[str, Any]) -> None:
    ledger = {**_ledger(at), at.key: entry}
    files.write_atomic(at.ledger, json.dumps(ledger, indent=2) + "\n", mode=0o600)


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666
        files.write_atomic(path, data, mode=mode)
    except OSError as fault:
        raise InvalidInput(f"{path} cannot be written: {fault.strerror}", next_step=f"look at {path}") from fault


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
