"""The past runs and requests of a project: their commands, their changes and their outcome. Reads only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflectloop.errors import ReflectloopError
from reflectloop.plan import load as plans
from reflectloop.state import events, journal
from reflectloop.state.fold import COUNTED, RunState, Task, fold
from reflectloop.system.git import GitFailed
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.store import Store

Command = str | tuple[str, ...]
Fate = Literal["passed", "failed", "undecided"]  # undecided: the machine or a person ended it, not the work
_FAILURES_OF_WORK = COUNTED | {"GATE_REJECTED"}
_POINTER = "pointer.json"


class ChangeLost(Exception):
    """The change of a run is not stored any more."""


class LocatedCommand(NamedTuple):
    place: str
    command: Command


class PastRun(NamedTuple):
    """One run or request that has ended."""

    id: str
    fate: Fate
    error_code: str | None
    commands: tuple[LocatedCommand, ...]
    changes: Callable[[], tuple[ChangedFile, ...]] = tuple  # read on demand, since it is slow; raises ChangeLost
    failed_at: str = ""  # the command that failed
    unread: str = ""  # why part of it could not be read


class UnreadableRun(NamedTuple):
    id: str
    why: str


class History(NamedTuple):
    past: tuple[PastRun, ...]
    unread: tuple[UnreadableRun, ...]  # damaged journals, and runs of which a part is missing


def read_history(folders: Folders) -> History:
    """Return every run and request that has ended, oldest first; unreadable ones are listed, not raised."""
    past: list[PastRun] = []
    unread: list[UnreadableRun] = []
    for path in sorted((folders.own / "tasks").glob("T-*/journal.jsonl"), key=lambda path: path.parent.name):
        try:
            task = fold(journal.read(path))
        except ReflectloopError as fault:
            unread.append(UnreadableRun(path.parent.name, fault.message))
            continue
        past += _runs(folders, task)
    past += _requests(folders)
    return History(tuple(past), (*unread, *(UnreadableRun(run.id, run.unread) for run in past if run.unread)))


def _runs(folders: Folders, task: Task) -> Iterator[PastRun]:
    for run in task.runs.values():
        if run.status != "running" and run.mode != events.IMPORTED:
            yield _past_run(folders, run)


def _past_run(folders: Folders, run: RunState) -> PastRun:
    commands, problem = _commands(folders, run)
    failed = [step.ended for step in run.steps.values() if step.ended and not step.ended.success]
    failed_at = failed[0].command if failed else ""
    fate: Fate = "passed" if run.status == "ok" else "failed" if run.error_code in _FAILURES_OF_WORK else "undecided"
    return PastRun(run.id, fate, run.error_code, tuple(commands), partial(_changed, folders, run), failed_at, problem)


def _commands(folders: Folders, run: RunState) -> tuple[Sequence[LocatedCommand], str]:
    """Return the commands of the run's copy of the plan, or else of its finished checks, and why some are missing."""
    copies = sorted(folders.run_folder(run.id).path.glob("plan.*"))
    if copies:
        try:
            return [LocatedCommand(*item) for item in plans.load(copies[0]).plan.commands()], ""
        except ReflectloopError as fault:
            return (), fault.message
    checks = [
        LocatedCommand(f"step {step.id}, check {number}", str(check["command"]))
        for step in run.steps.values()
        for number, check in enumerate(step.ended.checks if step.ended else (), 1)
        if check.get("command")
    ]
    had_plan = run.mode in ("git", "copy")
    return checks, "its plan is missing" if had_plan else ""


def _changed(folders: Folders, run: RunState) -> tuple[ChangedFile, ...]:
    if run.end_tree in (None, run.base_tree):
        return ()
    store = Store(folders.own / "git", "")
    try:
        return tuple(TreeBuilder(store, folders.own / "tmp", store.objects).changes(run.base_tree, str(run.end_tree)))
    except (GitFailed, ValueError, OSError) as fault:
        raise ChangeLost("its change is not stored any more") from fault


def _requests(folders: Folders) -> Iterator[PastRun]:
    """Yield the FileOps requests that were executed, by their stored responses."""
    for path in sorted((folders.own / "requests").glob("*.json")):
        response = _read_response(path) if path.name != _POINTER else None
        if response and response.get("status") in ("ok", "fail"):
            ran = response.get("proof", {}).get("commands", ())
            commands = [
                LocatedCommand(f"command {number}", _command(entry["cmd"])) for number, entry in enumerate(ran, 1)
            ]
            passed = response["status"] == "ok"
            name, code = f"request {response.get('id', path.stem[:12])}", None if passed else "STEP_FAILED"
            yield PastRun(name, "passed" if passed else "failed", code, tuple(commands))


def _read_response(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_bytes())["response"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _command(command: str | list[str]) -> Command:
    return command if isinstance(command, str) else tuple(command)
