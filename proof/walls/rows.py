"""One row of the result: an attempt, by whom, behind which wall, and what came of it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Result = Literal["held", "got out", "not applicable"]


class Row(NamedTuple):
    part: str
    attempt: str
    of: str  # `report`: of the first security report; `new`: of this proof
    who: str
    result: Result
    seen: str


def row(part: str, attempt: str, of: str, who: str, *, out: str, control: str, why_not: str = "") -> Row:
    """Judge: it got out, or the wall held what works without it, or it proves nothing here."""
    if out and why_not:
        return Row(part, attempt, of, who, "not applicable", why_not)
    if out:
        return Row(part, attempt, of, who, "got out", out)
    if not control:
        return Row(part, attempt, of, who, "not applicable", why_not or "does not work without a wall here either")
    return Row(part, attempt, of, who, "held", f"without the wall: {control}")
