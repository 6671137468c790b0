"""The rewind ticket: what is wrong with an output or a step, and how to repair it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from reflectloop.diagnosis import signature
from reflectloop.diagnosis.failure_record import FailureRecord

Category = Literal["completeness", "correctness", "direction"]
Severity = Literal["high", "medium", "low"]
_GRAVITY: tuple[Severity, ...] = ("high", "medium", "low")
_MOST = 40  # steps in a repair plan


class CriticVerdict(StrEnum):
    PASS = "PASS"  # noqa: S105 - a word of the protocol
    REVISE = "REVISE"
    REJECT = "REJECT"


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Issue(_Value):
    """One problem of an output, with a suggested fix."""

    category: Category
    severity: Severity
    description: str
    suggested_fix: str = ""


class Ticket(_Value):
    """The request to redo an output or a step."""

    ticket_id: str
    verdict: CriticVerdict
    quality_score: float | None  # null if a person or a failure opened it without a score
    issues: Annotated[tuple[Issue, ...], Field(min_length=1)]
    repair_plan: tuple[str, ...]
    context_needed: tuple[str, ...] = ()
    target: str | None = None
    target_step: str | None = None

    @property
    def signature(self) -> str:
        """A signature that is the same for the same mistakes."""
        return signature.of(f"{issue.category} {issue.description}" for issue in self.issues)


def gravest_first(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    return tuple(sorted(issues, key=lambda issue: _GRAVITY.index(issue.severity)))


def repair_plan(issues: Iterable[Issue]) -> tuple[str, ...]:
    """Return the suggested fixes, gravest first, each once."""
    steps = [issue.suggested_fix or f"fix: {issue.description}" for issue in gravest_first(issues)]
    return tuple(dict.fromkeys(steps))[:_MOST]


def of_failure(
    failure: FailureRecord, ticket_id: str, *, run_id: str, description: str, fixes: Sequence[str] = ()
) -> Ticket:
    """Return the ticket for a failed run, from its record."""
    known = failure.diagnosis
    issue = Issue(
        category="correctness",
        severity="high",
        description=description,
        suggested_fix=(known.suggestion if known else "") or "look at the last lines of the log",
    )
    command = (f"run: {known.next_command}",) if known and known.next_command else ()
    return Ticket(
        ticket_id=ticket_id,
        verdict=CriticVerdict.REVISE,
        quality_score=None,
        issues=(issue,),
        repair_plan=tuple(dict.fromkeys((*fixes, *repair_plan((issue,)), *command))),
        context_needed=(f"the log: reflectloop log {run_id}", f"the card: .reflectloop/runs/{run_id}/blocker.yaml"),
        target=run_id,
        target_step=failure.step,
    )


def of_request(reason: str, ticket_id: str, *, run_id: str, step_id: str) -> Ticket:
    """Return the ticket for a step that a person wants redone."""
    description = f"a person wants {step_id} done again: {reason}"
    issue = Issue(category="direction", severity="medium", description=description, suggested_fix=f"do {step_id} again")
    return Ticket(
        ticket_id=ticket_id,
        verdict=CriticVerdict.REVISE,
        quality_score=None,
        issues=(issue,),
        repair_plan=(f"do step {step_id} again, so that this no longer holds: {reason}",),
        context_needed=(f"the plan of {run_id}", f"the log: reflectloop log {run_id}"),
        target=run_id,
        target_step=step_id,
    )
