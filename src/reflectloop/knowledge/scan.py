"""Search without a full-text index: every lesson is looked at, which is slow and needs nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reflectloop.knowledge import words

_WEIGHTS = (8, 5, 1)  # of title, keywords and body
_ENDINGS = ("ations", "ation", "ings", "ing", "ions", "ion", "ers", "ies", "er", "ed", "es", "ly", "s", "e", "y")
_SHORTEST = 3  # of a stem


class Said(NamedTuple):
    number: int
    title: str
    keywords: str
    body: str


def ranked(rows: Iterable[Said], terms: Sequence[str]) -> list[int]:
    """Those with every word first, then those with any; in each the best first."""
    wanted = {stem(term) for term in terms}
    rated = [(*_rate(row, wanted), row.number) for row in rows]
    rated = [one for one in rated if one[0]]
    return [number for *_, number in sorted(rated, key=lambda one: (-one[0], -one[1], one[2]))]


def _rate(row: Said, wanted: set[str]) -> tuple[int, int]:
    """How many of the words it has, and how well they stand."""
    found = [wanted & {stem(word) for word in words.terms_of(text)} for text in row[1:]]
    return len(set().union(*found)), sum(weight * len(some) for weight, some in zip(_WEIGHTS, found, strict=True))


def stem(word: str) -> str:
    """Without its endings, one after the other: "retries" and "retrying" have one stem."""
    low = word.lower()
    while ending := next((one for one in _ENDINGS if low.endswith(one) and len(low) - len(one) >= _SHORTEST), ""):
        low = low[: -len(ending)]
    return low
