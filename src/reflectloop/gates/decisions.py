"""What a gate may say, in our words and the seed's, and the one table from a decision to what comes next; pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, NamedTuple

from reflectloop.errors import GateRejected, MaxRetries, ReflectloopError, VerificationFailed
from reflectloop.state.transitions import TaskState
from reflectloop.terms import Decision, gravest

Surface = Literal["PASS", "REJECT", "RETRY", "SKIP", "FEEDBACK"]


class Gate(StrEnum):
    """In the order an output passes them."""

    RULES = "rules"
    PROOF = "proof"
    INSIGHT = "insight"
    STORE = "store"

    @property
    def sign(self) -> str:
        return {"rules": "戒", "proof": "定", "insight": "慧", "store": "识"}[self.value]


class GateReason(NamedTuple):
    """Why, by which rule, and what whoever acts next can do about it."""

    decision: Decision
    rule: str
    text: str
    mend: str = ""

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


class Ruling(NamedTuple):
    """One gate's word on one output."""

    gate: Gate
    decision: Decision
    reasons: tuple[GateReason, ...] = ()
    feedback: tuple[str, ...] = ()  # recorded; never changes the decision
    redo_from: str = ""  # where the work begins again: a tree, or "plan"
    backtrack_to: Gate | None = None
    why_skipped: str = ""

    @property
    def surface(self) -> Surface:
        return "FEEDBACK" if self.decision is Decision.PASS and self.feedback else _SURFACE[self.decision]

    @property
    def retryable(self) -> bool:
        """Whether the same step may try again without a person or a new plan."""
        return self.decision in (Decision.RETRY, Decision.REDO)


def settle(gate: Gate, reasons: Iterable[GateReason], start: str = "") -> Ruling:
    """The gravest of what a gate has to say; with nothing to say it lets pass."""
    said = tuple(one._replace(text=_on_one_line(one.text)) for one in reasons)
    decision = gravest(one.decision for one in said)
    redo_from = {Decision.REDO: start, Decision.REPLAN: "plan"}.get(decision, "")
    return Ruling(gate, decision, said, redo_from=redo_from)


def _on_one_line(text: str) -> str:
    """A file's name may hold a line break, and must not print a line of its own."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


# What others say, in our words ------------------------------------------------------------------------------------

_WORDS: dict[tuple[str, str], Decision] = {
    ("gate", "PASS"): Decision.PASS,
    ("gate", "SKIP"): Decision.SKIP,
    ("gate", "RETRY"): Decision.RETRY,
    ("gate", "REJECT"): Decision.REDO,
    ("gate", "FEEDBACK"): Decision.PASS,
    ("security", "PASS"): Decision.PASS,
    ("security", "REJECT"): Decision.STOP,
    ("critic", "PASS"): Decision.PASS,
    ("critic", "REVISE"): Decision.RETRY,
    ("critic", "REJECT"): Decision.ASK,
    ("review", "PASS"): Decision.PASS,
    ("review", "FIX"): Decision.RETRY,
    ("review", "RETRY"): Decision.RETRY,
    ("review", "BLOCKED"): Decision.STOP,
    ("needs", "RETRY"): Decision.RETRY,
    ("needs", "REPLAN"): Decision.REPLAN,
    ("needs", "RESEARCH"): Decision.REPLAN,
    ("needs", "SPLIT"): Decision.REPLAN,
    ("needs", "ASK"): Decision.ASK,
}


def canonical(source: str, word: str, *, unattended: bool = False) -> Decision:
    """What a gate, critic, reviewer or blocker card said. A word nobody knows is a question, never a PASS."""
    found = _WORDS.get((source, word.strip().upper()), Decision.ASK)
    rejected = (source, word.strip().upper()) == ("critic", "REJECT")
    return Decision.REPLAN if rejected and unattended else found


# What comes next --------------------------------------------------------------------------------------------------


class DecisionEffect(NamedTuple):
    """Where a decision leads: the states its task goes through, and what a run that cannot go on ends with."""

    states: tuple[TaskState, ...]
    error: type[ReflectloopError] | None
    words: str


_NOT_PASSED: dict[Decision, DecisionEffect] = {
    Decision.RETRY: DecisionEffect(
        (TaskState.RECOVERING, TaskState.EXECUTING), VerificationFailed, "mend it in place; the same gate looks again"
    ),
    Decision.REDO: DecisionEffect(
        (TaskState.EXECUTING,), GateRejected, "the output is thrown away; the step begins again from its start tree"
    ),
    Decision.REPLAN: DecisionEffect((TaskState.RECOVERING, TaskState.PLANNING), GateRejected, "the steps must change"),
    Decision.ASK: DecisionEffect((TaskState.RECOVERING, TaskState.BLOCKED), GateRejected, "a person decides"),
    Decision.STOP: DecisionEffect((TaskState.LATCHED,), GateRejected, "nothing goes on until a person says so"),
}


def follow(ruling: Ruling, *, steps_left: bool = False, insight_skipped: bool = False) -> DecisionEffect:
    """The one place that says what a decision means for the task it is about, seen from VERIFYING onwards."""
    if ruling.backtrack_to and ruling.decision.goes_on:
        return DecisionEffect((TaskState.VERIFYING,), None, f"back to {ruling.backtrack_to.sign}")
    if not ruling.decision.goes_on:
        return _NOT_PASSED[ruling.decision]
    match ruling.gate:
        case Gate.RULES:
            return DecisionEffect((), None, "on to 定")
        case Gate.PROOF:
            past = TaskState.STORING if insight_skipped else TaskState.INSIGHT
            return DecisionEffect((past,), None, "on to 识" if insight_skipped else "on to 慧")
        case Gate.INSIGHT:
            return DecisionEffect((TaskState.STORING,), None, "on to 识")
        case Gate.STORE:
            left = TaskState.EXECUTING if steps_left else TaskState.FINAL_REVIEW
            return DecisionEffect((left,), None, "the next step" if steps_left else "the final review")


SPENT = "limit"  # the rule of a reason that says a limit is spent


def as_error(ruling: Ruling, next_step: str) -> ReflectloopError | None:
    """What a run stops with; None where it goes on. A STOP holds the project."""
    kind = follow(ruling).error
    if kind is None:
        return None
    first = next(reason for reason in ruling.reasons if reason.decision is ruling.decision)
    more = len(ruling.reasons) - 1
    words = f"{ruling.decision}: {first}" + (f" (and {more} more)" if more else "")
    if first.rule == SPENT:
        return MaxRetries(words)
    error = kind(words, next_step=next_step)
    error.stops = ruling.decision is Decision.STOP
    return error
