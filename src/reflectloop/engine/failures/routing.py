"""`route`: what stands between the last run and success, from latch, journal and card. Writes nothing."""

from __future__ import annotations

from pathlib import Path

from reflectloop.diagnosis import routing
from reflectloop.diagnosis.routing import UNLOCK, FailedRunFacts, Route
from reflectloop.engine import next_command
from reflectloop.engine.artifacts import task_status
from reflectloop.engine.folders import Folders, RunFolder, folders_at
from reflectloop.engine.learning import blocker_card, ticket_lessons
from reflectloop.errors import Latched, NothingToDo
from reflectloop.state import latch, snapshot
from reflectloop.state.fold import RunState, Task, TaskKind
from reflectloop.state.transitions import TaskState


def route(start: Path) -> Route:
    """The project's latch first, then what is open in the current task, then the card of the last run."""
    folders = folders_at(start)
    stop = latch.read_stop(folders.own)
    if stop:
        return Route("unlock", f"{stop.error_code}: {stop.reason}; look into it first", UNLOCK, run_id=stop.run_id)
    current = folders.current_task()
    task = snapshot.load(folders.journal(current).parent) if current else Task()
    last = list(task.runs.values())[-1] if task.runs else None
    open_ = _of_open(folders, task, last) if last and last.status == "running" else None
    return open_ or routing.of_failure(_card(folders, task))


def _of_open(folders: Folders, task: Task, run: RunState) -> Route | None:
    """A run that came to no end: a step waits for an answer, or nobody works on it any more."""
    blocked = next((step for step in run.steps.values() if step.status == "blocked"), None)
    if blocked:
        why = f"step {blocked.id} is blocked: {blocked.reason}; {blocked.unblock}"
        return Route("ask", why, f"reflectloop answer {blocked.id} TEXT", run_id=run.id)
    if task.state is TaskState.PAUSED:
        return Route("retry", f"{run.id} is paused", "reflectloop resume", run_id=run.id)
    if run.kind is TaskKind.AGENTS and not RunFolder(folders.own / "runs" / run.id).blocker.exists():
        return Route("retry", f"steps of {run.id} are left, or its last word is", next_command.BY_AGENTS, run_id=run.id)
    if run.kind.is_stepwise:
        return None
    task_status.refuse_running(folders, folders.find_run(run.id))
    return Route(
        "retry", f"the engine of {run.id} is gone; its finished steps stand", "reflectloop resume", run_id=run.id
    )


def _card(folders: Folders, task: Task) -> FailedRunFacts:
    folder = folders.find_run(None)
    if not folder.blocker.exists():
        raise NothingToDo(f"nothing is to be routed: {folder.run_id} left no blocker", next_step="reflectloop status")
    told = blocker_card.told(folders, folder.run_id)
    if told.failure.code == Latched.code and task.latch:  # which says no more than that the one before it holds
        told = blocker_card.told(folders, task.latch.run_id)
    return FailedRunFacts(
        told.run_id,
        told.failure,
        told.summary,
        plan=told.plan,
        again=told.again,
        advised=told.advised,
        times_seen=len(blocker_card.same(folders, told.failure.signature)),
        fixes=ticket_lessons.commands(folders, told.failure.signature),
    )
