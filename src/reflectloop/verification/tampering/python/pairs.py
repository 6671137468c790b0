"""Find for every old test the new one that replaced it, whatever its name and file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from reflectloop.verification.tampering.python.suite import SuiteFunction

How = Literal["same", "renamed", "merged", "uncollected", "gone"]
_ALIKE = 0.75
_LONGEST = 6000
_MOST = 60


class TestPair(NamedTuple):
    """An old test, its replacement, and how they were matched."""

    old: SuiteFunction
    new: SuiteFunction | None
    how: How


def pairs(
    old: Sequence[SuiteFunction], new: Sequence[SuiteFunction], uncollected: Sequence[SuiteFunction]
) -> Iterator[TestPair]:
    """Match old tests to new ones, surest methods first; a new test replaces one old test only."""
    waiting, free = list(old), {(case.path, case.name): case for case in new}
    for how, choose in _METHODS:
        rest = []
        for case in waiting:
            match = choose(case, free)
            if match is None:
                rest.append(case)
            else:
                del free[match.path, match.name]
                yield TestPair(case, match, how)
        waiting = rest
    for case in waiting:
        yield _unmatched(case, new, uncollected)


Free = dict[tuple[str, str], SuiteFunction]


def _same_place(case: SuiteFunction, free: Free) -> SuiteFunction | None:
    return free.get((case.path, case.name))


def _same_body(case: SuiteFunction, free: Free) -> SuiteFunction | None:
    return next((other for other in free.values() if other.body == case.body and case.body), None)


def _same_name(case: SuiteFunction, free: Free) -> SuiteFunction | None:
    last = case.name.rpartition(".")[2]
    matches = [other for other in free.values() if other.name.rpartition(".")[2] == last]
    return matches[0] if len(matches) == 1 else None


def _same_demands(case: SuiteFunction, free: Free) -> SuiteFunction | None:
    wanted = {check.text for check in case.checks}
    return next((other for other in free.values() if wanted and wanted <= {check.text for check in other.checks}), None)


def _alike(case: SuiteFunction, free: Free) -> SuiteFunction | None:
    candidates = [other for other in free.values() if other.path == case.path and other.body][:_MOST]
    scored = [(_likeness(case.body, other.body), at, other) for at, other in enumerate(candidates)]
    best = max(scored, default=None, key=lambda other: other[:2])
    return best[2] if best is not None and best[0] >= _ALIKE else None


def _likeness(first: str, second: str) -> float:
    matcher = SequenceMatcher(None, first[:_LONGEST], second[:_LONGEST], autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE else 0.0


_METHODS: tuple[tuple[How, Callable[[SuiteFunction, Free], SuiteFunction | None]], ...] = (
    ("same", _same_place),
    ("renamed", _same_body),
    ("renamed", _same_name),
    ("renamed", _same_demands),
    ("renamed", _alike),
)


def _unmatched(case: SuiteFunction, new: Sequence[SuiteFunction], uncollected: Sequence[SuiteFunction]) -> TestPair:
    for other in uncollected:
        if other.body == case.body and case.body:
            return TestPair(case, other, "uncollected")
    wanted = {check.text for check in case.checks}
    for other in new:
        if wanted and wanted <= {check.text for check in other.checks}:
            return TestPair(case, other, "merged")
    return TestPair(case, None, "gone")
