"""Search without a full-text index, by reading every lesson: slow, but without requirements. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reflectloop.lessons import lesson_words

_WEIGHTS = (8, 5, 1)  # for title, keywords and body
_ENDINGS = ("ations", "ation", "ings", "ing", "ions", "ion", "ers", "ies", "er", "ed", "es", "ly", "s", "e", "y")
_SHORTEST = 3  # letters of a stem


class LessonText(NamedTuple):
    """The searchable text of one lesson."""

    number: int
    title: str
    keywords: str
    body: str


def ranked(rows: Iterable[LessonText], terms: Sequence[str]) -> list[int]:
    """Return lessons with every word first, then those with any word, each best first."""
    wanted = {stem(term) for term in terms}
    rated = [(*_rate(row, wanted), row.number) for row in rows]
    rated = [rating for rating in rated if rating[0]]
    return [number for *_, number in sorted(rated, key=lambda rating: (-rating[0], -rating[1], rating[2]))]


def _rate(row: LessonText, wanted: set[str]) -> tuple[int, int]:
    """Return how many of the words the lesson has, and their weight."""
    hits = [wanted & {stem(word) for word in lesson_words.terms_of(text)} for text in row[1:]]
    return len(set().union(*hits)), sum(weight * len(hit) for weight, hit in zip(_WEIGHTS, hits, strict=True))


def stem(word: str) -> str:
    """Remove the endings of a word repeatedly: "retries" and "retrying" have the same stem."""
    low = word.lower()
    while ending := next(
        (suffix for suffix in _ENDINGS if low.endswith(suffix) and len(low) - len(suffix) >= _SHORTEST), ""
    ):
        low = low[: -len(ending)]
    return low
