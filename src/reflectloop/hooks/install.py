"""Enter hooks, skills and subagents into a client's folders, look whether they are there, and take them out again.

A ledger remembers each file: as it was, the hash of what it became, and every fragment. A file that nobody touched
since gets its old bytes back; in any other file exactly our fragments are removed, and an edited file of ours stays.
"""

from __future__ import annotations

import difflib
import itertools
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.hooks import client_files, codex_trust, json_files, pieces
from reflectloop.hooks.answering import CHECK
from reflectloop.hooks.clients import CLIENTS
from reflectloop.hooks.fragments import SETTINGS, Fragment, Scope
from reflectloop.hooks.model import HookEvent
from reflectloop.hooks.pieces import Entry, Piece
from reflectloop.system import clock, files, process
from reflectloop.trust import installed
from reflectloop.workspace.folders import open_project_dirs

_TRY_S = 60.0


class Edit(NamedTuple):
    """The change of one file."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int = 0o666
    whole: bool = False  # all of the file is ours

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def diff(self) -> list[str]:
        if self.whole and (self.before is None or self.after is None):
            lines = (self.after or self.before or b"").count(b"\n")
            return [f"{'+' if self.before is None else '-'} {self.path} ({lines} lines)"]
        old = (self.before or b"").decode("utf-8", "replace").splitlines()
        new = (self.after or b"").decode("utf-8", "replace").splitlines()
        name = os.fspath(self.path)
        return [line.rstrip("\n") for line in difflib.unified_diff(old, new, name, name, lineterm="")]


class Place(NamedTuple):
    """One client's files in the project, the home folder or a plugin folder."""

    client: str
    scope: Scope
    path: Path  # the file with the hooks, or the folder
    ledger: Path
    root: Path  # the project, the home folder or the plugin folder

    @property
    def name(self) -> str:
        return f"{self.client} {self.scope} {self.root}"

    @property
    def command(self) -> str:
        """The command that installs here."""
        if self.scope == "plugin":
            return "reflectloop install claude --plugin"
        return f"reflectloop install {self.client}{' --user' if self.scope == 'user' else ''}"

    def key(self, path: Path) -> str:
        return f"{self.client} {path}"

    def pieces(self, command: str) -> list[Piece]:
        return client_files.pieces(self.client, self.scope, self.root, command)


class InstallPlan(NamedTuple):
    """The changes of an installation or its removal, the ledger afterwards, and what stays as others left it."""

    edits: list[Edit]
    ledger: dict[str, Entry]
    left: list[str]

    @property
    def changes(self) -> bool:
        return any(edit.changes for edit in self.edits)

    def diff(self) -> list[str]:
        return [line for edit in self.edits if edit.changes for line in edit.diff()]


def place(client: str, scope: Scope, start: Path, home: Path) -> Place:
    ledger = installed.path()
    if scope == "plugin":
        folder = ledger.parent / "plugin"
        return Place("plugin", scope, folder, ledger, folder)
    root = open_project_dirs(start).root if scope == "project" else home
    shown = SETTINGS[client].files[scope] if client in SETTINGS else "."
    return Place(client, scope, Path(os.path.realpath(root / shown)), ledger, root)


def program() -> str:
    """Return the name by which a client finds this program: from PATH, or its own path."""
    here = Path(sys.argv[0]).absolute()
    named = shutil.which("reflectloop")
    if named and Path(named).exists() and here.exists() and Path(named).samefile(here):
        return "reflectloop"
    beside = Path(sys.executable).parent / "reflectloop"
    return os.fspath(beside if beside.exists() else here)


# Installing --------------------------------------------------------------------------------------------------------


def plan_install(at: Place, command: str) -> InstallPlan:
    """Return the changes that enter everything; other versions of our own are replaced, what others wrote stays."""
    ledger = _ledger(at)
    plan = InstallPlan([], dict(ledger), [])
    wanted = at.pieces(command)
    for _, group in itertools.groupby(wanted, key=lambda item: item.unit or str(item.path)):
        _plan_unit(at, list(group), plan)
    current = {at.key(item.path) for item in wanted}
    for key, entry in _entries(at, ledger).items():
        if key not in current:  # a file of an earlier version
            _plan_removal(key, entry, plan)
    return plan


