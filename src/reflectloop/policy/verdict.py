"""What the policy answers: may it run, by which rule not, and which part of the command it is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Word = Literal["allow", "confirm", "deny"]
_GRAVITY: dict[str, int] = {"allow": 0, "confirm": 1, "deny": 2}


class PolicyVerdict(NamedTuple):
    verdict: Word
    rule: str | None = None
    reason: str = "no rule speaks against it"
    where: str = ""  # the part of the command that the rule is about
    through: tuple[str, ...] = ()  # what that part was wrapped in, from the outside in

    @property
    def allowed(self) -> bool:
        return self.verdict == "allow"


def worst(verdicts: Iterable[PolicyVerdict]) -> PolicyVerdict:
    """The gravest one, and of those the first."""
    return max(verdicts, key=lambda one: _GRAVITY[one.verdict], default=PolicyVerdict("allow"))
