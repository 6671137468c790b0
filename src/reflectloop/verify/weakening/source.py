"""Looks at lines added to sources for behaviour that shows only under test, and for rules of linters switched off."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from reflectloop.verify.protected import guard
from reflectloop.verify.protected.names import CODE_ENDINGS
from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening.added import Line, added, ending
from reflectloop.verify.weakening.tells import (
    CALLERS_NAME,
    JAVASCRIPT,
    LEAVES,
    LOOKS_AROUND,
    NAMES_A_TEST,
    ONE_LINE,
    TELLS,
    WHO_CALLS,
    WHOLE_FILE,
    Grade,
)

_NEAR = 4  # lines
_NOR_IN_TESTS = frozenset({"patches-the-runner"})
_EQUALITY = {"__eq__": True, "__ne__": False}  # what each answers that finds no difference


def look(changes: Sequence[Change]) -> Iterator[Finding]:
    for change in changes:
        if change.after is None or ending(change.path) not in CODE_ENDINGS:
            continue
        found = guard(change.path)
        if found is None or found.kind == "shadow":
            yield from _under_test(change)
            yield from _always_equal(change, "weakening")
        elif found.kind in {"test", "fixture", "hook"}:
            yield from _in_tests(change)
            yield from _always_equal(change, "suspect")
        if found is None or found.kind in {"test", "fixture", "hook", "shadow"}:
            yield from _suppressed(change)


def _under_test(change: Change) -> Iterator[Finding]:
    testing = re.search(
        r"(?:^|/)_?testing(?:/|\.py$)|(?:^|/)(?:pytest_plugin|plugin)\.py$|(?:^|/)(?:docs?|examples?|benchmarks?|bench)/",
        change.path,
    )
    lines = list(added(change))
    by_name = any(CALLERS_NAME.search(line.text) for line in lines)
    for line in lines:
        for tell in TELLS:
            if (tell.endings is None or ending(change.path) in tell.endings) and tell.pattern.search(line.text):
                harmless = (testing and tell.rule == "imports-the-runner") or (tell.why == WHO_CALLS and not by_name)
                grade = "note" if harmless else tell.grade
                yield Finding(tell.rule, change.path, line.number, f"{tell.why}: `{line.text[:80]}`", grade)
                break
        else:
            yield from _in_two_lines(change.path, line, lines)


def _always_equal(change: Change, grade: Grade) -> Iterator[Finding]:
    """A value that is equal to everything passes every comparison, however its method is laid out."""
    if ending(change.path) != "py" or not any(name.encode() in (change.after or b"") for name in _EQUALITY):
        return
    try:
        tree = ast.parse(change.after or b"")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the gates have other words for what does not parse
    new = {line.number for line in added(change)}
    for node in ast.walk(tree):
        if _answers_always(node) and not new.isdisjoint(range(node.lineno, (node.end_lineno or node.lineno) + 1)):
            yield Finding("always-equal", change.path, node.lineno, "is equal to everything", grade)


def _answers_always(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.Assign]:
    if isinstance(node, ast.FunctionDef) and node.name in _EQUALITY:
        said = [one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
        return len(said) == 1 and isinstance(said[0], ast.Return) and _is(said[0].value, _EQUALITY[node.name])
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
        names = [one.id for one in node.targets if isinstance(one, ast.Name) and one.id in _EQUALITY]
        return bool(names) and _is(node.value.body, _EQUALITY[names[0]])
    return False


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _in_two_lines(path: str, line: Line, lines: Sequence[Line]) -> Iterator[Finding]:
    """`const stack = new Error().stack`, and a line or two on `/test/.test(stack)`."""
    if ending(path) not in JAVASCRIPT or not LOOKS_AROUND.search(line.text):
        return
    near = [each for each in lines if 0 < abs(each.number - line.number) <= _NEAR]
    if any(NAMES_A_TEST.search(each.text) for each in near):
        words = f"may look for a test among its callers: `{line.text[:80]}`"
        yield Finding("knows-the-test", path, line.number, words, "suspect")


def _in_tests(change: Change) -> Iterator[Finding]:
    """Tests know that they are tests; what they must not do is to reach into what runs them."""
    rows = (change.after or b"").splitlines()
    for line in added(change):
        if not rows[line.number - 1][:1].isspace() and (found := LEAVES.search(line.text)):
            words = f"ends before its tests are run, or chooses them: `{line.text[:80]}`"
            yield Finding("left-early", change.path, line.number, words, "suspect" if found["chooses"] else "weakening")
        for tell in TELLS:
            if (
                tell.rule in _NOR_IN_TESTS
                and ending(change.path) in (tell.endings or ())
                and tell.pattern.search(line.text)
            ):
                yield Finding(tell.rule, change.path, line.number, f"{tell.why}: `{line.text[:80]}`", "suspect")


def _suppressed(change: Change) -> Iterator[Finding]:
    for line in added(change, comments=True):
        if WHOLE_FILE.search(line.text):
            yield Finding(
                "lint-off-for-file",
                change.path,
                line.number,
                f"a linter is silenced for the whole file: `{line.text[:60]}`",
            )
        elif ONE_LINE.search(line.text):
            yield _silenced(change.path, line)


def _silenced(path: str, line: Line) -> Finding:
    return Finding("lint-off", path, line.number, f"a linter is silenced: `{line.text[-80:]}`", "note")
