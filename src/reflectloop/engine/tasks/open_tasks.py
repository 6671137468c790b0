"""Open and find the task of a plan, latch it after a failure, and lift its latch again."""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from reflectloop.artifacts import next_command, views
from reflectloop.errors import Latched, MaxRetries, NothingToDo, ReflectloopError
from reflectloop.plan.load import LoadedPlan
from reflectloop.state import events, latch
from reflectloop.state.fold import COUNTED, Task
from reflectloop.state.journal import Journal, OnEvent
from reflectloop.state.transitions import TaskState
from reflectloop.system import clock, files
from reflectloop.workspace.folders import TASK_ID, Folders, read_id_file

# Errors that stop the whole project, not only the task.
STOPPING = frozenset(("SECRET_LEAK", "SANDBOX_ESCAPE", "MAX_RETRIES", "BUDGET_SPENT"))
_PAUSE_REQUEST = "asked"
PAUSED_AS_ASKED = "paused as requested, before the next step"

# The task of a plan ------------------------------------------------------------------------------------------------


def plan_key(folders: Folders, path: Path) -> str:
    """Return the path of a plan as tasks store it: relative to the project if the plan lies inside."""
    full = path.resolve()
    return str(full.relative_to(folders.root)) if full.is_relative_to(folders.root) else str(full)


def _pointer(folders: Folders, key: str) -> Path:
    return folders.own / "open" / hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def find_open(folders: Folders, key: str) -> Task | None:
    """Return the task in which this plan is being worked on, if its journal says that it is not done."""
    task_id = read_id_file(_pointer(folders, key), TASK_ID)
    if task_id is None:
        return None
    task = folders.load_task(task_id)
    over = task.passed or task.state is TaskState.ABORTED
    return task if task.plan_path == key and not over else None


def open_journal(
    folders: Folders, task: Task | None, key: str, title: str, at: datetime, tell: OnEvent, *, current: bool = True
) -> tuple[Journal, Task]:
    """Open the journal of the task, or of a new one if there is none.

    `current` makes it the task that other commands are about.
    """
    if task is None:
        task = Task(id=clock.task_id(at), plan_path=key, title=title)
        journal = folders.open_journal(task.id, tell)
        journal.append(events.TaskOpened(task_id=task.id, plan_path=key, title=title))
        files.write_atomic(_pointer(folders, key), task.id + "\n")
    else:
        journal = folders.open_journal(task.id, tell)
    if current:
        folders.set_current_task(task.id)
    return journal, task


def close(folders: Folders, task: Task) -> None:
    _pointer(folders, task.plan_path).unlink(missing_ok=True)


# Latches ----------------------------------------------------------------------------------------------------------


def admit(task: Task | None, loaded: LoadedPlan, base_tree: str) -> events.LatchCleared | None:
    """Raise Latched if neither plan nor project changed since the last failure.

    Return the event that clears the latch if one of them did, and None if there is no latch.
    """
    current = task.latch if task else None
    if current is None:
        return None
    if current.plan_hash != loaded.plan.hash:
        return events.LatchCleared(how="plan_changed", reason="the plan asks for other work now")
    if current.base_tree != base_tree:
        return events.LatchCleared(how="tree_changed", reason="the project changed since")
    where = f" at step {current.step_id}" if current.step_id else ""
    reason = current.reason.removeprefix(f"step {current.step_id}: ")
    raise Latched(
        f"nothing changed since {current.run_id} failed with {current.error_code}{where}: {reason}",
        next_step="change the plan or the project; if you fixed something else: reflectloop retry --reason TEXT",
    )


def escalate(task: Task, error: ReflectloopError, allowed: int, run_id: str) -> ReflectloopError:
    """Return the error itself, or MAX_RETRIES with the history if the task has failed too often."""
    if error.code not in COUNTED or error.code in STOPPING:
        return error
    past = task.failures
    if len(past) + 1 < allowed:
        return error
    history = [f"{run.id}: {run.error_code}" for run in past]
    text = "; ".join([*history, f"{run_id}: {error.code}: {error.message}"])
    return MaxRetries(f"{len(past) + 1} runs of this task have failed. {text}", faults=error.faults)


class FailurePlace(NamedTuple):
    """The run and the work that a failure belongs to."""

    run_id: str
    step_id: str | None
    plan_hash: str
    base_tree: str


def set_latch(
    folders: Folders, journal: Journal, error: ReflectloopError, place: FailurePlace, signature: str = ""
) -> latch.Stop | None:
    """Latch the task after a failure of its work, or the whole project after an error that stops it."""
    if error.code not in COUNTED and not error.stops:
        return None
    stop = _stop(error, place)
    grade = "stop" if stops(error) else "failure"
    journal.append(
        events.LatchSet(
            id=stop.id,
            grade=grade,
            reason=stop.reason,
            error_code=stop.error_code,
            signature=signature,
            **place._asdict(),
        )
    )
    if grade == "stop":
        latch.set_stop(folders.own, stop)
    return stop


def stop_project(folders: Folders, error: ReflectloopError, place: FailurePlace) -> None:
    """Latch the project for an error that happened before the run had a journal."""
    latch.set_stop(folders.own, _stop(error, place))


def stops(error: ReflectloopError) -> bool:
    """Return True if the error stops the whole project, not only its task."""
    return error.stops or error.code in STOPPING


def _stop(error: ReflectloopError, place: FailurePlace) -> latch.Stop:
    return latch.make(clock.now(), reason=error.message, error_code=error.code, **place._asdict())


def latched_task(folders: Folders) -> Task:
    """Return the current task if its last run failed, for `retry`."""
    task = folders.load_current()
    failed = task.last_run is not None and task.last_run.status == "failed"
    if task.passed or task.state is TaskState.ABORTED or not (task.latch or failed):
        raise NothingToDo("there is no failed task to retry", next_step=next_command.NEW_RUN)
    return task


def clear(folders: Folders, task_id: str, how: str, reason: str) -> None:
    views.append_events(folders, task_id, [events.LatchCleared(how=how, reason=reason)])


class UnlockResult(NamedTuple):
    stop: latch.Stop
    again: str  # the command that continues the task, and what a person must do before


def unlock(folders: Folders, reason: str) -> UnlockResult:
    """Lift the project's latch and record the reason in the journal of the task that was stopped."""
    stop = latch.read_stop(folders.own)
    if stop is None:
        task = folders.load_current()
        is_latched = task.latch is not None and not task.passed
        raise NothingToDo(
            "the project is not stopped" + ("; only its task is, by a failed run" if is_latched else ""),
            next_step=next_command.RETRY if is_latched else next_command.STATUS,
        )
    owner = next((task for task in folders.load_tasks() if stop.run_id in task.runs), None)
    if owner:
        clear(folders, owner.id, "unlock", reason)
    latch.clear_stop(folders.own)
    return UnlockResult(stop, next_command.after_unlock(owner, stop.error_code))


# Pausing ----------------------------------------------------------------------------------------------------------


def request_pause(folders: Folders) -> None:
    """Ask the running engine to stop before its next step."""
    files.write_atomic(folders.own / _PAUSE_REQUEST, "pause\n")


def withdraw_pause(folders: Folders) -> None:
    (folders.own / _PAUSE_REQUEST).unlink(missing_ok=True)


def pause_requested(folders: Folders) -> str | None:
    """Return the reason to pause if a user asked for it, and withdraw the request; None otherwise."""
    if not (folders.own / _PAUSE_REQUEST).exists():
        return None
    withdraw_pause(folders)
    return PAUSED_AS_ASKED
