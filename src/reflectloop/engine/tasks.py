"""Which task a plan belongs to, whether it may run now, and what a failed run does to it."""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from reflectloop.engine import next_command
from reflectloop.engine.artifacts import views
from reflectloop.engine.folders import TASK_ID, Folders, pointed
from reflectloop.errors import Latched, MaxRetries, NothingToDo, ReflectloopError
from reflectloop.plan.load import LoadedPlan
from reflectloop.state import events, journal, latch
from reflectloop.state.fold import COUNTED, Task, TaskKind, fold
from reflectloop.state.journal import Journal, OnEvent
from reflectloop.state.transitions import TaskState
from reflectloop.system import clock, files

# What stops the whole project, whoever comes next.
STOPPING = frozenset(("SECRET_LEAK", "SANDBOX_ESCAPE", "MAX_RETRIES", "BUDGET_SPENT"))


GATE = "gate:"  # begins the key of a task that no plan made


def plan_key(folders: Folders, path: Path) -> str:
    """A plan's path as tasks know it: from the top of the project where it lies inside."""
    full = path.resolve()
    return str(full.relative_to(folders.root)) if full.is_relative_to(folders.root) else str(full)


def _pointer(folders: Folders, key: str) -> Path:
    return folders.own / "open" / hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def find_open(folders: Folders, key: str) -> Task | None:
    """The task this plan is being worked on in. The pointer only says where to look; the journal decides."""
    task_id = pointed(_pointer(folders, key), TASK_ID)
    if task_id is None:
        return None
    task = fold(journal.read(folders.journal(task_id)))
    over = task.passed or task.state is TaskState.ABORTED
    return task if task.plan_path == key and not over else None


def open_journal(
    folders: Folders, task: Task | None, key: str, title: str, at: datetime, tell: OnEvent, *, current: bool = True
) -> tuple[Journal, Task]:
    """The journal to write to: the open task's, or a new one's. `current` makes it the task that commands are about."""
    if task is None:
        task = Task(clock.task_id(at), key, title)
        book = folders.open_journal(task.id, tell)
        book.append(events.TaskOpened(task_id=task.id, plan_path=key, title=title))
        files.write_atomic(_pointer(folders, key), task.id + "\n")
    else:
        book = folders.open_journal(task.id, tell)
    if current:
        folders.set_current_task(task.id)
    return book, task


def admit(task: Task | None, loaded: LoadedPlan, base_tree: str) -> events.LatchCleared | None:
    """Refuse to run the same plan on the same tree again; else say why the latch, if any, is gone."""
    held = task.latch if task else None
    if held is None:
        return None
    if held.plan_hash != loaded.plan.hash:
        return events.LatchCleared(how="plan_changed", reason="the plan asks for other work now")
    if held.base_tree != base_tree:
        return events.LatchCleared(how="tree_changed", reason="the project changed since")
    where = f" at step {held.step_id}" if held.step_id else ""
    reason = held.reason.removeprefix(f"step {held.step_id}: ")
    raise Latched(
        f"nothing changed since {held.run_id} failed with {held.error_code}{where}: {reason}",
        next_step="change the plan or the project; if something outside was mended: reflectloop retry --reason TEXT",
    )


def escalate(task: Task, error: ReflectloopError, allowed: int, run_id: str) -> ReflectloopError:
    """The failure itself, or MAX_RETRIES with the whole history when it was one too many."""
    if error.code not in COUNTED or error.code in STOPPING:
        return error
    past = task.failures
    if len(past) + 1 < allowed:
        return error
    history = [f"{run.id}: {run.error_code}" for run in past]
    told = "; ".join([*history, f"{run_id}: {error.code}: {error.message}"])
    return MaxRetries(f"{len(past) + 1} runs of this task have failed. {told}", faults=error.faults)


class FailurePlace(NamedTuple):
    """Which run of which work a failure belongs to."""

    run_id: str
    step_id: str | None
    plan_hash: str
    base_tree: str


def set_latch(
    folders: Folders, book: Journal, error: ReflectloopError, place: FailurePlace, signature: str = ""
) -> latch.Stop | None:
    """A failure of the work holds the task; a stop holds the project."""
    if error.code not in COUNTED and not error.stops:
        return None
    stop = _made(error, place)
    grade = "stop" if stops(error) else "failure"
    book.append(
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
    """For what is found before the run has a journal to say it in."""
    latch.set_stop(folders.own, _made(error, place))


def stops(error: ReflectloopError) -> bool:
    """Whether it holds the whole project, not only its task."""
    return error.stops or error.code in STOPPING


def _made(error: ReflectloopError, place: FailurePlace) -> latch.Stop:
    return latch.make(clock.now(), reason=error.message, error_code=error.code, **place._asdict())


def close(folders: Folders, task: Task) -> None:
    _pointer(folders, task.plan_path).unlink(missing_ok=True)


def latched_task(folders: Folders) -> Task:
    """The task that `retry` is about: the current one, if its last run failed."""
    current = folders.current_task()
    task = fold(journal.read(folders.journal(current))) if current else Task()
    last = list(task.runs.values())[-1:] if task.runs else []
    if (
        task.passed
        or task.state is TaskState.ABORTED
        or not (task.latch or any(run.status == "failed" for run in last))
    ):
        raise NothingToDo("no failed task is waiting here", next_step="reflectloop run PLAN")
    return task


def clear(folders: Folders, task_id: str, how: str, reason: str) -> None:
    book = folders.open_journal(task_id)
    try:
        book.append(events.LatchCleared(how=how, reason=reason))
    finally:
        book.close()
    views.refresh(book.path.parent)


class UnlockResult(NamedTuple):
    stop: latch.Stop
    plan_path: str  # of the task that was stopped; empty where no task is known
    kind: TaskKind = TaskKind.RUN

    @property
    def again(self) -> str:
        """The command that goes on with it."""
        if self.kind is TaskKind.AGENTS:
            return next_command.BY_AGENTS
        by_gate = self.plan_path.startswith(GATE)
        return "reflectloop gate --contract FILE" if by_gate else f"reflectloop run {self.plan_path}".rstrip()


def unlock(folders: Folders, reason: str) -> UnlockResult:
    """Lift the stop latch. A person says why, and the journal keeps it."""
    stop = latch.read_stop(folders.own)
    if stop is None:
        current = folders.current_task()
        task = fold(journal.read(folders.journal(current))) if current else Task()
        held = task.latch is not None and not task.passed
        raise NothingToDo(
            "nothing is stopped here" + ("; a failed run holds this task only" if held else ""),
            next_step="reflectloop retry --reason TEXT" if held else "reflectloop status",
        )
    owner = next((one for one in _all(folders) if stop.run_id in one.runs), None)
    if owner:
        clear(folders, owner.id, "unlock", reason)
    latch.clear_stop(folders.own)
    last = owner.last_run if owner else None
    return UnlockResult(stop, owner.plan_path if owner else "", last.kind if last else TaskKind.RUN)


def _all(folders: Folders) -> list[Task]:
    return [fold(journal.read(path)) for path in (folders.own / "tasks").glob("T-*/journal.jsonl")]
