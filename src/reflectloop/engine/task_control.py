"""What a person can do to a task besides running it: pause, abort, skip, do again, go back, fork."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from reflectloop.engine import next_command, task_plan
from reflectloop.engine.artifacts import views
from reflectloop.engine.folders import Folders, RunFolder, folders_at
from reflectloop.engine.run import recovery
from reflectloop.errors import InvalidInput, Locked, NothingToDo
from reflectloop.plan import load as plans
from reflectloop.plan.model import Plan
from reflectloop.state import events, journal, lock
from reflectloop.state.fold import RunState, Task, TaskKind, fold
from reflectloop.state.journal import Journal
from reflectloop.state.transitions import TaskState
from reflectloop.system import clock, files
from reflectloop.workspace import secret_guard
from reflectloop.workspace.store import Store

_ASKED = "asked"
REDO = "redo"


class ControlResult(NamedTuple):
    """What was done, and what comes next."""

    task_id: str
    run_id: str
    said: str
    next_step: str
    steps: tuple[str, ...] = ()
    ticket: str | None = None  # for a reflection on why it is done again


class _Hold(NamedTuple):
    folders: Folders
    task: Task
    run: RunState
    book: Journal

    def onward(self) -> str:
        """What goes on with it, as its journal says now."""
        return next_command.command(fold(journal.read(self.book.path)).runs[self.run.id])

    def plan(self) -> Plan:
        """As it was when the run began."""
        if self.run.kind.is_stepwise:
            return task_plan.plan_of(self.task, self.run)
        return plans.load(recovery.plan_of(RunFolder(self.folders.own / "runs" / self.run.id))).plan


@contextmanager
def _held(start: Path, purpose: str) -> Iterator[_Hold]:
    """The current task with nobody else at work on it."""
    folders = folders_at(start)
    with lock.hold(folders.own, purpose):
        current = folders.current_task()
        task = fold(journal.read(folders.journal(current))) if current else Task()
        if not task.runs:
            raise NothingToDo("nothing has begun here", next_step="reflectloop run PLAN")
        if task.state in (TaskState.DONE, TaskState.ABORTED):
            raise NothingToDo(f"task {task.id} is {task.state}", next_step="reflectloop run PLAN")
        book = folders.open_journal(task.id)
        try:
            yield _Hold(folders, task, list(task.runs.values())[-1], book)
        finally:
            book.close()
        views.refresh(book.path.parent)


# Pausing ------------------------------------------------------------------------------------------------------


def asked(folders: Folders) -> str | None:
    """Whether a running engine is to stop before its next step; asking once stops once."""
    path = folders.own / _ASKED
    if not path.exists():
        return None
    path.unlink(missing_ok=True)
    return "paused as asked, before its next step"


def pause(start: Path) -> ControlResult:
    """Ask the engine at work to stop before its next step; a run without one is as good as paused."""
    try:
        with _held(start, "pause") as hold:
            if hold.run.status != "running":
                raise NothingToDo(f"{hold.run.id} has ended", next_step=f"reflectloop show {hold.run.id}")
            if hold.task.state is not TaskState.PAUSED:
                hold.book.append(events.RunPaused(run_id=hold.run.id, reason="paused by the user"))
            return ControlResult(hold.task.id, hold.run.id, f"{hold.run.id} is paused", "reflectloop resume")
    except Locked:
        folders = folders_at(start)
        files.write_atomic(folders.own / _ASKED, "pause\n")
        return ControlResult(
            folders.current_task() or "", "", "it will stop before its next step", "reflectloop status"
        )


def abort(start: Path, reason: str) -> ControlResult:
    """Give a task up for good. An engine at work on it is stopped first, with everything it started."""
    secret_guard.refuse_words(reason, "the reason")
    _stop_engine(folders_at(start))
    with _held(start, "abort") as hold:
        (hold.folders.own / _ASKED).unlink(missing_ok=True)  # nothing is left to pause
        for name in [step.id for step in hold.run.steps.values() if step.status == "running"]:
            hold.book.append(events.StepInterrupted(run_id=hold.run.id, step_id=name))
        hold.book.append(events.Aborted(reason=reason))
        return ControlResult(hold.task.id, hold.run.id, f"task {hold.task.id} is aborted", "reflectloop gc")


def _stop_engine(folders: Folders) -> None:
    """By the signal that lets it clear up. Only an engine of ours that really holds the lock."""
    try:
        with lock.hold(folders.own, "abort"):
            return
    except Locked:
        pid = lock.owner_pid(folders.own / "lock")
    if pid:
        os.kill(pid, signal.SIGTERM)
        with lock.hold(folders.own, "abort", wait=lambda _: None):
            return


# Changing what is to be done ------------------------------------------------------------------------------------


def skip(start: Path, step_id: str, reason: str) -> ControlResult:
    secret_guard.refuse_words(reason, "the reason")
    with _held(start, "skip") as hold:
        step = hold.run.steps.get(step_id)
        if step is None or step.status not in ("pending", "failed", "running", "blocked"):
            raise _no_such(hold.run, step_id, "wait, fail, ask or be half done", step.status if step else None)
        _open_again(hold)
        if step.status == "running":
            hold.book.append(events.StepInterrupted(run_id=hold.run.id, step_id=step_id))
        hold.book.append(events.StepSkipped(run_id=hold.run.id, step_id=step_id, reason=reason))
        if hold.run.kind is TaskKind.AGENTS:
            _go_back(hold, hold.run.reached)  # an attempt that a review refused may stand there
        elif hold.run.kind.is_stepwise and step.status == "running":
            _go_back(hold, hold.run.stands)
        return ControlResult(hold.task.id, hold.run.id, f"step {step_id} is skipped", hold.onward(), (step_id,))


def has_step(start: Path, name: str) -> bool:
    """Whether a name is that of a step of the current task's last run."""
    folders = folders_at(start)
    current = folders.current_task()
    task = fold(journal.read(folders.journal(current))) if current else Task()
    return bool(task.runs) and name in list(task.runs.values())[-1].steps


