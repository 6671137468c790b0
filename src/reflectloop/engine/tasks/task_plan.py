"""Reads the plan of a task whose steps are executed one at a time: the first plan, and steps added since."""

from __future__ import annotations

from reflectloop.fileops.plan_ops import NewStep, PlanInit
from reflectloop.plan import drafts
from reflectloop.plan.load import LoadedPlan
from reflectloop.plan.model import Plan
from reflectloop.state.fold import RunState, Task
from reflectloop.workspace.folders import Folders

PLAN = "plan"  # its name among what a run keeps of its objective
FORM = "fileops"


def plan_of(task: Task, run: RunState) -> Plan:
    """Return the plan as it is now: steps in the order of the run, without the checks of drafts that were skipped.

    The last part of a step that was split also has the checks of that step: only then is the whole of it done.
    """
    stored = run.objective.get(PLAN)
    first = Plan.model_validate(stored) if isinstance(stored, dict) else _before_plans_were_stored(task, run)
    known = {step.id: step for step in first.steps}
    added = drafts.build({name: _draft(run, name) for name in run.steps if name not in known})
    known |= {step.id: step for step in added.steps}
    for name, state in run.steps.items():
        if state.parts:
            last = known[state.parts[-1]]
            known[last.id] = last.model_copy(update={"verify": (*last.verify, *known[name].verify)})
            known[name] = known[name].model_copy(update={"verify": ()})
    skipped = [name for name, step in run.steps.items() if step.status == "skipped" and not step.parts]
    checks = {**first.checks, **added.checks}
    dropped = {key for name in skipped for key in drafts.checks_drafted_for(name, checks)}
    steps = tuple(
        known[name].model_copy(update={"verify": ()}) if name in skipped and dropped else known[name]
        for name in run.steps
    )
    left = {name: check for name, check in checks.items() if name not in dropped}
    return first.model_copy(update={"steps": steps, "checks": left})


def loaded(folders: Folders, task: Task, run: RunState) -> LoadedPlan:
    """Return the plan in the form that a plan file is read into."""
    return LoadedPlan(plan_of(task, run), folders.journal(task.id), FORM, "", (), {})


def _draft(run: RunState, name: str) -> NewStep:
    return NewStep.model_validate({"title": run.titles.get(name) or name, **run.details.get(name, {})})


def _before_plans_were_stored(task: Task, run: RunState) -> Plan:
    """Return the plan of a journal that holds titles, details and a contract, and no plan."""
    objective = run.objective.get("objective")
    request = {
        "op": "triflow_plan_init",
        "taskName": task.title or "A plan",
        "objective": objective if isinstance(objective, dict) else {},
        "steps": [_draft(run, name).model_dump(mode="json") for name in run.steps],
        "contract": run.objective.get("contract"),
    }
    plan = PlanInit.model_validate(request).as_plan()
    named = drafts.build({name: _draft(run, name) for name in run.steps})
    criteria = {name: check for name, check in plan.checks.items() if name.startswith("acceptance-")}
    return plan.model_copy(update={"steps": named.steps, "checks": {**named.checks, **criteria}})
