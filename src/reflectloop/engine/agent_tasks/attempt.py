"""One attempt at one step: what is known of it, and the ways it can end before it is done."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from reflectloop import secrets
from reflectloop.agents.answer_models import StepClaim, StepDesign
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.agent_tasks import attempt_history, attempt_reflection, prompts
from reflectloop.engine.agent_tasks.attempt_reflection import AttemptPlace
from reflectloop.engine.agent_tasks.prompts import FailedAttempt, StepBrief
from reflectloop.engine.agent_tasks.step_checks import StepProof
from reflectloop.engine.agent_tasks.task_session import TaskSession, listed
from reflectloop.errors import InvalidInput
from reflectloop.fileops.response import Response
from reflectloop.state.fold import RunState, StepState, Task
from reflectloop.system import clock, files

How = Literal["done", "split", "again", "blocked"]


class AttemptOutcome(NamedTuple):
    how: How
    step: str
    said: str = ""
    unblock: str = ""


@dataclass
class StepAttempt:
    """One attempt at one step."""

    desk: TaskSession
    task: Task
    run: RunState
    step: StepState
    attempt: int = 1
    start: str = ""  # the tree this attempt began with
    origin: str = ""  # the tree before the step's first attempt
    folder: Path = field(default_factory=Path)
    design: StepDesign | None = None
    request: dict[str, Any] = field(default_factory=dict)
    outcome: StepClaim | None = None
    end: str = ""
    nested: tuple[str, ...] = ()
    shown: StepProof = field(default_factory=lambda: StepProof([]))
    began: float = field(default_factory=clock.monotonic)

    @property
    def took_ms(self) -> int:
        return round((clock.monotonic() - self.began) * 1000)

    @property
    def commands(self) -> list[Any]:
        return listed(self.run.details.get(self.step.id, {}).get("commands"))

    @property
    def work(self) -> StepBrief:
        return self.desk.work(self.run, self.step)

    def look(self) -> None:
        """As the journal says now."""
        self.task, self.run = self.desk.look()
        self.step = self.run.steps[self.step.id]

    def keep(self, name: str, value: BaseModel | dict[str, Any]) -> None:
        said = value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else value
        text = json.dumps(said, indent=2, ensure_ascii=False)
        files.write_atomic(self.folder / name, secrets.current().redact(text) + "\n")


def done(response: Response) -> Response:
    if response.status != "ok":
        why = "; ".join(one.error for one in response.errors) or (response.fail.reason if response.fail else "")
        raise InvalidInput(f"the state does not allow it: {why or response.status}", next_step="reflectloop status")
    return response


def failed(
    turn: StepAttempt, why: str, failure: FailureRecord | None = None, output: str = "", *, asked: str = ""
) -> AttemptOutcome:
    """An attempt that did not hold: written down for the next one, and taken back unless a review asks for more."""
    desk = turn.desk
    approach = turn.outcome.approach or turn.outcome.summary if turn.outcome else ""
    changed = turn.end if turn.end != turn.start else ""
    diff = desk.diff(turn.start, changed) if changed and not asked else ""
    learnt = ""
    if failure:
        failure, learnt = attempt_reflection.reflect(desk, failure, why, where(turn), turn.work, output)
    tried = FailedAttempt(turn.attempt, approach, why, failure, output, diff, learnt)
    desk.past = desk.past.plus(tried, changed, asked)
    desk.why = secrets.current().redact(why)[:2_000]
    attempt_history.keep(turn.folder, tried, changed, asked)
    desk.tell(f"step {turn.step.id}, attempt {turn.attempt} does not hold: {why.splitlines()[0]}")
    if not asked:
        take_back(turn)
    return AttemptOutcome("again", turn.step.id, why)


def where(turn: StepAttempt) -> AttemptPlace:
    return AttemptPlace(turn.task.id, turn.run.id, turn.step.id, turn.attempt, turn.folder)


def take_back(turn: StepAttempt) -> None:
    turn.desk.space.reset_to(turn.start)


def block(turn: StepAttempt, reason: str, unblock: str) -> AttemptOutcome:
    """Only a person can say how to go on; what this attempt did is taken back."""
    if turn.start:
        take_back(turn)
    said = prompts.one_line(secrets.current().redact(reason), 2_000)
    op = {"op": "triflow_state_mark_blocked", "step": turn.step.id, "reason": said, "unblock": unblock}
    done(turn.desk.request("execute_step", op))
    return AttemptOutcome("blocked", turn.step.id, said, unblock)
