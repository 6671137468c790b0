"""Commands of a person on the current task: pause, abort, skip, answer, redo, rewind, fork."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.artifacts import next_command, triflow, views
from reflectloop.engine.tasks import open_tasks, task_plan
from reflectloop.errors import InvalidInput, Locked, NothingToDo
from reflectloop.plan import load as plans
from reflectloop.plan.model import Plan
from reflectloop.state import events, lock
from reflectloop.state.fold import RunState, Task, TaskKind
from reflectloop.state.journal import Journal
from reflectloop.state.transitions import TaskState
from reflectloop.system import clock
from reflectloop.workspace import secret_guard
from reflectloop.workspace.folders import TASK_ID, Folders, RunFolder, open_project_dirs
from reflectloop.workspace.store import Store

REDO = "redo"


class ControlResult(NamedTuple):
    """The message about what was done, and the next command."""

    task_id: str
    run_id: str
    message: str
    next_step: str
    steps: tuple[str, ...] = ()
    ticket: str | None = None  # for a reflection on why it is done again

    def as_data(self) -> dict[str, Any]:
        """Return the result as `--json` prints it, with the message as `said`."""
        return {"said" if name == "message" else name: value for name, value in self._asdict().items()}


class _LockedTask(NamedTuple):
    """The current task, locked, with its journal open for writing."""

    folders: Folders
    task: Task
    run: RunState
    journal: Journal

    def next_command(self) -> str:
        """Return the command that continues the run, by what the journal says now."""
        return next_command.command(self.folders.load_task(self.task.id).runs[self.run.id])

    def plan(self) -> Plan:
        """Return the plan as it was when the run began."""
        if self.run.kind.is_stepwise:
            return task_plan.plan_of(self.task, self.run)
        return plans.load(self.folders.run_folder(self.run.id).saved_plan()).plan


@contextmanager
def _locked(start: Path, purpose: str) -> Iterator[_LockedTask]:
    """Lock the project and open the journal of its current task, which must not have ended."""
    folders = open_project_dirs(start)
    with lock.hold_lock(folders.own, purpose):
        task = folders.load_current()
        if task.last_run is None:
            raise NothingToDo("no task has been started here", next_step=next_command.NEW_RUN)
        if task.state in (TaskState.DONE, TaskState.ABORTED):
            raise NothingToDo(f"task {task.id} is {task.state}", next_step=next_command.NEW_RUN)
        with views.edit_journal(folders, task.id) as journal:
            yield _LockedTask(folders, task, task.last_run, journal)


def use(start: Path, name: str) -> ControlResult:
    """Make a task the current one: autoloop sets one aside that waits for a person."""
    folders = open_project_dirs(start)
    with lock.hold_lock(folders.own, "tasks"):
        if not TASK_ID.fullmatch(name) or not folders.journal(name).is_file():
            raise NothingToDo(f"there is no task {name!r}", next_step="reflectloop tasks")
        run = folders.load_task(name).last_run
        folders.set_current_task(name)
        follow = next_command.for_task(run) if run else next_command.STATUS
        return ControlResult(name, run.id if run else "", f"task {name} is the current one", follow)


# Pausing ------------------------------------------------------------------------------------------------------


def pause(start: Path) -> ControlResult:
    """Pause the current run; if an engine is at work on it, ask that engine to stop before its next step."""
    try:
        with _locked(start, "pause") as locked:
            if locked.run.status != "running":
                raise NothingToDo(f"{locked.run.id} has ended", next_step=f"reflectloop show {locked.run.id}")
            if locked.task.state is not TaskState.PAUSED:
                locked.journal.append(events.RunPaused(run_id=locked.run.id, reason="paused by the user"))
            return ControlResult(locked.task.id, locked.run.id, f"{locked.run.id} is paused", next_command.RESUME)
    except Locked:
        folders = open_project_dirs(start)
        open_tasks.request_pause(folders)
        message = "the engine will stop before its next step"
        return ControlResult(folders.current_task() or "", "", message, next_command.STATUS)


def abort(start: Path, reason: str) -> ControlResult:
    """Abort the current task for good. An engine at work on it is stopped first, with everything it started."""
    secret_guard.refuse_secret_text(reason, "the reason")
    _stop_engine(open_project_dirs(start))
    with _locked(start, "abort") as locked:
        open_tasks.withdraw_pause(locked.folders)  # nothing is left to pause
        for name in [step.id for step in locked.run.steps.values() if step.status == "running"]:
            locked.journal.append(events.StepInterrupted(run_id=locked.run.id, step_id=name))
        locked.journal.append(events.Aborted(reason=reason))
        return ControlResult(locked.task.id, locked.run.id, f"task {locked.task.id} is aborted", "reflectloop gc")


def _stop_engine(folders: Folders) -> None:
    """Send SIGTERM, which lets it clean up, to the engine that holds the project's lock, and wait until it ended."""
    try:
        with lock.hold_lock(folders.own, "abort"):
            return
    except Locked:
        pid = lock.owner_pid(folders.own / "lock")
    if pid:
        os.kill(pid, signal.SIGTERM)
        with lock.hold_lock(folders.own, "abort", wait=lambda _: None):
            return