def _plan_unit(at: Place, group: list[Piece], plan: InstallPlan) -> None:
    raws = {item.path: pieces.read(item.path) for item in group}
    known = {item.path: _of_path(plan.ledger, item.path) for item in group}
    if any(item.is_foreign(raws[item.path], known[item.path].values()) for item in group):
        plan.left.append(group[0].unit)
        return
    for item in group:
        raw, entries = raws[item.path], known[item.path]
        mine = entries.get(at.key(item.path)) or next(iter(entries.values()), None)
        after = item.entered(raw, mine)
        edit = Edit(item.path, raw, after, item.mode, item.content is not None)
        plan.edits.append(edit)
        digest = installed.digest(after)
        original = mine if mine and mine["after"] == installed.digest(raw) else None
        new = {
            "before": original["before"] if original else pieces.encoded(raw),
            "after": digest,
            "place": at.name,
            "folders": original["folders"]
            if original and "folders" in original
            else _new_folders(plan.ledger, item.path),
            **item.remembered(),
        }
        plan.ledger.update({key: {**entry, "after": digest} for key, entry in entries.items()})
        plan.ledger[at.key(item.path)] = new


def _new_folders(ledger: Mapping[str, Entry], path: Path) -> list[str]:
    """Return the folders of a file that are there only because of an installation, the deepest first."""
    ours = {folder for entry in ledger.values() for folder in entry.get("folders", ())}
    above = map(os.fspath, path.parents)
    return list(itertools.takewhile(lambda folder: folder in ours or not Path(folder).exists(), above))


def carry_out(at: Place, plan: InstallPlan) -> None:
    """Write the ledger first, so that whatever is written after it can be taken back; then the files."""
    folders = {
        folder for key, entry in _ledger(at).items() if key not in plan.ledger for folder in entry.get("folders", ())
    }
    if plan.ledger:
        files.write_atomic(at.ledger, json.dumps(plan.ledger, indent=2) + "\n", mode=0o600)
    for edit in plan.edits:
        if edit.after is None:
            edit.path.unlink(missing_ok=True)
        elif edit.changes:
            _write(edit)
    for folder in sorted(folders, key=len, reverse=True):
        if Path(folder).is_dir() and not any(Path(folder).iterdir()):
            Path(folder).rmdir()
    if not plan.ledger:
        at.ledger.unlink(missing_ok=True)


# Taking out --------------------------------------------------------------------------------------------------------


def plan_uninstall(at: Place) -> InstallPlan:
    """Return the changes that take everything of ours out, and what somebody edited and we leave there."""
    ledger = _ledger(at)
    entries = _entries(at, ledger)
    if not entries:
        raise NothingToDo(f"nothing of ours is known in {at.path}", next_step=at.command)
    plan = InstallPlan([], dict(ledger), [])
    for key, entry in entries.items():
        _plan_removal(key, entry, plan)
    return plan


def _plan_removal(key: str, entry: Entry, plan: InstallPlan) -> None:
    path = Path(key.partition(" ")[2])
    del plan.ledger[key]
    if _of_path(plan.ledger, path):  # another client reads the same file
        return
    raw = pieces.read(path)
    after, left = pieces.taken_out(path, raw, entry)
    plan.left.extend(left)
    plan.edits.append(Edit(path, raw, after, whole=not entry["fragments"] and not entry.get("block")))


# Looking -----------------------------------------------------------------------------------------------------------


class InstallCheck(NamedTuple):
    """The faults of an installation, and the files that stay as somebody else wrote them."""

    faults: list[str]
    left: list[str]


def check(at: Place, command: str) -> InstallCheck:
    """Return what is wrong: something is missing or of another version, or a command does not answer."""
    ledger = _ledger(at)
    read = [(item, pieces.read(item.path)) for item in at.pieces(command)]
    foreign = [item for item, raw in read if item.is_foreign(raw, _of_path(ledger, item.path).values())]
    left = [os.fspath(item.path) for item in foreign]
    units = {item.unit for item in foreign}  # somebody's own skill is whole without our pages
    faults = [fault for item, raw in read if item.unit not in units or not item.unit for fault in item.faults(raw)]
    faults = faults or _tried(at, command)
    if not faults and at.client == "codex":
        faults = codex_trust.faults(at.root, commands(at.client, command))
    return InstallCheck(faults, left)


def commands(client: str, program_name: str) -> list[str]:
    """Return the commands of all hooks of a client."""
    lines = (_command_line(item.value) for item in _fragments(client, program_name))
    return [line for line in lines if line]


def _fragments(client: str, program_name: str) -> list[Fragment]:
    return SETTINGS[client].fragments(program_name) if client in SETTINGS else []


