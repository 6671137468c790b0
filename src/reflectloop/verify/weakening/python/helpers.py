"""Knows what the functions that tests call demand on their behalf."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reflectloop.verify.weakening.python.compare import skeleton
from reflectloop.verify.weakening.python.suite import Case, Suite

_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_DEEP = 3


class Helpers:
    """All functions of the given files that are no tests, by their last name."""

    def __init__(self, suites: Iterable[Suite]) -> None:
        self._known: dict[str, Case] = {}
        for suite in suites:
            for case in suite.cases:
                if not case.collected:
                    self._known[case.name.rpartition(".")[2]] = case

    def demands(self, case: Case) -> frozenset[str]:
        """The blanked demands of every function this test reaches."""
        reached: dict[str, Case] = {}
        words = set(_WORD.findall(case.body)) | {each.arg for each in case.node.args.args}
        for _ in range(_DEEP):
            fresh = {name: self._known[name] for name in words if name in self._known and name not in reached}
            reached.update(fresh)
            words = {word for each in fresh.values() for word in _WORD.findall(each.body)}
        return frozenset(skeleton(check.text) for each in reached.values() for check in each.checks)
