"""Find the assertions of functions that tests call."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reflectloop.verification.tampering.python.compare import skeleton
from reflectloop.verification.tampering.python.suite import Suite, SuiteFunction

_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_DEEP = 3


class Helpers:
    """All functions of the files that are not tests, by their last name."""

    def __init__(self, suites: Iterable[Suite]) -> None:
        self._known: dict[str, SuiteFunction] = {}
        for suite in suites:
            for case in suite.cases:
                if not case.collected:
                    self._known[case.name.rpartition(".")[2]] = case

    def demands(self, case: SuiteFunction) -> frozenset[str]:
        """Return the blanked assertions of every function this test reaches."""
        reached: dict[str, SuiteFunction] = {}
        names = set(_WORD.findall(case.body)) | {helper.arg for helper in case.node.args.args}
        for _ in range(_DEEP):
            fresh = {name: self._known[name] for name in names if name in self._known and name not in reached}
            reached.update(fresh)
            names = {name for helper in fresh.values() for name in _WORD.findall(helper.body)}
        return frozenset(skeleton(check.text) for helper in reached.values() for check in helper.checks)
