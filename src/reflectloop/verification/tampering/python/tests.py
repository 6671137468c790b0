"""Check what a patch did to Python tests and to the code they use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reflectloop.verification.protected import guard, is_test
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.python.assertion_strength import claim
from reflectloop.verification.tampering.python.bypasses import in_file
from reflectloop.verification.tampering.python.compare import NewFileContext, compared, expected_names, marks_added
from reflectloop.verification.tampering.python.data import cut, replaced, top_values
from reflectloop.verification.tampering.python.helpers import Helpers
from reflectloop.verification.tampering.python.pairs import TestPair, pairs
from reflectloop.verification.tampering.python.rows import ParameterTable, constants, tables
from reflectloop.verification.tampering.python.suite import Suite, SuiteFunction, read
from reflectloop.verification.tampering.python.verdict import LocatedVerdict


class _Side(NamedTuple):
    """All Python test files of one version, old or new."""

    suites: dict[str, Suite]
    helpers: Helpers

    def rows_of(self, case: SuiteFunction) -> Sequence[ParameterTable]:
        return tables(case.node, constants(self.suites[case.path].module))


def look(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    relevant = [change for change in changes if _concerns(change.path)]
    yield from _unreadable(relevant)
    old = _side({change.path: read(change.path, change.before) for change in relevant})
    new = _side({change.path: read(change.path, change.after) for change in relevant})
    deleted = {change.path for change in relevant if change.after is None}
    yield from _tests(old, new, deleted)
    yield from _support_code(old, new)
    yield from _file_level(old, new)


def _concerns(path: str) -> bool:
    protection = guard(path)
    return path.endswith(".py") and protection is not None and protection.kind in {"test", "fixture", "hook"}


def _unreadable(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    for change in changes:
        if is_test(change.path) and change.after is not None and read(change.path, change.after) is None:
            yield TamperFinding("test-unreadable", change.path, 1, "the test file cannot be read as Python")


def _side(parsed: dict[str, Suite | None]) -> _Side:
    suites = {path: suite for path, suite in parsed.items() if suite is not None}
    return _Side(suites, Helpers(suites.values()))


def _tests(old: _Side, new: _Side, deleted: set[str]) -> Iterator[TamperFinding]:
    before = [case for suite in old.suites.values() for case in suite.tests]
    known = {case.path for case in before}
    after = [case for suite in new.suites.values() for case in suite.tests if is_test(case.path) or case.path in known]
    remaining = {(case.path, case.name) for case in after}
    others = [case for suite in new.suites.values() for case in suite.cases if (case.path, case.name) not in remaining]
    removed: dict[str, list[SuiteFunction]] = defaultdict(list)
    for pair in pairs(before, after, others):
        if pair.how == "gone" and pair.old.path in deleted:
            removed[pair.old.path].append(pair.old)
        else:
            yield from _pair(pair, old, new)
    for path, cases in removed.items():
        yield TamperFinding(
            "file-deleted", path, None, f"the file was removed, with {len(cases)} test(s) that exist nowhere else"
        )


def _pair(pair: TestPair, old: _Side, new: _Side) -> Iterator[TamperFinding]:
    old_case, new_case = pair.old, pair.new
    if new_case is None:
        yield TamperFinding("test-deleted", old_case.path, old_case.line, f"{old_case.name} was removed")
    elif pair.how == "uncollected":
        message = f"{old_case.name} is no longer collected: its body is now {new_case.name} in {new_case.path}"
        yield TamperFinding("test-uncollected", new_case.path, new_case.line, message)
    elif pair.how == "merged":
        yield TamperFinding(
            "test-merged",
            new_case.path,
            new_case.line,
            f"{old_case.name} was removed; {new_case.name} checks the same",
            "note",
        )
    else:
        if pair.how == "renamed":
            yield TamperFinding(
                "test-renamed", new_case.path, new_case.line, f"{old_case.name} is now {new_case.name}", "note"
            )
        yield from _findings(
            new_case.path, compared(old_case, new_case, _around(old_case, new_case, old, new), old.rows_of(old_case))
        )
        if old_case.body != new_case.body:
            yield TamperFinding("test-changed", new_case.path, new_case.line, f"{new_case.name} was changed", "note")


def _around(was: SuiteFunction, now: SuiteFunction, old: _Side, new: _Side) -> NewFileContext:
    return NewFileContext(lambda: new.helpers.demands(now) - old.helpers.demands(was), new.rows_of(now))


def _findings(path: str, results: Iterator[LocatedVerdict]) -> Iterator[TamperFinding]:
    for line, (rule, what, grade) in results:
        yield TamperFinding(rule, path, line, what, grade)


def _support_code(old: _Side, new: _Side) -> Iterator[TamperFinding]:
    """Compare fixtures, setUp and helpers that keep their name."""
    for path, suite in old.suites.items():
        after = {case.name: case for case in new.suites[path].cases} if path in new.suites else {}
        for was in suite.cases:
            now = after.get(was.name)
            if now is not None and not was.collected and not now.collected:
                yield from _findings(path, compared(was, now, _around(was, now, old, new), ()))


def _file_level(old: _Side, new: _Side) -> Iterator[TamperFinding]:
    for path, suite in old.suites.items():
        now = new.suites.get(path)
        if now is not None and suite.cases:
            yield from _findings(path, marks_added(suite.marks, now.marks, "the whole file"))
            yield from _findings(path, cut(suite.module, now.module))
            yield from _findings(path, _expected(suite, now))
            yield from _findings(path, replaced(suite.module, now.module))
            yield from _findings(path, in_file(suite.module, now.module))


def _expected(old: Suite, new: Suite) -> Iterator[LocatedVerdict]:
    claims = [claim(check.node) for case in new.cases for check in case.checks if check.kind == "claim"]
    return expected_names(claims, top_values(old.module), top_values(new.module))