def again(start: Path, step_id: str, how: str, reason: str) -> ControlResult:
    """Do a step again, and everything that built on it, from the tree before it."""
    secret_guard.refuse_words(reason, "the reason")
    with _held(start, how) as hold:
        step = hold.run.steps.get(step_id)
        if step is None or step.status not in ("done", "failed", "skipped"):
            raise _no_such(hold.run, step_id, "have been done, failed or skipped", step.status if step else None)
        _refuse_split(hold.run, step_id)
        reset = _built_on(hold.plan(), hold.run, step_id)
        ticket = _open_ticket(hold, step_id, reason) if how == REDO else None
        _open_again(hold)
        for name in [one.id for one in hold.run.steps.values() if one.status == "running"]:
            hold.book.append(events.StepInterrupted(run_id=hold.run.id, step_id=name))
        hold.book.append(events.StepsReset(run_id=hold.run.id, steps=list(reset), how=how, reason=reason))
        if hold.run.kind.is_stepwise:
            _go_back(hold, _before(hold.run, reset[0]))
        said = f"step(s) {', '.join(reset)} will be done again"
        return ControlResult(hold.task.id, hold.run.id, said, hold.onward(), tuple(reset), ticket)


def _open_ticket(hold: _Hold, step_id: str, reason: str) -> str:
    from reflectloop.engine.learning import tickets  # noqa: PLC0415 - a run asks this module whether to pause, and needs no tickets

    return tickets.open_for_redo(hold.folders, hold.task.id, hold.run.id, step_id, reason).ticket_id


def _go_back(hold: _Hold, tree: str) -> None:
    """The next request begins with this tree."""
    from reflectloop.engine.requests.request_log import RequestLog  # noqa: PLC0415

    RequestLog(hold.folders, Store(hold.folders.own / "git", "")).continue_from(tree)


def _before(run: RunState, step_id: str) -> str:
    """The tree that stood before a step, and before each of its attempts."""
    start = run.steps[step_id].start
    if start and run.kind is not TaskKind.AGENTS:
        return start  # with what was written between two steps
    earlier = run.order[: run.order.index(step_id)] if step_id in run.order else run.order
    return dataclasses.replace(run, order=earlier).reached


def _parts(run: RunState, step_id: str) -> list[str]:
    """What a step was split into; it is not done itself."""
    return [name for name in run.steps if name.startswith(f"{step_id}.")] if run.kind.is_stepwise else []


def _refuse_split(run: RunState, step_id: str) -> None:
    parts = _parts(run, step_id)
    if parts:
        raise InvalidInput(
            f"step {step_id} was split into {', '.join(parts)}, and is not done itself; name one of these",
            next_step=f"reflectloop rewind {parts[0]}",
        )


def _open_again(hold: _Hold) -> None:
    if hold.run.status == "failed":
        hold.book.append(events.RunReopened(run_id=hold.run.id))


