"""Check what a patch did to Python tests and to the code they use."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from reflectloop.verification.protected import guard, is_test
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.python.assertion_strength import claim
from reflectloop.verification.tampering.python.bypasses import in_file
from reflectloop.verification.tampering.python.compare import (
    NewFileContext,
    compared,
    expected_names,
    marks_added,
    skeleton,
)
from reflectloop.verification.tampering.python.rows import ParameterTable, constants, tables
from reflectloop.verification.tampering.python.suite import Suite, SuiteFunction, read
from reflectloop.verification.tampering.python.verdict import LocatedVerdict, TamperVerdict

_LEAST = 2


def cut(old: ast.Module, new: ast.Module) -> Iterator[LocatedVerdict]:
    """Yield top-level lists and tables that lost entries, except those used by parametrisations."""
    before, after = _written(old), _written(new)
    changed = {name for name in before.keys() & after.keys() if _entries(before[name]) != _entries(after[name])}
    for name in sorted(before.keys() & top_values(new).keys() - after.keys()):
        message = f"`{name}` was a literal and is now computed: `{ast.unparse(top_values(new)[name])[:60]}`"
        yield LocatedVerdict(top_values(new)[name].lineno, TamperVerdict("data-cut", message, "suspect"))
    used = {ast.unparse(table) for table in (*_parametrised(old), *_parametrised(new))} if changed else set()
    for name in changed - used:
        removed = Counter(_entries(before[name])) - Counter(_entries(after[name]))
        new_entries = Counter(_entries(after[name])) - Counter(_entries(before[name]))
        missing = removed.total() - new_entries.total()
        if missing > 0 and len(_entries(before[name])) >= _LEAST:
            message = f"`{name}` lost {missing} entries, for example `{next(iter(removed))[:60]}`"
            yield LocatedVerdict(after[name].lineno, TamperVerdict("data-cut", message))


def top_values(module: ast.Module) -> Mapping[str, ast.expr]:
    """Return every name the file sets at top level, with its value."""
    values: dict[str, ast.expr] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            values[ast.unparse(target)] = statement.value
    return values


def replaced(old: ast.Module, new: ast.Module) -> Iterator[LocatedVerdict]:
    """Yield attributes of imported modules that the test file now sets when it is loaded."""
    imported = {
        (name.asname or name.name).partition(".")[0]
        for statement in new.body
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for name in statement.names
    }
    known = top_values(old)
    for target, value in top_values(new).items():
        if target not in known and "." in target and target.partition(".")[0] in imported:
            yield LocatedVerdict(
                value.lineno, TamperVerdict("code-mocked", f"the file sets `{target}` when it is loaded")
            )


def _written(module: ast.Module) -> Mapping[str, ast.expr]:
    known = {"__all__", "pytestmark"}
    return {
        name: value for name, value in top_values(module).items() if isinstance(value, _HOLDERS) and name not in known
    }


_HOLDERS = ast.List | ast.Tuple | ast.Set | ast.Dict


def _entries(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Dict):
        return [ast.unparse(key) if key else "**" for key in node.keys]
    return [ast.unparse(element) for element in getattr(node, "elts", [])]


def _parametrised(module: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("parametrize") and len(node.args) > 1:
            yield node.args[1]


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
