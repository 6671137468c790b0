"""Result types of the comparison of two assertions."""

from __future__ import annotations

from typing import Literal, NamedTuple

Grade = Literal["weakening", "suspect", "note"]


class TamperVerdict(NamedTuple):
    """The rule, the description and the grade of one finding."""

    rule: str
    what: str
    grade: Grade = "weakening"


class LocatedVerdict(NamedTuple):
    """A verdict with its line."""

    line: int
    verdict: TamperVerdict


def short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - fits a line of a report