# Changing what is to be done ------------------------------------------------------------------------------------


def _named_step(run: RunState, name: str) -> str:
    """Return the id of a step that is named by its id, or by its place in TriFlow's files such as `2.3`."""
    return name if name in run.steps else triflow.indexes(run).get(name, name)


def skip(start: Path, step_id: str, reason: str) -> ControlResult:
    secret_guard.refuse_secret_text(reason, "the reason")
    with _locked(start, "skip") as locked:
        step_id = _named_step(locked.run, step_id)
        step = locked.run.steps.get(step_id)
        if step is None or step.status not in ("pending", "failed", "running", "blocked"):
            raise _wrong_step(locked.run, step_id, "wait, fail, ask or be half done", step.status if step else None)
        _reopen(locked)
        if step.status == "running":
            locked.journal.append(events.StepInterrupted(run_id=locked.run.id, step_id=step_id))
        locked.journal.append(events.StepSkipped(run_id=locked.run.id, step_id=step_id, reason=reason))
        if locked.run.kind is TaskKind.AGENTS:
            _go_back(locked, locked.run.reached)  # an attempt that a review refused may stand there
        elif locked.run.kind.is_stepwise and step.status == "running":
            _go_back(locked, locked.run.stands)
        return ControlResult(
            locked.task.id, locked.run.id, f"step {step_id} is skipped", locked.next_command(), (step_id,)
        )


def has_step(start: Path, name: str) -> bool:
    """Return True if the current task's last run has a step with this id."""
    run = open_project_dirs(start).load_current().last_run
    return run is not None and _named_step(run, name) in run.steps


def again(start: Path, step_id: str, how: str, reason: str) -> ControlResult:
    """Reset a step and every step that built on it, so that they are done again from the tree before it."""
    secret_guard.refuse_secret_text(reason, "the reason")
    with _locked(start, how) as locked:
        step_id = _named_step(locked.run, step_id)
        step = locked.run.steps.get(step_id)
        if step is None or step.status not in ("done", "failed", "skipped"):
            raise _wrong_step(locked.run, step_id, "have been done, failed or skipped", step.status if step else None)
        _refuse_split(locked.run, step_id)
        reset = _built_on(locked.plan(), locked.run, step_id)
        ticket = _open_ticket(locked, step_id, reason) if how == REDO else None
        _reopen(locked)
        for name in [other.id for other in locked.run.steps.values() if other.status == "running"]:
            locked.journal.append(events.StepInterrupted(run_id=locked.run.id, step_id=name))
        locked.journal.append(events.StepsReset(run_id=locked.run.id, steps=list(reset), how=how, reason=reason))
        if locked.run.kind.is_stepwise:
            _go_back(locked, _before(locked.run, reset[0]))
        message = f"step(s) {', '.join(reset)} will be done again"
        return ControlResult(locked.task.id, locked.run.id, message, locked.next_command(), tuple(reset), ticket)


def _open_ticket(locked: _LockedTask, step_id: str, reason: str) -> str:
    from reflectloop.reflection import ticket_store  # noqa: PLC0415 - most of these commands need no tickets

    return ticket_store.open_for_redo(locked.folders, locked.task.id, locked.run.id, step_id, reason).ticket_id


def _go_back(locked: _LockedTask, tree: str) -> None:
    """Make the next request or agent start with this tree."""
    from reflectloop.engine.requests.request_log import RequestLog  # noqa: PLC0415

    RequestLog(locked.folders, Store(locked.folders.own / "git", "")).continue_from(tree)


def _before(run: RunState, step_id: str) -> str:
    """Return the tree before the first attempt at a step."""
    start = run.steps[step_id].start
    if start and run.kind is not TaskKind.AGENTS:
        return start  # includes what was written between two steps
    earlier = run.order[: run.order.index(step_id)] if step_id in run.order else run.order
    return run.replaced(order=earlier).reached


def _parts(run: RunState, step_id: str) -> list[str]:
    """Return the ids of the parts that a step was split into."""
    return [name for name in run.steps if name.startswith(f"{step_id}.")] if run.kind.is_stepwise else []


def _refuse_split(run: RunState, step_id: str) -> None:
    parts = _parts(run, step_id)
    if parts:
        raise InvalidInput(
            f"step {step_id} was split into {', '.join(parts)}; name one of these",
            next_step=f"reflectloop rewind {parts[0]}",
        )


