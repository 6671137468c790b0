"""Looks at what a patch did to Python tests and to what they stand on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reflectloop.verify.protected import guard, is_test
from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening.python.compare import Surroundings, compared, expected_names, marks_added
from reflectloop.verify.weakening.python.data import cut, replaced, top_values
from reflectloop.verify.weakening.python.helpers import Helpers
from reflectloop.verify.weakening.python.pairs import Pair, pairs
from reflectloop.verify.weakening.python.rows import Table, constants, tables
from reflectloop.verify.weakening.python.strength import claim
from reflectloop.verify.weakening.python.suite import Case, Suite, read
from reflectloop.verify.weakening.python.tricks import in_file
from reflectloop.verify.weakening.python.verdict import Said


class _Side(NamedTuple):
    """All Python files of tests, as they were or as they are."""

    suites: dict[str, Suite]
    helpers: Helpers

    def rows_of(self, case: Case) -> Sequence[Table]:
        return tables(case.node, constants(self.suites[case.path].module))


def look(changes: Sequence[Change]) -> Iterator[Finding]:
    ours = [change for change in changes if _concerns(change.path)]
    yield from _unreadable(ours)
    old = _side({change.path: read(change.path, change.before) for change in ours})
    new = _side({change.path: read(change.path, change.after) for change in ours})
    deleted = {change.path for change in ours if change.after is None}
    yield from _tests(old, new, deleted)
    yield from _stood_on(old, new)
    yield from _whole_files(old, new)


def _concerns(path: str) -> bool:
    found = guard(path)
    return path.endswith(".py") and found is not None and found.kind in {"test", "fixture", "hook"}


def _unreadable(changes: Sequence[Change]) -> Iterator[Finding]:
    for change in changes:
        if is_test(change.path) and change.after is not None and read(change.path, change.after) is None:
            yield Finding("test-unreadable", change.path, 1, "the test file cannot be read as Python")


def _side(read_: dict[str, Suite | None]) -> _Side:
    suites = {path: suite for path, suite in read_.items() if suite is not None}
    return _Side(suites, Helpers(suites.values()))


def _tests(old: _Side, new: _Side, deleted: set[str]) -> Iterator[Finding]:
    before = [case for suite in old.suites.values() for case in suite.tests]
    known = {case.path for case in before}
    after = [case for suite in new.suites.values() for case in suite.tests if is_test(case.path) or case.path in known]
    kept = {(case.path, case.name) for case in after}
    others = [case for suite in new.suites.values() for case in suite.cases if (case.path, case.name) not in kept]
    gone: dict[str, list[Case]] = defaultdict(list)
    for pair in pairs(before, after, others):
        if pair.how == "gone" and pair.old.path in deleted:
            gone[pair.old.path].append(pair.old)
        else:
            yield from _pair(pair, old, new)
    for path, cases in gone.items():
        yield Finding(
            "file-deleted", path, None, f"the file is gone, and with it {len(cases)} test(s) that are nowhere else"
        )


def _pair(pair: Pair, old: _Side, new: _Side) -> Iterator[Finding]:
    was, now = pair.old, pair.new
    if now is None:
        yield Finding("test-deleted", was.path, was.line, f"{was.name} is gone")
    elif pair.how == "uncollected":
        words = f"{was.name} is not collected any more: its body is now {now.name} in {now.path}"
        yield Finding("test-uncollected", now.path, now.line, words)
    elif pair.how == "merged":
        yield Finding("test-merged", now.path, now.line, f"{was.name} is gone; {now.name} demands the same", "note")
    else:
        if pair.how == "renamed":
            yield Finding("test-renamed", now.path, now.line, f"{was.name} is now {now.name}", "note")
        yield from _found(now.path, compared(was, now, _around(was, now, old, new), old.rows_of(was)))
        if was.body != now.body:
            yield Finding("test-changed", now.path, now.line, f"{now.name} was changed", "note")


def _around(was: Case, now: Case, old: _Side, new: _Side) -> Surroundings:
    return Surroundings(lambda: new.helpers.demands(now) - old.helpers.demands(was), new.rows_of(now))


def _found(path: str, said: Iterator[Said]) -> Iterator[Finding]:
    for line, (rule, what, grade) in said:
        yield Finding(rule, path, line, what, grade)


def _stood_on(old: _Side, new: _Side) -> Iterator[Finding]:
    """Fixtures, setUp and helpers that keep their name."""
    for path, suite in old.suites.items():
        after = {case.name: case for case in new.suites[path].cases} if path in new.suites else {}
        for was in suite.cases:
            now = after.get(was.name)
            if now is not None and not was.collected and not now.collected:
                yield from _found(path, compared(was, now, _around(was, now, old, new), ()))


def _whole_files(old: _Side, new: _Side) -> Iterator[Finding]:
    for path, suite in old.suites.items():
        now = new.suites.get(path)
        if now is not None and suite.cases:
            yield from _found(path, marks_added(suite.marks, now.marks, "the whole file"))
            yield from _found(path, cut(suite.module, now.module))
            yield from _found(path, _expected(suite, now))
            yield from _found(path, replaced(suite.module, now.module))
            yield from _found(path, in_file(suite.module, now.module))


def _expected(old: Suite, new: Suite) -> Iterator[Said]:
    claims = [claim(check.node) for case in new.cases for check in case.checks if check.kind == "claim"]
    return expected_names(claims, top_values(old.module), top_values(new.module))
