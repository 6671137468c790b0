"""Continues a task that was imported from a TriFlow state: opens a task of its steps; done ones stay claims."""

from __future__ import annotations

from reflectloop.engine.requests import fileops_session
from reflectloop.engine.requests.fileops_session import FileopsTarget
from reflectloop.engine.tasks.task_journal import NewTask
from reflectloop.fileops import validate
from reflectloop.fileops.ops import READ_STATE
from reflectloop.fileops.plan_ops import NewStep, Preflight
from reflectloop.fileops.response import Response
from reflectloop.fileops.validate import Invalid
from reflectloop.plan import drafts
from reflectloop.plan.model import Objective, Plan
from reflectloop.state import events
from reflectloop.state.fold import RunState, Task, TaskKind
from reflectloop.state.transitions import TaskState
from reflectloop.terms import Track
from reflectloop.workspace.folders import open_project_dirs

_ENDED = (TaskState.DONE, TaskState.ABORTED)


def answer(target: FileopsTarget, raw: bytes, *, strict: bool = False) -> Response:
    """Execute one request; one that begins a step also continues a task that was imported."""
    if _begins_step(raw, strict=strict):
        open_if_imported(target)
    return fileops_session.answer(target, raw, strict=strict)


def _begins_step(raw: bytes, *, strict: bool) -> bool:
    try:
        request = validate.parse(raw, strict=strict)
    except Invalid:
        return False
    return request.purpose != READ_STATE and any(isinstance(op, Preflight) for op in request.ops)


def open_if_imported(target: FileopsTarget, made_by: str = "") -> str | None:
    """Open a task with the steps of the current one, if that was imported and has open steps; return its id."""
    folders = open_project_dirs(target.start)
    task = folders.load_current()
    run = task.last_run
    if run is None or run.kind is not TaskKind.IMPORTED or task.state in _ENDED or not run.unfinished_steps:
        return None
    with fileops_session.open_session(target, "tr") as session:
        session.journal.note(events.Aborted(reason="continued as a task that can be worked on"))
        opened = session.journal.open_task(_new_task(task, run, made_by), session.domain.base)
        session.commit()
    return opened


def _new_task(task: Task, run: RunState, made_by: str) -> NewTask:
    steps = {name: NewStep(title=run.titles.get(name) or name) for name in run.steps}
    drafted = drafts.build(steps)
    stated = run.objective.get("objective")
    goal = str(stated.get("goal") or "") if isinstance(stated, dict) else ""
    plan = Plan(
        title=task.title or "An imported task",
        track=Track.DIRECT,
        objective=Objective(goal=goal or task.title),
        steps=drafted.steps,
        checks=drafted.checks,
    )
    details: dict[str, events.Json] = {
        name: step.model_dump(mode="json", exclude={"title"}) for name, step in steps.items()
    }
    return NewTask(plan, dict(run.objective), details, made_by, {name: _claim(run, name) for name in run.steps})


def _claim(run: RunState, name: str) -> events.Json:
    """Return what the imported state says of a step; one with open parts is what its parts are."""
    step = run.steps[name]
    parts = [other for other in run.steps if other.rpartition(".")[0] == name]
    claim: events.Json = {"status": {"failed": "blocked"}.get(step.status, step.status), "attempts": step.attempts}
    return {**claim, "parts": parts} if parts and step.status != "done" else claim
