"""Make inputs in which a text or a list and a number grow by the same count; pure.

A function that keeps something below a limit gives another answer where it just fits. Inputs that differ in one
argument alone are on one side of that border or on the other; these are as near to it as a test, at limits that no test
has.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

from reflectloop.verification.probing import neighbours
from reflectloop.verification.probing.neighbours import CallInput, NeighbourInput

FITTED = "fitted"  # the family of these inputs
_STEPS = (1, 2, 3, 4, 6, 9, 13, 21)
_MOST_TESTS, _MOST_PAIRS, _LONGEST = 4, 2, 400


def make(inputs: Sequence[CallInput], focus: Sequence[int], seed: str) -> list[NeighbourInput]:
    """Return inputs in which a number is larger by as much as another argument is longer."""
    chance = random.Random(int.from_bytes(hashlib.sha256(f"{seed} fitted".encode()).digest()[:8], "big"))  # noqa: S311
    known = {neighbours.key(given) for given in inputs}
    out: dict[str, NeighbourInput] = {}
    for at in focus[:_MOST_TESTS]:
        for number, long in list(_pairs(inputs[at]))[:_MOST_PAIRS]:
            given = dict(neighbours.arguments(inputs[at]))
            for step in _STEPS:
                longer = neighbours.with_value(inputs[at], long, _longer(given[long], step, chance))
                made = neighbours.with_value(longer, number, given[number] + step)
                if neighbours.key(made) not in known:
                    out.setdefault(neighbours.key(made), NeighbourInput(made, at, str(number), FITTED))
    return [*out.values()]


def _pairs(given: CallInput) -> Iterator[tuple[int | str, int | str]]:
    """Yield the places of a number and of a text or a list that has several parts."""
    places = neighbours.arguments(given)
    numbers = [place for place, value in places if type(value) is int and value > 0]
    long = [place for place, value in places if type(value) in (str, list) and 1 < len(value) <= _LONGEST]
    yield from ((number, place) for number in numbers for place in long)


def _longer(value: Any, step: int, chance: random.Random) -> Any:  # noqa: ANN401 - a text or a list
    """Return a value that is longer by `step`: a letter or digit, or an element, stands there several times."""
    places = [at for at, part in enumerate(value) if not isinstance(part, str) or part.isalnum()]
    at = chance.choice(places or range(len(value)))
    return value[:at] + value[at : at + 1] * step + value[at:]
