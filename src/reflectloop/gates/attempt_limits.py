"""Limit how often an output may fail at the gates.

Attempts are counted from the journal, so a restart keeps the count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from reflectloop.gates.decisions import SPENT, GateReason, Ruling
from reflectloop.terms import Decision, OutcomeWord

MAX_ATTEMPTS = 3  # the third RETRY, REDO or backtrack stops the project; each kind is counted separately
WARNED = 2
_LIKELY = {
    "boundary": "the work is wider than its contract allows: may_change may be too narrow, or the step too large",
    "contract": "the executor does not receive, or does not state, what the contract requires",
    "role": "a read-only role was asked to change files",
    "security": "the chosen approach needs something that the rules forbid",
    "evidence": "the project has no check that proves the claim",
    "api": "the interface was changed without looking at its callers",
    "sealed": "the change passes only in its own workspace: it depends on something that is not in the patch",
}


class GateAttempt(NamedTuple):
    """One run of the gates on an output, as the journal records it."""

    run_id: str
    gate: str
    decision: str
    reasons: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    backtracks: int = 0
    cause: str = ""  # the root cause that its author stated
    outcome: str = ""  # the word for people; older journals have none


def of_journal(decided: Iterable[Mapping[str, object]], subject: str, but: str = "") -> list[GateAttempt]:
    """Return the attempts of one output from the gate decisions of its journal.

    The decision that the run `but` is about to make again is left out; those before a `redo` of its steps count.
    """
    return [
        _attempt(decision)
        for decision in decided
        if decision["subject"] == subject and (decision["run_id"] != but or "reopened" in decision)
    ]


def stated_cause(decided: Iterable[Mapping[str, object]], run_id: str) -> str:
    """Return the reason for which steps of a run were done again after its last decision; empty if none was given."""
    reasons = [str(decision.get("reopened") or "") for decision in decided if decision["run_id"] == run_id]
    return reasons[-1] if reasons else ""


def _attempt(decision: Mapping[str, object]) -> GateAttempt:
    def texts(name: str) -> tuple[str, ...]:
        value = decision.get(name)
        return tuple(map(str, value)) if isinstance(value, list) else ()

    backtracked = decision.get("backtracks")
    return GateAttempt(
        str(decision["run_id"]),
        str(decision["gate"]),
        str(decision["decision"]),
        texts("reasons"),
        texts("rules"),
        len(backtracked) if isinstance(backtracked, list) else 0,
        str(decision.get("cause") or ""),
        str(decision.get("outcome") or ""),
    )


def since_pass(attempts: Sequence[GateAttempt]) -> list[GateAttempt]:
    """Return the attempts after the last one that passed; only these count."""
    passed = [number for number, attempt in enumerate(attempts) if attempt.decision in ("PASS", "SKIP")]
    return list(attempts[passed[-1] + 1 if passed else 0 :])


def count(attempts: Sequence[GateAttempt], decision: Decision) -> int:
    return sum(attempt.decision == decision and _is_failure(attempt.outcome) for attempt in since_pass(attempts))


def _is_failure(outcome: str) -> bool:
    """Return False for an attempt that waits for a person, or that no check could judge: its work did not fail."""
    return outcome not in (OutcomeWord.REVIEW, OutcomeWord.NOT_JUDGED)


def backtracks(attempts: Sequence[GateAttempt]) -> int:
    return sum(attempt.backtracks for attempt in since_pass(attempts))


def needs_root_cause(attempts: Sequence[GateAttempt]) -> bool:
    """Return True if the root cause must be stated before another attempt, which is so after two RETRYs."""
    return count(attempts, Decision.RETRY) >= WARNED


def apply_limit(ruling: Ruling, past: Sequence[GateAttempt]) -> Ruling:
    """Return the ruling, or a STOP if this failure reaches the limit."""
    if ruling.decision not in (Decision.RETRY, Decision.REDO) or not _is_failure(ruling.outcome):
        return ruling
    times = count(past, ruling.decision) + 1
    if times < MAX_ATTEMPTS:
        return ruling
    first = next(reason for reason in ruling.reasons if reason.decision is ruling.decision)
    history = "; ".join(
        f"{attempt.run_id}: {attempt.reasons[0] if attempt.reasons else attempt.decision}"
        for attempt in since_pass(past)
    )
    text = f"{ruling.decision} at {ruling.gate.sign}, time {times} of {MAX_ATTEMPTS}: {first.text}. Before: {history}"
    return as_stop(ruling, text)


def as_stop(ruling: Ruling, text: str) -> Ruling:
    reason = GateReason(Decision.STOP, SPENT, text)
    return ruling._replace(decision=Decision.STOP, reasons=(reason, *ruling.reasons), redo_from="")


def backtrack_warning(past: Sequence[GateAttempt], now: Sequence[str]) -> str | None:
    """Return the warning to give when the next backtrack would be the last, else None."""
    if backtracks(past) + len(now) != WARNED:
        return None
    return f"insight (慧) sent it back {WARNED} times ({'; '.join(now)}); the next time stops the project"


def backtrack_limit_reason(past: Sequence[GateAttempt], now: Sequence[str]) -> str | None:
    """Return the reason to stop if the limit of backtracks is reached, else None."""
    total = backtracks(past) + len(now)
    if total < MAX_ATTEMPTS:
        return None
    return f"insight (慧) sent it back {total} times: {'; '.join(now)}"


class EscalationPacket(NamedTuple):
    """The report to a person when the gates stop an output: attempts, likely causes, and what to decide."""

    attempts: tuple[Mapping[str, object], ...]
    causes: tuple[str, ...]
    asked: tuple[str, ...]


def escalation_packet(attempts: Sequence[GateAttempt], ruling: Ruling) -> EscalationPacket:
    kinds = Counter(rule.split(".")[0] for attempt in attempts for rule in attempt.rules)
    repeated = [
        text for text, times in Counter(text for attempt in attempts for text in attempt.reasons).items() if times > 1
    ]
    causes = [f"the same fault came back: {text}" for text in repeated[:WARNED]]
    causes += [cause for kind, cause in _LIKELY.items() if kinds[kind]]
    if len(attempts) > 1 and not repeated:
        causes.append("each attempt failed for a different reason: the repairs may conflict with each other")
    asked = [
        f"decide what {ruling.gate.sign} should accept, or change the goal, the boundaries or the checks",
        "then unlock the project: reflectloop unlock --reason TEXT",
    ]
    history = tuple(_attempt_data(number, attempt) for number, attempt in enumerate(attempts, 1))
    return EscalationPacket(history, tuple(causes), tuple(asked))


def _attempt_data(number: int, attempt: GateAttempt) -> Mapping[str, object]:
    return {
        "number": number,
        "run_id": attempt.run_id,
        "gate": attempt.gate,
        "decision": attempt.decision,
        "errors": list(attempt.reasons),
        "root_cause": attempt.cause or None,
        "backtracks": attempt.backtracks,
    }
