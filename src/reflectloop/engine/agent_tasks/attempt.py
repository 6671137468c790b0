"""One attempt at one step of an agent task, and the ways it can end before the step is done."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from reflectloop import secrets
from reflectloop.agents.answer_models import StepClaim, StepDesign
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.agent_tasks import attempt_reflection
from reflectloop.engine.agent_tasks.attempt_reflection import AttemptPlace
from reflectloop.engine.agent_tasks.task_session import TaskSession
from reflectloop.engine.steps import attempt_history, prompts
from reflectloop.engine.steps.execution import StepResult
from reflectloop.engine.steps.prompts import FailedAttempt, StepBrief
from reflectloop.errors import InvalidInput
from reflectloop.fileops.ops_context import Refusal
from reflectloop.plan.model import Plan, Step
from reflectloop.state import events
from reflectloop.state.fold import RunState, StepState, Task
from reflectloop.system import clock, files


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
        """The tree that the attempt left."""
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
