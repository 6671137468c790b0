"""What is said of one demand."""

from __future__ import annotations

from typing import Literal, NamedTuple

Grade = Literal["weakening", "suspect", "note"]


class Verdict(NamedTuple):
    rule: str
    what: str
    grade: Grade = "weakening"


class Said(NamedTuple):
    line: int
    verdict: Verdict


def short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - fits a line of a report
