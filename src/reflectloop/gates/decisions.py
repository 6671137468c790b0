"""The decisions of a gate, and the one table that says what each decision leads to; pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, NamedTuple

from reflectloop.errors import Fault, GateRejected, MaxRetries, NotJudged, ReflectloopError, VerificationFailed
from reflectloop.state.transitions import TaskState
from reflectloop.terms import Decision, OutcomeWord, gravest, one_line, outcome_of

Surface = Literal["PASS", "REJECT", "RETRY", "SKIP", "FEEDBACK"]


class Gate(StrEnum):
    """The gates, in the order in which an output passes them."""

    RULES = "rules"
    PROOF = "proof"
    INSIGHT = "insight"
    STORE = "store"

    @property
    def sign(self) -> str:
        return {"rules": "戒", "proof": "定", "insight": "慧", "store": "识"}[self.value]


class GateReason(NamedTuple):
    """One reason for a decision: its rule, its text, and what to do about it."""

    decision: Decision
    rule: str
    text: str
    mend: str = ""
    finding: str = ""  # the id by which a person approves it; empty if nobody can
    unjudged: bool = False
    finding_rule: str = ""  # the rule that the id was made from
    details: tuple[str, ...] = ()  # the old and the new lines

    def __str__(self) -> str:
        return f"{self.text}; {self.mend}" if self.mend else self.text


_SURFACE: dict[Decision, Surface] = {
    Decision.PASS: "PASS",
    Decision.SKIP: "SKIP",
    Decision.RETRY: "RETRY",
    Decision.REDO: "REJECT",
    Decision.REPLAN: "REJECT",
    Decision.ASK: "REJECT",
    Decision.STOP: "REJECT",
}


class GateApproval(NamedTuple):
    """A reason that a person approved, and who that was and why."""

    reason: GateReason
    approval: str

    def __str__(self) -> str:
        return f"{self.reason.text}; {self.approval}"


class Ruling(NamedTuple):
    """The decision of one gate on one output."""

    gate: Gate
    decision: Decision
    reasons: tuple[GateReason, ...] = ()
    feedback: tuple[str, ...] = ()  # recorded; never changes the decision
    redo_from: str = ""  # the tree that the work restarts from, or "plan"
    backtrack_to: Gate | None = None
    why_skipped: str = ""
    approved: tuple[GateApproval, ...] = ()

    @property
    def surface(self) -> Surface:
        return "FEEDBACK" if self.decision is Decision.PASS and self.feedback else _SURFACE[self.decision]

    @property
    def outcome(self) -> OutcomeWord:
        return outcome_of(self.reasons)

    @property
    def retryable(self) -> bool:
        """Return True if the same step may try again without a person or a new plan."""
        return self.decision in (Decision.RETRY, Decision.REDO)


def make_ruling(gate: Gate, reasons: Iterable[GateReason], start: str = "") -> Ruling:
    """Return the ruling of a gate: the gravest decision among its reasons, or PASS without any."""
    clean = tuple(reason._replace(text=one_line(reason.text)) for reason in reasons)
    decision = gravest(reason.decision for reason in clean)
    redo_from = {Decision.REDO: start, Decision.REPLAN: "plan"}.get(decision, "")
    return Ruling(gate, decision, clean, redo_from=redo_from)


class DecisionEffect(NamedTuple):
    """The effect of a decision: the states that its task goes through, and the error that a run ends with."""

    states: tuple[TaskState, ...]
    error: type[ReflectloopError] | None
    words: str


_NOT_PASSED: dict[Decision, DecisionEffect] = {
    Decision.RETRY: DecisionEffect(
        (TaskState.RECOVERING, TaskState.EXECUTING),
        VerificationFailed,
        "repair it in place; the same gate checks again",
    ),
    Decision.REDO: DecisionEffect(
        (TaskState.EXECUTING,), GateRejected, "the output is discarded; the step restarts from its start tree"
    ),
    Decision.REPLAN: DecisionEffect((TaskState.RECOVERING, TaskState.PLANNING), GateRejected, "the steps must change"),
    Decision.ASK: DecisionEffect((TaskState.RECOVERING, TaskState.BLOCKED), GateRejected, "a person decides"),
    Decision.STOP: DecisionEffect(
        (TaskState.LATCHED,), GateRejected, "the project is locked until a person unlocks it"
    ),
}


_PASSED: dict[Gate, DecisionEffect] = {
    Gate.RULES: DecisionEffect((), None, "on to 定"),
    Gate.PROOF: DecisionEffect((TaskState.INSIGHT,), None, "on to 慧"),
    Gate.INSIGHT: DecisionEffect((TaskState.STORING,), None, "on to 识"),
    Gate.STORE: DecisionEffect((TaskState.FINAL_REVIEW,), None, "the final review"),
}


def effect_of(ruling: Ruling) -> DecisionEffect:
    """Return what a ruling means for its task, which is in state VERIFYING."""
    if ruling.backtrack_to and ruling.decision.goes_on:
        return DecisionEffect((TaskState.VERIFYING,), None, f"back to {ruling.backtrack_to.sign}")
    return _PASSED[ruling.gate] if ruling.decision.goes_on else _NOT_PASSED[ruling.decision]


SPENT = "limit"  # the rule of the reason that a limit is reached


def outcome_word(ruling: Ruling) -> OutcomeWord:
    """Return the word that a person reads; what a limit stopped is refused."""
    return OutcomeWord.REFUSED if ruling.decision in (Decision.STOP, Decision.REPLAN) else ruling.outcome


def as_error(ruling: Ruling, next_step: str) -> ReflectloopError | None:
    """Return the error that a run stops with, or None if the ruling passes. A STOP locks the project."""
    kind = effect_of(ruling).error
    if kind is None:
        return None
    kind = GateRejected if ruling.outcome is OutcomeWord.REVIEW else kind
    first = next(reason for reason in ruling.reasons if reason.decision is ruling.decision)
    more = len(ruling.reasons) - 1
    word = outcome_word(ruling)
    text = f"{word}: {first}" + (f" (and {more} more)" if more else "")
    if first.rule == SPENT:
        return MaxRetries(text)
    if word is OutcomeWord.NOT_JUDGED:
        return NotJudged(text, next_step=next_step)
    faults = [Fault(reason.finding, None, str(reason), kind.code) for reason in ruling.reasons if reason.finding]
    error = kind(text, next_step=next_step, faults=tuple(faults) if word is OutcomeWord.REVIEW else ())
    error.stops = ruling.decision is Decision.STOP
    error.review = word is OutcomeWord.REVIEW
    error.asks = ruling.decision is Decision.ASK
    return error
