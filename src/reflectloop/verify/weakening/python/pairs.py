"""Finds for every old test the new one that took its place, whatever its name and file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from reflectloop.verify.weakening.python.suite import Case

How = Literal["same", "renamed", "merged", "uncollected", "gone"]
_ALIKE = 0.75
_LONGEST = 6000
_MOST = 60


class Pair(NamedTuple):
    old: Case
    new: Case | None
    how: How


def pairs(old: Sequence[Case], new: Sequence[Case], uncollected: Sequence[Case]) -> Iterator[Pair]:
    """Surest ways first; a new test takes the place of one old test only."""
    waiting, free = list(old), {(case.path, case.name): case for case in new}
    for how, choose in _WAYS:
        rest = []
        for case in waiting:
            found = choose(case, free)
            if found is None:
                rest.append(case)
            else:
                del free[found.path, found.name]
                yield Pair(case, found, how)
        waiting = rest
    for case in waiting:
        yield _left(case, new, uncollected)


Free = dict[tuple[str, str], Case]


def _same_place(case: Case, free: Free) -> Case | None:
    return free.get((case.path, case.name))


def _same_body(case: Case, free: Free) -> Case | None:
    return next((each for each in free.values() if each.body == case.body and case.body), None)


def _same_name(case: Case, free: Free) -> Case | None:
    last = case.name.rpartition(".")[2]
    found = [each for each in free.values() if each.name.rpartition(".")[2] == last]
    return found[0] if len(found) == 1 else None


def _same_demands(case: Case, free: Free) -> Case | None:
    wanted = {each.text for each in case.checks}
    return next((each for each in free.values() if wanted and wanted <= {check.text for check in each.checks}), None)


def _alike(case: Case, free: Free) -> Case | None:
    near = [each for each in free.values() if each.path == case.path and each.body][:_MOST]
    scored = [(_likeness(case.body, each.body), at, each) for at, each in enumerate(near)]
    best = max(scored, default=None, key=lambda each: each[:2])
    return best[2] if best is not None and best[0] >= _ALIKE else None


def _likeness(one: str, two: str) -> float:
    matcher = SequenceMatcher(None, one[:_LONGEST], two[:_LONGEST], autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE else 0.0


_WAYS: tuple[tuple[How, Callable[[Case, Free], Case | None]], ...] = (
    ("same", _same_place),
    ("renamed", _same_body),
    ("renamed", _same_name),
    ("renamed", _same_demands),
    ("renamed", _alike),
)


def _left(case: Case, new: Sequence[Case], uncollected: Sequence[Case]) -> Pair:
    for other in uncollected:
        if other.body == case.body and case.body:
            return Pair(case, other, "uncollected")
    wanted = {each.text for each in case.checks}
    for other in new:
        if wanted and wanted <= {each.text for each in other.checks}:
            return Pair(case, other, "merged")
    return Pair(case, None, "gone")
