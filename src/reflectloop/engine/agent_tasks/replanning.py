"""Lets the planner change the plan of a task after a step failed, as often as the plan's `limits.replans` allows."""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any

from reflectloop.agents.answer_models import PlanChange
from reflectloop.engine.agent_tasks import planning
from reflectloop.engine.agent_tasks.attempt import AttemptOutcome, StepAttempt
from reflectloop.engine.steps import code_context, prompts
from reflectloop.engine.steps.agent_pool import AgentCall
from reflectloop.engine.steps.attempt_history import AttemptHistory
from reflectloop.errors import AgentFailed, InvalidPlan
from reflectloop.fileops.ops_context import Refusal
from reflectloop.plan import drafts
from reflectloop.plan.change import PlanPatch, Update
from reflectloop.plan.model import Plan, Step
from reflectloop.terms import Role


def replan(attempt: StepAttempt, why: str) -> AttemptOutcome | None:
    """Ask the planner for a change of the plan; None if there is no planner, no change left, or no usable answer."""
    session = attempt.session
    _, run = session.read()
    if run.replans >= attempt.plan.limits.replans or not session.pool.has(Role.PLANNER):
        return None
    folder = session.attempt_folder(attempt.task, attempt.state.id, attempt.number)
    goal = attempt.plan.objective.goal or attempt.plan.title
    written = json.dumps(attempt.plan.to_json(), indent=2, ensure_ascii=False)
    output = session.history.tried[-1].output if session.history.tried else ""
    code = code_context.quoted(session.folders.root, f"{goal} {attempt.step.title}", failure=output)
    prompt = prompts.replan(goal, written, attempt.state.id, session.history.tried, code)
    call = AgentCall(
        Role.PLANNER, prompt, PlanChange, folder, attempt.state.id, attempt.number, label=f"replan-{run.replans + 1}"
    )
    try:
        done = {step.id for step in run.steps.values() if step.status in ("done", "skipped")}
        change = PlanChange.model_validate(session.pool.need(call).data)
        if attempt.start:
            attempt.reset()
        changed = session.journal.change_plan(_patch(attempt.plan, change, done), why, session.workspace.tree)
        _refuse_unusable(attempt, changed)
        session.commit()
    except (AgentFailed, InvalidPlan, Refusal) as fault:
        session.journal.roll_back()
        session.tell(f"the plan is not changed: {getattr(fault, 'message', fault)}")
        return None
    session.history, session.given_up = AttemptHistory(""), ""
    reason = prompts.one_line(change.reason)
    session.tell(f"the plan is changed after step {attempt.state.id} failed: {reason}")
    return AttemptOutcome("replanned", attempt.state.id, reason)


def _refuse_unusable(attempt: StepAttempt, changed: Plan) -> None:
    faults = planning.refusals(attempt.session, changed)
    if faults:
        raise InvalidPlan(faults[0])


def _patch(plan: Plan, change: PlanChange, done: Container[str]) -> PlanPatch:
    """Return the planner's answer as a patch of the plan that keeps every check a person confirmed.

    New steps get the next free numbers. The checks of a step that is removed pass to the last step that is left.
    """
    written = {step["id"]: step.get("verify", []) for step in plan.to_json()["steps"]}
    removed = [step for step in plan.steps if step.id in change.remove]
    added = _added_steps(plan, change)
    updates = {item.id: _fields(item) for item in change.update}
    for name, fields in updates.items():
        if "verify" in fields:
            fields["verify"] = [*written.get(name, []), *fields["verify"]]
    if added:
        inherited = tuple(item for step in removed for item in step.verify)
        added[-1] = added[-1].model_copy(update={"verify": (*added[-1].verify, *inherited)})
    elif orphans := [item for step in removed for item in written[step.id]]:
        left = [name for name in written if name not in change.remove and name not in done]
        if not left:
            raise InvalidPlan("the change leaves no step that could keep the checks of the removed ones")
        fields = updates.setdefault(left[-1], {})
        fields["verify"] = [*fields.get("verify", written[left[-1]]), *orphans]
    return PlanPatch(
        remove=change.remove,
        update=tuple(Update.model_validate({"id": name, **fields}) for name, fields in updates.items()),
        add=tuple(added),
    )


def _added_steps(plan: Plan, change: PlanChange) -> list[Step]:
    known = {step.id for step in plan.steps}
    names = (str(number) for number in range(1, len(known) + len(change.add) + 1))
    free = [name for name in names if name not in known]
    added = drafts.build(dict(zip(free, change.add, strict=False)))
    inline = {name: check.run for name, check in added.checks.items()}
    return [
        step.model_copy(
            update={
                "verify": tuple(
                    item.model_copy(update={"check": None, "run": inline[item.check]}) if item.check else item
                    for item in step.verify
                )
            }
        )
        for step in added.steps
    ]


def _fields(item: Any) -> dict[str, Any]:  # noqa: ANN401 - a StepUpdate
    """Return the fields of a step that an update sets."""
    fields: dict[str, Any] = {}
    if item.title:
        fields["title"] = item.title
    if item.commands:
        fields |= {"commands": list(item.commands), "agent": None}
    elif item.details:
        fields |= {"details": item.details, "agent": {"prompt": item.details}}
    if item.checks:
        fields["verify"] = [{"run": check} for check in item.checks]
    return fields
