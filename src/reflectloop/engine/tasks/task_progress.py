"""The progress of a task that agents work on: its current step, and what the agents used. Reads only."""

from __future__ import annotations

from typing import Any

from reflectloop import config
from reflectloop.artifacts import usage, views
from reflectloop.artifacts.usage import AgentBudget
from reflectloop.engine.tasks import task_plan
from reflectloop.errors import ReflectloopError
from reflectloop.plan.model import PlanBudget
from reflectloop.state.fold import Task
from reflectloop.workspace.folders import Folders


def step_of(task: Task) -> dict[str, Any] | None:
    """Return the current step of a task whose steps are done by agents or requests; None if none is left."""
    run = task.last_run
    if run is None or not run.kind.is_stepwise or run.status != "running":
        return None
    step = next((step for step in run.steps.values() if step.status not in ("done", "skipped")), None)
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
    """Return what the agents of a task used, with their budget if the settings can be read."""
    try:
        return usage.data(task, AgentBudget.of(config.load(folders.root), _limits(folders, task)))
    except ReflectloopError:
        return usage.data(task)


def _limits(folders: Folders, task: Task) -> PlanBudget:
    run = task.last_run
    if run and run.kind.is_stepwise:
        return task_plan.plan_of(task, run).limits
    plan = views.plan_of(folders, task)
    return plan.limits if plan else PlanBudget()
