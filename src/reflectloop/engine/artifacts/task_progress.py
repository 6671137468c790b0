"""Where a task stands that agents work on: the step it is at, what that waits for, what they used. Reads only."""

from __future__ import annotations

from typing import Any

from reflectloop import config
from reflectloop.engine import task_plan
from reflectloop.engine.artifacts import usage, views
from reflectloop.engine.artifacts.usage import AgentBudget
from reflectloop.engine.folders import Folders
from reflectloop.errors import ReflectloopError
from reflectloop.plan.model import PlanBudget
from reflectloop.state.fold import RunState, Task


def step_of(task: Task) -> dict[str, Any] | None:
    """The step that a task worked on by requests is at; None where none is left."""
    run = _last(task)
    if run is None or not run.kind.is_stepwise or run.status != "running":
        return None
    step = next((one for one in run.steps.values() if one.status not in ("done", "skipped")), None)
    if step is None:
        return None
    return {
        "id": step.id,
        "title": run.titles.get(step.id, ""),
        "status": step.status,
        "attempts": step.attempts,
        "question": step.reason if step.status == "blocked" else None,
        "unblock": step.unblock or None,
    }


def cost(folders: Folders, task: Task) -> dict[str, Any]:
    """What agents used, and of what; where the settings cannot be read, no limit is told."""
    try:
        return usage.data(task, AgentBudget.of(config.load(folders.root), _limits(folders, task)))
    except ReflectloopError:
        return usage.data(task)


def _limits(folders: Folders, task: Task) -> PlanBudget:
    run = _last(task)
    if run and run.kind.is_stepwise:
        return task_plan.plan_of(task, run).limits
    plan = views.plan_of(folders, task)
    return plan.limits if plan else PlanBudget()


def _last(task: Task) -> RunState | None:
    return list(task.runs.values())[-1] if task.runs else None
