"""One attempt at one step of an agent task, and the ways it can end before the step is done."""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from reflectloop import secrets
from reflectloop.agents.answer_models import PlanChange, StepClaim, StepDesign
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.agent_tasks import attempt_reflection, planning
from reflectloop.engine.agent_tasks.attempt_reflection import AttemptPlace
from reflectloop.engine.agent_tasks.task_session import TaskSession
from reflectloop.engine.steps import attempt_history, code_context, prompts
from reflectloop.engine.steps.agent_pool import AgentCall
from reflectloop.engine.steps.attempt_history import AttemptHistory
from reflectloop.engine.steps.execution import StepResult
from reflectloop.engine.steps.prompts import FailedAttempt, StepBrief
from reflectloop.errors import AgentFailed, InvalidInput, InvalidPlan
from reflectloop.fileops.ops_context import Refusal
from reflectloop.plan import drafts
from reflectloop.plan.change import PlanPatch, Update
from reflectloop.plan.model import Plan, Step
from reflectloop.state import events
from reflectloop.state.fold import RunState, StepState, Task
from reflectloop.system import clock, files
from reflectloop.terms import Role


class AttemptOutcome(NamedTuple):
    how: Literal["done", "split", "again", "replanned", "blocked"]
    step: str
    said: str = ""
    unblock: str = ""


@dataclass
class StepAttempt:
    """One attempt, as far as it is known. The stages fill it in their order."""

    session: TaskSession
    task: Task
    run: RunState
    state: StepState
    number: int = 1
    start: str = ""  # the tree this attempt began with
    origin: str = ""  # the tree before the step's first attempt
    folder: Path = field(default_factory=Path)
    design: StepDesign | None = None
    claim: StepClaim | None = None  # the executor's answer
    result: StepResult | None = None
    proofs: list[events.Json] = field(default_factory=list)  # commands and checks that succeeded
    plan: Plan = field(init=False)
    began: float = field(default_factory=clock.monotonic)

    def __post_init__(self) -> None:
        self.plan = self.session.plan()

    @property
    def step(self) -> Step:
        return next(step for step in self.plan.steps if step.id == self.state.id)

    @property
    def brief(self) -> StepBrief:
        return self.session.brief(self.run, self.plan, self.step)

    @property
    def end(self) -> str:
        """Return the tree that the attempt left."""
        return self.result.tree if self.result else self.start

    @property
    def took_ms(self) -> int:
        return round((clock.monotonic() - self.began) * 1000)

    @property
    def place(self) -> AttemptPlace:
        place = AttemptPlace(self.task.id, self.run.id, self.state.id, self.number, self.folder)
        self_checked = self.claim is not None and self.claim.control == "self_check"
        return place._replace(trigger="self_check") if self_checked else place

    def refresh(self) -> None:
        """Read the state of the task again."""
        self.task, self.run = self.session.read()
        self.state = self.run.steps[self.state.id]

    def write(self, name: str, value: BaseModel | dict[str, Any]) -> None:
        """Write a file of this attempt, with secrets redacted."""
        content = value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else value
        text = json.dumps(content, indent=2, ensure_ascii=False)
        files.write_atomic(self.folder / name, secrets.current_detector().redact(text) + "\n")

    def reset(self) -> None:
        """Undo what this attempt did to the workspace."""
        self.session.workspace.reset_to(self.start)


def fail(
    attempt: StepAttempt, why: str, failure: FailureRecord | None = None, output: str = "", *, request: str = ""
) -> AttemptOutcome:
    """Record a failed attempt for the next one. Its change is undone, unless a review asks for more on top of it."""
    session, claim = attempt.session, attempt.claim
    approach = claim.approach or claim.summary if claim else ""
    changed = attempt.end if attempt.end != attempt.start else ""
    diff = session.diff(attempt.start, changed) if changed and not request else ""
    lesson = ""
    if failure:
        failure, lesson = attempt_reflection.reflect(session, failure, why, attempt.place, attempt.brief, output)
    failed = FailedAttempt(attempt.number, approach, why, failure, output, diff, lesson)
    session.history = session.history.plus(failed, changed, request)
    session.given_up = secrets.current_detector().redact(why)[:2_000]
    attempt_history.keep(attempt.folder, failed, changed, request)
    session.tell(f"step {attempt.state.id}, attempt {attempt.number} failed: {why.splitlines()[0]}")
    if not request:
        attempt.reset()
    return AttemptOutcome("again", attempt.state.id, why)


def block(attempt: StepAttempt, reason: str, unblock: str) -> AttemptOutcome:
    """Undo the attempt and wait for a person's answer."""
    session = attempt.session
    if attempt.start:
        attempt.reset()
    message = prompts.one_line(secrets.current_detector().redact(reason), 2_000)
    change(attempt, lambda: session.journal.block_step(message, unblock, expected=attempt.state.id))
    return AttemptOutcome("blocked", attempt.state.id, message, unblock)


def change(attempt: StepAttempt, operation: Any) -> None:  # noqa: ANN401 - a function without arguments
    """Change the state of the task; what it does not allow is an error of the input."""
    try:
        operation()
        attempt.session.commit()
    except Refusal as refusal:
        attempt.session.journal.roll_back()
        raise InvalidInput(
            f"the task's state does not allow it: {refusal.reason}", next_step="reflectloop status"
        ) from refusal


# Another plan -------------------------------------------------------------------------------------------------------
# The planner changes the plan after a step failed, as often as the plan's `limits.replans` allows.


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
