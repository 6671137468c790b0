"""How often an output may come back: counted from the journal, which neither a restart nor new output forgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reflectloop.gates.decisions import SPENT, GateReason, Ruling
from reflectloop.terms import Decision

MOST = 3  # the failure that stops: of RETRY, of REDO, of backtracks, each by itself
WARNED = 2
_LIKELY = {
    "boundary": "the work is wider than its contract allows: may_change may be too narrow, or the step too large",
    "contract": "whoever does the work is not told, or does not say, what the contract asks for",
    "role": "a role that only looks was given something to do",
    "security": "the way chosen needs something that the rules forbid",
    "evidence": "the project has no check that shows what is claimed",
    "api": "callers are not seen by whoever changes the interface",
    "sealed": "the change passes only where it was made: it leans on something that is not in the patch",
}


class GateAttempt(NamedTuple):
    """One time an output stood before the gates, as the journal keeps it."""

    run_id: str
    gate: str
    decision: str
    reasons: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    backtracks: int = 0
    cause: str = ""  # what was said to be the root cause, when it began


def since_pass(attempts: Sequence[GateAttempt]) -> list[GateAttempt]:
    """Those that still count: what was let through is behind."""
    passed = [number for number, one in enumerate(attempts) if one.decision in ("PASS", "SKIP")]
    return list(attempts[passed[-1] + 1 if passed else 0 :])


def count(attempts: Sequence[GateAttempt], decision: Decision) -> int:
    return sum(one.decision == decision for one in since_pass(attempts))


def backtracks(attempts: Sequence[GateAttempt]) -> int:
    return sum(one.backtracks for one in since_pass(attempts))


def wants_cause(attempts: Sequence[GateAttempt]) -> bool:
    """After the second RETRY the cause is looked for before anything is mended again."""
    failed = [one for one in since_pass(attempts) if one.decision == Decision.RETRY]
    return len(failed) >= WARNED


def limited(ruling: Ruling, past: Sequence[GateAttempt]) -> Ruling:
    """The same ruling, or a STOP where this was one failure too many."""
    if ruling.decision not in (Decision.RETRY, Decision.REDO):
        return ruling
    times = count(past, ruling.decision) + 1
    if times < MOST:
        return ruling
    first = next(one for one in ruling.reasons if one.decision is ruling.decision)
    told = "; ".join(f"{one.run_id}: {one.reasons[0] if one.reasons else one.decision}" for one in since_pass(past))
    text = f"{ruling.decision} at {ruling.gate.sign}, time {times} of {MOST}: {first.text}. Before: {told}"
    return stopped(ruling, text)


def stopped(ruling: Ruling, text: str) -> Ruling:
    reason = GateReason(Decision.STOP, SPENT, text)
    return ruling._replace(decision=Decision.STOP, reasons=(reason, *ruling.reasons), redo_from="")


def warned(past: Sequence[GateAttempt], now: Sequence[str]) -> str | None:
    """What to say when the next way back would be the last."""
    if backtracks(past) + len(now) != WARNED:
        return None
    return f"sent back {WARNED} times by 慧 ({'; '.join(now)}); the next time it stops"


def spent_backtracks(past: Sequence[GateAttempt], now: Sequence[str]) -> str | None:
    """Why no further backtrack is made; None while one may be."""
    total = backtracks(past) + len(now)
    if total < MOST:
        return None
    return f"sent back {total} times by 慧: {'; '.join(now)}"


# What a person gets when it stops ---------------------------------------------------------------------------------


class EscalationPacket(NamedTuple):
    """Every attempt, its error, what may be behind it, and what is asked."""

    attempts: tuple[Mapping[str, object], ...]
    causes: tuple[str, ...]
    asked: tuple[str, ...]


def packet(attempts: Sequence[GateAttempt], ruling: Ruling) -> EscalationPacket:
    rooms = Counter(rule.split(".")[0] for one in attempts for rule in one.rules)
    repeated = [text for text, times in Counter(text for one in attempts for text in one.reasons).items() if times > 1]
    causes = [f"the same fault came back: {text}" for text in repeated[:WARNED]]
    causes += [said for room, said in _LIKELY.items() if rooms[room]]
    if len(attempts) > 1 and not repeated:
        causes.append("each attempt failed otherwise than the one before: the mends may work against each other")
    asked = [
        f"say what {ruling.gate.sign} should accept, or change what is asked: goal, boundaries, checks",
        "then lift the stop: reflectloop unlock --reason TEXT",
    ]
    told = tuple(_told(number, one) for number, one in enumerate(attempts, 1))
    return EscalationPacket(told, tuple(causes), tuple(asked))


def _told(number: int, one: GateAttempt) -> Mapping[str, object]:
    return {
        "number": number,
        "run_id": one.run_id,
        "gate": one.gate,
        "decision": one.decision,
        "errors": list(one.reasons),
        "root_cause": one.cause or None,
        "backtracks": one.backtracks,
    }