def _tried(at: Place, command: str) -> list[str]:
    """Run the command of each hook as the client would, and return which do not answer."""
    if at.client == "git":
        [hook] = at.pieces(command)
        return _fault_of(["sh", "-c", shlex.quote(str(hook.path))], at.root, b"", "git pre-push")
    lines = {item.keys[-1]: _command_line(item.value) for item in _fragments(at.client, command)}
    given = {event: line for event, line in lines.items() if line}
    return silent_hooks(at.client, given, at.root if at.scope == "project" else None)


def _fault_of(argv: list[str], folder: Path, stdin: bytes, name: str) -> list[str]:
    """Return how a hook failed, if it did."""
    try:
        done = process.capture(argv, cwd=folder, stdin=stdin, timeout_s=_TRY_S)
    except (TimeoutError, OSError) as fault:
        return [f"{name}: {fault}"]
    text = done.stderr.decode("utf-8", "replace").strip()[-200:]
    return [f"{name}: exit code {done.code}: {text}"] if done.code != 0 else []


def _command_line(value: object) -> str:
    if not isinstance(value, dict):
        return ""
    inner = value.get("hooks")
    handler: dict[str, Any] = inner[0] if isinstance(inner, list) and inner else value
    return str(handler.get("command") or handler.get("bash") or "")


# The ledger --------------------------------------------------------------------------------------------------------


def _ledger(at: Place) -> dict[str, Entry]:
    _, document = json_files.read(at.ledger)
    return document


def is_entered(at: Place) -> bool:
    """Return True if this user installed something at a place."""
    return bool(_entries(at, _ledger(at)))


def _entries(at: Place, ledger: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return what was entered at a place; an earlier version remembered only the file with the hooks."""
    return {
        key: entry
        for key, entry in ledger.items()
        if (entry["place"] == at.name if "place" in entry else key == at.key(at.path))
    }


def _of_path(ledger: Mapping[str, Entry], path: Path) -> dict[str, Entry]:
    return {key: entry for key, entry in ledger.items() if key.partition(" ")[2] == str(path)}


def _write(edit: Edit) -> None:
    path = edit.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else edit.mode
        files.write_atomic(path, edit.after or b"", mode=mode)
    except OSError as fault:
        raise InvalidInput(f"{path} cannot be written: {fault.strerror}", next_step=f"look at {path}") from fault


# Hooks that are live ------------------------------------------------------------------------------------------------
# Each hook is run as its client would, with an event that only our program can answer.

_ANSWER_S = 60.0
_FORBIDDEN = shlex.join(("rm", "-rf", "/"))


def silent_hooks(client: str, commands: Mapping[str, str], root: Path | None) -> list[str]:
    """Return which hooks do not answer, by the command of each event; in a project also one that refuses nothing."""
    out = [fault for event, line in commands.items() for fault in _silent_hook(client, event, line)]
    if out or root is None:
        return out
    judging = [event for event in commands if CLIENTS[client].events.get(event) is HookEvent.BEFORE_TOOL]
    return [fault for event in judging for fault in _lets_pass(client, event, commands[event], root)]


def _silent_hook(client: str, event: str, line: str) -> list[str]:
    mark = clock.mark()
    stdout, fault = _run_hook(line, {CHECK: mark, "session_id": "check", "cwd": "/", "stop_hook_active": False})
    if fault:
        return [f"{client} {event}: {fault}"]
    try:
        document = json.loads(stdout)
    except ValueError:
        document = None
    given = document if isinstance(document, dict) else {}
    if (given.get(CHECK), given.get("client"), given.get("event")) != (mark, client, event):
        return [f"{client} {event}: another program answers, or none: {stdout[:80]!r}"]
    return []


def _lets_pass(client: str, event: str, line: str, root: Path) -> list[str]:
    """Return a fault if a command that is always refused is not."""
    call = {"tool_name": "Bash", "toolName": "bash", "tool_input": {"command": _FORBIDDEN}}
    call["toolArgs"] = {"command": _FORBIDDEN}
    stdout, fault = _run_hook(line, {"session_id": "check", "cwd": str(root), **call})
    if not fault and '"deny"' not in stdout:
        fault = f"it lets {_FORBIDDEN} pass"
    return [f"{client} {event}: {fault}"] if fault else []


def _run_hook(line: str, event: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a hook prints, and how it failed if it did."""
    try:
        done = process.capture(["sh", "-c", line], cwd=Path("/"), stdin=json.dumps(event).encode(), timeout_s=_ANSWER_S)
    except (TimeoutError, OSError) as fault:
        return "", str(fault)
    text = done.stderr.decode("utf-8", "replace").strip()[-200:]
    return done.stdout.decode("utf-8", "replace"), f"exit code {done.code}: {text}" if done.code else ""
