"""Times contestants in turn, round after round, so that a noisy machine disturbs them alike."""

from __future__ import annotations

import os
import random
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Self


def nothing() -> None:
    return None


class Spent(NamedTuple):
    """Time that passed, on the wall and on all processors: ours and those of the children waited for."""

    wall_s: float
    cpu_s: float

    def __sub__(self, earlier: Self) -> Spent:
        return Spent(self.wall_s - earlier.wall_s, self.cpu_s - earlier.cpu_s)


Act = Callable[[], object]


class Contestant(NamedTuple):
    name: str
    act: Act
    before: Act = nothing  # not timed
    after: Act = nothing  # not timed


def reading() -> Spent:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu_s = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return Spent(time.perf_counter(), cpu_s)


def run(contestants: Sequence[Contestant], rounds: int, *, settle: bool = False) -> dict[str, Spent]:
    """The median of each contestant; `settle` writes the disk's backlog out before each start."""
    samples: dict[str, list[Spent]] = {one.name: [] for one in contestants}
    for number in range(rounds):
        for one in _turned(contestants, number):
            samples[one.name].append(_once(one, settle=settle))
    return {name: median(taken) for name, taken in samples.items()}


def _turned(contestants: Sequence[Contestant], number: int) -> list[Contestant]:
    # In another order each round: whoever follows the worst litterer must not always be the same.
    return random.Random(number).sample(contestants, len(contestants))  # noqa: S311


def _once(one: Contestant, *, settle: bool) -> Spent:
    one.before()
    if settle:
        os.sync()
    try:
        start = reading()
        one.act()
        return reading() - start
    finally:
        one.after()


def median(samples: Iterable[Spent]) -> Spent:
    taken = list(samples)
    walls, cpus = (statistics.median(one[part] for one in taken) for part in (0, 1))
    return Spent(walls, cpus)
