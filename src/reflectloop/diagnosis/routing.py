"""Route a failure to one way forward and its command. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from reflectloop.diagnosis.failure_record import TOO_OFTEN, FailureRecord, Needs

Way = Literal["research", "replan", "ask", "unlock", "retry"]
RETRY = "reflectloop retry --reason TEXT"
UNLOCK = "reflectloop unlock --reason TEXT"
_BROKEN_PLANS = ("MISSING_PLAN", "INVALID_PLAN", "SANDBOX_ESCAPE")
_ADVICE: dict[Needs, str] = {
    "RESEARCH": "find out what is missing or incompatible, then change the plan or the machine",
    "REPLAN": "the plan does not work; write a changed one",
    "ASK": "a person must decide",
    "RETRY": "something outside failed; run it again when it is fixed",
}
# The commands that the older protocol's router calls.
_THINKING: dict[Way, str] = {"research": "/thingking_web", "replan": "/thingking_web"}


class FailedRunFacts(NamedTuple):
    """The facts about a failed run."""

    run_id: str
    failure: FailureRecord
    summary: str
    plan: str  # path as the user wrote it
    again: str  # the command that runs it again
    advised: str = ""  # the command that its error suggested
    times_seen: int = 1
    fixes: Sequence[str] = ()  # commands that helped before


class Route(NamedTuple):
    """The way forward after a failure."""

    route: Way
    why: str
    command: str  # to run now
    then: str = ""  # to run after it
    run_id: str = ""
    facts: tuple[tuple[str, Any], ...] = ()  # about the failure

    def as_data(self) -> dict[str, Any]:
        fields = {name: value for name, value in self._asdict().items() if name != "facts"}
        return {**fields, "thinking": _THINKING.get(self.route), **dict(self.facts)}


def of_failure(card: FailedRunFacts) -> Route:
    """Return the route for a failed run."""
    failure = card.failure
    facts = {
        "needs": failure.needs,
        "category": failure.category,
        "class": str(failure.error_class),
        "signature": failure.signature,
        "times_seen": card.times_seen,
        "known_fixes": list(card.fixes),
    }
    return _way(card)._replace(run_id=card.run_id, facts=tuple(facts.items()))


def _way(card: FailedRunFacts) -> Route:
    cause = card.failure.diagnosis.root_cause if card.failure.diagnosis else ""
    what = f"{card.summary}; likely: {cause}" if cause and cause not in card.summary else card.summary
    if card.times_seen >= TOO_OFTEN and card.failure.needs != "RETRY":
        often = f"the same failure, seen {card.times_seen} times (3.3.1): a stronger backend, or a person, must look"
        return Route("ask", f"{what}; {often}", f"reflectloop reflect {card.run_id}", card.again)
    if card.fixes:
        return Route(_way_of(card.failure.needs), f"{what}; this helped before", card.fixes[0], card.again)
    advice = card.advised if card.failure.needs == "ASK" and not card.advised.startswith("reflectloop ") else ""
    why = f"{what}; {advice or _ADVICE[card.failure.needs]}"
    return Route(_way_of(card.failure.needs), why, *_commands(card))


def _way_of(needs: Needs) -> Way:
    ways: dict[Needs, Way] = {"RESEARCH": "research", "REPLAN": "replan", "ASK": "ask", "RETRY": "retry"}
    return ways[needs]


def _commands(card: FailedRunFacts) -> tuple[str, str]:
    """Return the command to run now, and the one after it."""
    failure, diagnosis = card.failure, card.failure.diagnosis
    match failure.needs:
        case "RESEARCH":
            cause = diagnosis.root_cause if diagnosis else card.summary
            look_up = (
                f"reflectloop lessons search --moment failure --signature {failure.signature} {shlex.quote(cause)}"
            )
            return (diagnosis.next_command if diagnosis else None) or look_up, card.again
        case "REPLAN":
            plan = shlex.quote(card.plan)
            check = failure.code in _BROKEN_PLANS
            return (f"reflectloop plan check {plan}" if check else f"reflectloop reflect {card.run_id}"), (
                f"reflectloop run {plan}"
            )
        case "ASK":
            typed = card.advised.startswith("reflectloop ") and card.advised != card.again
            return card.advised if typed else f"reflectloop show {card.run_id}", card.again
    return ("reflectloop resume", "") if failure.code == "INTERRUPTED" else (card.again, "")
