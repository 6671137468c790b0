"""Make inputs that are far from a recorded one and share a part with it: its last digits, its words, its elements.

A fix depends on some property of its inputs, and an input that keeps the property changes too, however far it is. A
list of the tests' inputs, a range of them or a sum over their characters does not reach so far.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

_NUMBER = re.compile(r"[+-]?\d{1,15}")
_WORD = re.compile(r"[A-Za-z]+|\d+")
_LONGEST = 400
_ROUNDS = 8
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class FarValue(NamedTuple):
    """A value, and the name of the way by which it was made."""

    family: str
    value: Any


def far_values(value: object, others: Sequence[object], chance: random.Random) -> Iterator[FarValue]:
    """Yield values that share a part with a value; `others` are values that other calls had in its place."""
    if type(value) is int:
        yield from _numbers(value, chance)
    elif type(value) is str:
        alike = [other for other in others if isinstance(other, str) and other != value]
        yield from _texts(value, alike, chance)
    elif type(value) in (list, tuple):  # no object of the project
        kind: Any = type(value)
        for family, items in _lists([*value], [[*other] for other in others if type(other) is kind], chance):  # type: ignore[misc]
            yield FarValue(family, kind(items))


def _numbers(value: int, chance: random.Random) -> Iterator[FarValue]:
    sign, size = (-1 if value < 0 else 1), abs(value)
    for step in range(_ROUNDS):
        yield FarValue("same end", sign * (size + 100 * (step + 1)))
        yield FarValue("same end", sign * (size + 10 ** len(str(size)) * chance.randint(1, 10 ** (1 + step % 3))))
        yield FarValue("larger", sign * (size * 10 + chance.randrange(10)))
        yield FarValue("same end", sign * (size + 1000 * chance.randint(1, 10 ** (1 + step % 3))))
        yield FarValue("multiple", sign * size * (step + 2))
        yield FarValue("larger", sign * chance.randint(size * 2 + 10, size * 100 + 1000))


def _texts(value: str, others: Sequence[str], chance: random.Random) -> Iterator[FarValue]:
    if _NUMBER.fullmatch(value):
        yield from (FarValue(family, str(number)) for family, number in _numbers(int(value), chance))
        return
    if not value or len(value) > _LONGEST:
        return
    streams = [_of_words(value, others, chance), _of_ends(value, chance), _joined(value, others, chance)]
    while streams:
        for stream in list(streams):
            made = next(stream, None)
            if made is None:
                streams.remove(stream)
            else:
                yield made


def _of_words(value: str, others: Sequence[str], chance: random.Random) -> Iterator[FarValue]:
    """Yield texts in which one word is one of another recorded text, or one that no text has."""
    words = list(_WORD.finditer(value))
    known = [match[0] for other in others[:40] for match in _WORD.finditer(other[:_LONGEST])]
    for number in range(_ROUNDS if words else 0):
        word = chance.choice(words)
        alike = [other for other in known if other[0].isdigit() == word[0][0].isdigit()]
        made = chance.choice(alike) if alike and number % 2 else _like(word[0], chance)
        yield FarValue("other word", value[: word.start()] + made + value[word.end() :])


def _like(word: str, chance: random.Random) -> str:
    """Return another word or number of another length."""
    length = max(1, len(word) + chance.choice((-1, 1, 2, 3)))
    if word[0].isdigit():
        return str(chance.randint(1, 9)) + "".join(str(chance.randrange(10)) for _ in range(length - 1))
    made = "".join(chance.choice(_LETTERS) for _ in range(length))
    return made.upper() if word.isupper() else made.title() if word[0].isupper() else made


def _of_ends(value: str, chance: random.Random) -> Iterator[FarValue]:
    """Yield texts with the same beginning, or the same end."""
    for number in range(_ROUNDS if len(value) > 1 else 0):
        share = chance.randint(1, max(1, len(value) // 2))
        made = "".join(chance.choice(_LETTERS) for _ in range(1 + number % 5))
        yield FarValue("same end", made + value[share if number % 2 else 0 :])
        yield FarValue("same beginning", value[: -share if number % 2 else len(value)] + made)


def _joined(value: str, others: Sequence[str], chance: random.Random) -> Iterator[FarValue]:
    marks = sorted({mark for text in (value, *others[:40]) for mark in text[:_LONGEST] if not mark.isalnum()}) or [" "]
    for _ in range(_ROUNDS if others else 0):
        other, mark = chance.choice(others)[:_LONGEST], chance.choice(marks)
        yield FarValue("joined", value + mark + other)
        yield FarValue("joined", other + mark + value)


def _lists(value: list[Any], others: Sequence[list[Any]], chance: random.Random) -> Iterator[tuple[str, list[Any]]]:
    if not value or len(value) > _LONGEST:
        return
    pool = [item for other in others[:40] for item in other[:_LONGEST] if type(item) is type(value[0])] or value
    edits: tuple[Callable[[], tuple[str, list[Any]]], ...] = (
        lambda: ("joined", [*value, *chance.choice(others)[:_LONGEST]] if others else [*value, *value]),
        lambda: ("other element", _placed(value, chance.choice(pool), chance)),
        lambda: ("joined", [chance.choice(pool), *value]),
        lambda: ("joined", [*value, chance.choice(pool)]),
    )
    for number in range(2 * _ROUNDS):
        yield edits[number % len(edits)]()


def _placed(value: list[Any], item: object, chance: random.Random) -> list[Any]:
    at = chance.randrange(len(value))
    return [*value[:at], item, *value[at + 1 :]]
