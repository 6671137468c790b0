"""The verdict of the policy: allowed or not, by which rule, and about which part of the command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Word = Literal["allow", "confirm", "deny"]
_GRAVITY: dict[str, int] = {"allow": 0, "confirm": 1, "deny": 2}


class PolicyVerdict(NamedTuple):
    verdict: Word
    rule: str | None = None
    reason: str = "no rule matches it"
    where: str = ""  # the part of the command that the rule is about
    through: tuple[str, ...] = ()  # the commands that wrap this part, from the outside in

    @property
    def allowed(self) -> bool:
        return self.verdict == "allow"


def worst(verdicts: Iterable[PolicyVerdict]) -> PolicyVerdict:
    """Return the gravest verdict; of equal ones, the first."""
    return max(verdicts, key=lambda verdict: _GRAVITY[verdict.verdict], default=PolicyVerdict("allow"))