def _no_such(run: RunState, step_id: str, must: str, status: str | None) -> InvalidInput:
    if status is None:
        return InvalidInput(
            f"there is no step {step_id!r} in {run.id}; there are {', '.join(run.steps)}",
            next_step="reflectloop status",
        )
    return InvalidInput(f"step {step_id} must {must}, and is {status}", next_step="reflectloop status")


def _built_on(plan: Plan, run: RunState, step_id: str) -> list[str]:
    """A step and all that came after it: one after another, each began with what the last one left."""
    over = [name for name, step in run.steps.items() if step.status in ("done", "failed", "skipped")]
    ended = [name for name in over if not _parts(run, name)]
    if plan.jobs == 1:
        order = sorted(ended, key=lambda name: run.order.index(name) if name in run.order else len(run.order))
        return order[order.index(step_id) :]
    found = [step_id]
    for step in plan.steps:
        if step.id in ended and step.id not in found and set(step.depends_on) & set(found):
            found.append(step.id)
    return found


# Forking ---------------------------------------------------------------------------------------------------------


def fork(start: Path, step_id: str) -> ControlResult:
    """A new task that stands where this one stood before a step."""
    folders = folders_at(start)
    with lock.hold(folders.own, "fork"):
        current = folders.current_task()
        task = fold(journal.read(folders.journal(current))) if current else Task()
        run = list(task.runs.values())[-1] if task.runs else None
        if run is None:
            raise NothingToDo("nothing has begun here", next_step="reflectloop run PLAN")
        if step_id not in run.steps:
            raise _no_such(run, step_id, "", None)
        if run.kind.is_stepwise:
            raise InvalidInput(
                f"task {task.id} is worked on by requests, and has no plan to fork",
                next_step=f"reflectloop rewind {step_id}",
            )
        old = RunFolder(folders.own / "runs" / run.id)
        plan = recovery.plan_of(old)
        dropped = (
            set(_built_on(plans.load(plan).plan, run, step_id)) if run.steps[step_id].status != "pending" else set()
        )
        kept = [name for name, step in run.steps.items() if step.status in ("done", "skipped") and name not in dropped]
        return _copied(folders, task, run, old, plan, kept)


def _copied(
    folders: Folders, task: Task, run: RunState, old: RunFolder, plan: Path, kept: Sequence[str]
) -> ControlResult:
    at = clock.now()
    task_id, new = clock.task_id(at), folders.open_run(clock.run_id(at))
    shutil.copyfile(plan, new.path / plan.name)
    for name in kept:
        for log in old.logs.glob(f"{name}.*.log"):
            shutil.copyfile(log, new.logs / log.name)
    book = folders.open_journal(task_id)
    try:
        book.append(events.TaskOpened(task_id=task_id, plan_path=task.plan_path, title=task.title))
        book.append(
            events.RunStarted(
                run_id=new.run_id,
                plan_hash=run.plan_hash,
                base_tree=run.base_tree,
                base_commit=run.base_commit,
                isolation=run.isolation,
                steps=list(run.steps),
                mode=run.mode,
            )
        )
        for name in kept:
            for event in _as_in(run, name, new.run_id):
                book.append(event)
    finally:
        book.close()
    folders.set_current_task(task_id)
    views.refresh(book.path.parent)
    said = f"task {task_id} has {len(kept)} step(s) of {run.id} done"
    return ControlResult(task_id, new.run_id, said, "reflectloop resume", tuple(kept))


def _as_in(run: RunState, name: str, run_id: str) -> Iterator[events.Event]:
    step = run.steps[name]
    if step.status == "skipped":
        yield events.StepSkipped(run_id=run_id, step_id=name, reason=step.reason)
    elif step.ended:
        yield events.StepStarted(run_id=run_id, step_id=name, tree=step.start or run.base_tree)
        yield dataclasses.replace(step.ended, run_id=run_id)


def answer(start: Path, step_id: str, text: str) -> ControlResult:
    """Say to a blocked step what it asked; it waits again, and whoever works on it is told."""
    secret_guard.refuse_words(text, "the answer")
    with _held(start, "answer") as hold:
        step = hold.run.steps.get(step_id)
        if step is None or step.status != "blocked":
            raise _no_such(hold.run, step_id, "be blocked", step.status if step else None)
        hold.book.append(events.Answered(run_id=hold.run.id, step_id=step_id, text=text))
        return ControlResult(hold.task.id, hold.run.id, f"step {step_id} has its answer", hold.onward(), (step_id,))