def _reopen(locked: _LockedTask) -> None:
    if locked.run.status == "failed":
        locked.journal.append(events.RunReopened(run_id=locked.run.id))


def _wrong_step(run: RunState, step_id: str, must: str, status: str | None) -> InvalidInput:
    if status is None:
        return InvalidInput(
            f"there is no step {step_id!r} in {run.id}; there are {', '.join(run.steps)}",
            next_step="reflectloop status",
        )
    return InvalidInput(f"step {step_id} is {status}, but must {must}", next_step="reflectloop status")


def _built_on(plan: Plan, run: RunState, step_id: str) -> list[str]:
    """Return a step and every finished step that built on it, in order.

    In a sequential plan each step starts from the tree of the one before, so all later steps are included.
    """
    over = [name for name, step in run.steps.items() if step.status in ("done", "failed", "skipped")]
    ended = [name for name in over if not _parts(run, name)]
    if plan.jobs == 1:
        order = sorted(ended, key=lambda name: run.order.index(name) if name in run.order else len(run.order))
        return order[order.index(step_id) :]
    affected = [step_id]
    for step in plan.steps:
        if step.id in ended and step.id not in affected and set(step.depends_on) & set(affected):
            affected.append(step.id)
    return affected


# Forking ---------------------------------------------------------------------------------------------------------


def fork(start: Path, step_id: str) -> ControlResult:
    """Create a new task in the state that the current one had before a step."""
    folders = open_project_dirs(start)
    with lock.hold_lock(folders.own, "fork"):
        task = folders.load_current()
        run = task.last_run
        if run is None:
            raise NothingToDo("no task has been started here", next_step=next_command.NEW_RUN)
        if step_id not in run.steps:
            raise _wrong_step(run, step_id, "", None)
        if run.kind.is_stepwise:
            raise InvalidInput(
                f"task {task.id} is worked on by requests and has no plan file to fork",
                next_step=f"reflectloop rewind {step_id}",
            )
        old = folders.run_folder(run.id)
        plan = old.saved_plan()
        dropped = (
            set(_built_on(plans.load(plan).plan, run, step_id)) if run.steps[step_id].status != "pending" else set()
        )
        finished = [
            name for name, step in run.steps.items() if step.status in ("done", "skipped") and name not in dropped
        ]
        return _copy(folders, task, run, old, plan, finished)


def _copy(
    folders: Folders, task: Task, run: RunState, old: RunFolder, plan: Path, finished: Sequence[str]
) -> ControlResult:
    """Create a task with the finished steps of a run, and make it the current one."""
    at = clock.now()
    task_id, new = clock.task_id(at), folders.open_run(clock.run_id(at))
    shutil.copyfile(plan, new.path / plan.name)
    for name in finished:
        for log in old.logs.glob(f"{name}.*.log"):
            shutil.copyfile(log, new.logs / log.name)
    opened = events.TaskOpened(task_id=task_id, plan_path=task.plan_path, title=task.title)
    started = events.RunStarted(
        run_id=new.run_id,
        plan_hash=run.plan_hash,
        base_tree=run.base_tree,
        base_commit=run.base_commit,
        isolation=run.isolation,
        steps=list(run.steps),
        mode=run.mode,
    )
    steps = [event for name in finished for event in _step_events(run, name, new.run_id)]
    views.append_events(folders, task_id, [opened, started, *steps], make_current=True)
    message = f"task {task_id} has {len(finished)} step(s) of {run.id} done"
    return ControlResult(task_id, new.run_id, message, next_command.RESUME, tuple(finished))


def _step_events(run: RunState, name: str, run_id: str) -> Iterator[events.Event]:
    """Yield the events that give a step the state it has in `run`."""
    step = run.steps[name]
    if step.status == "skipped":
        yield events.StepSkipped(run_id=run_id, step_id=name, reason=step.reason)
    elif step.ended:
        yield events.StepStarted(run_id=run_id, step_id=name, tree=step.start or run.base_tree)
        yield step.ended.replaced(run_id=run_id)


def answer(start: Path, step_id: str, text: str) -> ControlResult:
    """Answer the question of a blocked step; it becomes pending, and the next agent gets the answer."""
    secret_guard.refuse_secret_text(text, "the answer")
    with _locked(start, "answer") as locked:
        step_id = _named_step(locked.run, step_id)
        step = locked.run.steps.get(step_id)
        if step is None or step.status != "blocked":
            raise _wrong_step(locked.run, step_id, "be blocked", step.status if step else None)
        locked.journal.append(events.Answered(run_id=locked.run.id, step_id=step_id, text=text))
        return ControlResult(
            locked.task.id, locked.run.id, f"step {step_id} has its answer", locked.next_command(), (step_id,)
        )
