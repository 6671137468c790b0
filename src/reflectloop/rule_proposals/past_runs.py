"""Past work of a project, run by run: what it was to execute, what it changed, and what came of it. Writes nothing."""

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
from reflectloop.workspace.folders import Folders, RunFolder
from reflectloop.workspace.store import Store

Command = str | tuple[str, ...]
Fate = Literal["passed", "failed", "undecided"]  # undecided: the machine or a person ended it, not the work
_OF_THE_WORK = COUNTED | {"GATE_REJECTED"}
_POINTER = "pointer.json"


class ChangeLost(Exception):
    """What a run changed is not kept any more."""


class LocatedCommand(NamedTuple):
    place: str
    command: Command


class PastRun(NamedTuple):
    """One run or request that came to an end."""

    id: str
    fate: Fate
    error_code: str | None
    commands: tuple[LocatedCommand, ...]
    changes: Callable[[], tuple[ChangedFile, ...]] = tuple  # read when asked for, which costs; raises Gone
    failed_at: str = ""  # the command that failed
    unread: str = ""  # why some of it could not be looked at


class UnreadableRun(NamedTuple):
    id: str
    why: str


class History(NamedTuple):
    past: tuple[PastRun, ...]
    unread: tuple[UnreadableRun, ...]  # journals that are damaged


def of(folders: Folders) -> History:
    """Everything that came to an end, the oldest first; what cannot be read is named and does not stop the rest."""
    found: list[PastRun] = []
    unread: list[UnreadableRun] = []
    for path in sorted((folders.own / "tasks").glob("T-*/journal.jsonl"), key=lambda path: path.parent.name):
        try:
            task = fold(journal.read(path))
        except ReflectloopError as fault:
            unread.append(UnreadableRun(path.parent.name, fault.message))
            continue
        found += _runs(folders, task)
    found += _requests(folders)
    return History(tuple(found), (*unread, *(UnreadableRun(one.id, one.unread) for one in found if one.unread)))


def _runs(folders: Folders, task: Task) -> Iterator[PastRun]:
    for run in task.runs.values():
        if run.status != "running" and run.mode != events.IMPORTED:
            yield of_run(folders, run)


def of_run(folders: Folders, run: RunState) -> PastRun:
    commands, no_plan = _planned(folders, run)
    ended = [step.ended for step in run.steps.values() if step.ended and not step.ended.success]
    failed_at = ended[0].command if ended else ""
    fate: Fate = "passed" if run.status == "ok" else "failed" if run.error_code in _OF_THE_WORK else "undecided"
    changes = partial(_changed, folders, run)
    return PastRun(run.id, fate, run.error_code, tuple(commands), changes, failed_at, no_plan)


def _planned(folders: Folders, run: RunState) -> tuple[Sequence[LocatedCommand], str]:
    """By the plan as it was then; of a run without one, what its steps were shown by."""
    copies = sorted(RunFolder(folders.own / "runs" / run.id).path.glob("plan.*"))
    if copies:
        try:
            return [LocatedCommand(*item) for item in plans.load(copies[0]).plan.commands()], ""
        except ReflectloopError as fault:
            return (), fault.message
    shown = [
        LocatedCommand(f"step {step.id}, check {number}", str(check["command"]))
        for step in run.steps.values()
        for number, check in enumerate(step.ended.checks if step.ended else (), 1)
        if check.get("command")
    ]
    is_planned = run.mode in ("git", "copy")
    return shown, "its plan is gone" if is_planned else ""


def _changed(folders: Folders, run: RunState) -> tuple[ChangedFile, ...]:
    if run.end_tree in (None, run.base_tree):
        return ()
    store = Store(folders.own / "git", "")
    try:
        return tuple(TreeBuilder(store, folders.own / "tmp", store.objects).changes(run.base_tree, str(run.end_tree)))
    except (GitFailed, ValueError, OSError) as fault:
        raise ChangeLost("what it changed is not kept any more") from fault


def _requests(folders: Folders) -> Iterator[PastRun]:
    """Those that were carried out, by what was answered."""
    for path in sorted((folders.own / "requests").glob("*.json")):
        said = _read(path) if path.name != _POINTER else None
        if said and said.get("status") in ("ok", "fail"):
            shown = said.get("proof", {}).get("commands", ())
            commands = [LocatedCommand(f"command {number}", _words(one["cmd"])) for number, one in enumerate(shown, 1)]
            good = said["status"] == "ok"
            name, code = f"request {said.get('id', path.stem[:12])}", None if good else "STEP_FAILED"
            yield PastRun(name, "passed" if good else "failed", code, tuple(commands))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        said = json.loads(path.read_bytes())
        return dict(said["response"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _words(command: str | list[str]) -> Command:
    return command if isinstance(command, str) else tuple(command)
