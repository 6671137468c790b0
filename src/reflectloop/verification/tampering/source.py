"""Check lines added to sources for behaviour that differs under test, and for silenced linters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from reflectloop.verification.protected import guard
from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.protected.names import CODE_ENDINGS
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import AddedLine, added, ending
from reflectloop.verification.tampering.detection_patterns import (
    AT_EXIT,
    CALLERS_NAME,
    JAVASCRIPT,
    LEAVES,
    LOOKS_AROUND,
    ORDINARY,
    WHO_CALLS,
    Grade,
    names_a_test,
    signs,
    silences_file,
    silences_line,
)

_NEAR = 4  # lines
_LEAVES_PROCESS = re.compile(r"\b_exit\b|\bexit\(|\bquit\(|SystemExit|\bkill\(|\babort\(|\bexec[lv]\w*\(")
_FORBIDDEN_IN_TESTS = frozenset({"patches-the-runner"})
_EQUALITY = {"__eq__": True, "__ne__": False}  # the constant with which each method always reports equality


def look(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    for changed in changes:
        if changed.after is None or ending(changed.path) not in CODE_ENDINGS:
            continue
        change = _moved(changed, changes)
        protection = guard(change.path)
        if protection is None or protection.kind == "shadow":
            yield from _under_test(change)
            yield from _always_equal(change, "weakening")
        elif protection.kind in {"test", "fixture", "hook"}:
            yield from _in_tests(change)
            yield from _always_equal(change, "suspect")
        if protection is None or protection.kind in {"test", "fixture", "hook", "shadow"}:
            yield from _suppressed(change)


def _moved(change: ChangedFile, changes: Sequence[ChangedFile]) -> ChangedFile:
    """Return a new file with the content that it had under a name that the patch removes."""
    if change.before is not None:
        return change
    name = change.path.rpartition("/")[2]
    removed = [other for other in changes if other.after is None and other.path.rpartition("/")[2] == name]
    return change._replace(before=removed[0].before) if len(removed) == 1 else change


def _under_test(change: ChangedFile) -> Iterator[TamperFinding]:
    testing = re.search(
        r"(?:^|/)_?testing(?:/|\.py$)|(?:^|/)(?:pytest_plugin|plugin)\.py$|(?:^|/)(?:docs?|examples?|benchmarks?|bench)/",
        change.path,
    )
    lines = list(added(change))
    by_name = any(CALLERS_NAME.search(line.text) for line in lines)
    leaves = any(_LEAVES_PROCESS.search(line.text) for line in lines)
    for line in lines:
        for sign in signs():
            if (sign.endings is None or ending(change.path) in sign.endings) and sign.pattern.search(line.text):
                harmless = (
                    (testing and sign.rule == "imports-the-runner")
                    or (sign.why == WHO_CALLS and not by_name)
                    or (sign.why == AT_EXIT and ORDINARY.match(line.text) and not leaves)
                )
                grade = "note" if harmless else sign.grade
                yield TamperFinding(sign.rule, change.path, line.number, f"{sign.why}: `{line.text[:80]}`", grade)
                break
        else:
            yield from _in_two_lines(change.path, line, lines)


def _always_equal(change: ChangedFile, grade: Grade) -> Iterator[TamperFinding]:
    """Report a value that equals everything, which passes every comparison."""
    if ending(change.path) != "py" or not any(name.encode() in (change.after or b"") for name in _EQUALITY):
        return
    tree = parsed(change.after)
    if tree is None:
        return  # other checks report files that do not parse
    new = {line.number for line in added(change)}
    matchers = {id(part) for node in ast.walk(tree) if _is_matcher(node) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if _answers_always(node) and not new.isdisjoint(range(node.lineno, (node.end_lineno or node.lineno) + 1)):
            softer: Grade = "suspect" if id(node) in matchers else grade
            yield TamperFinding("always-equal", change.path, node.lineno, "is equal to everything", softer)


def _is_matcher(node: ast.AST) -> bool:
    """Return True for a documented class that is made to match: it stands for any value, and is no value itself."""
    return (
        isinstance(node, ast.ClassDef)
        and re.match(r"_?(?:Any|Match|Wild|Ignor|Anything|Placeholder)", node.name) is not None
        and not node.bases
        and ast.get_docstring(node) is not None
    )


def _answers_always(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.Assign]:
    if isinstance(node, ast.FunctionDef) and node.name in _EQUALITY:
        statements = [
            part for part in node.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
        ]
        return (
            len(statements) == 1
            and isinstance(statements[0], ast.Return)
            and _is(statements[0].value, _EQUALITY[node.name])
        )
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
        names = [target.id for target in node.targets if isinstance(target, ast.Name) and target.id in _EQUALITY]
        return bool(names) and _is(node.value.body, _EQUALITY[names[0]])
    return False


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _in_two_lines(path: str, line: AddedLine, lines: Sequence[AddedLine]) -> Iterator[TamperFinding]:
    """Recognise `const stack = new Error().stack` followed within a few lines by `/test/.test(stack)`."""
    if ending(path) not in JAVASCRIPT or not LOOKS_AROUND.search(line.text):
        return
    near = [other for other in lines if 0 < abs(other.number - line.number) <= _NEAR]
    if any(names_a_test().search(other.text) for other in near):
        message = f"may look for a test among its callers: `{line.text[:80]}`"
        yield TamperFinding("knows-the-test", path, line.number, message, "suspect")


def _in_tests(change: ChangedFile) -> Iterator[TamperFinding]:
    """Report test code that changes or leaves the runner; tests may know that they are tests."""
    rows = (change.after or b"").decode(errors="replace").splitlines()
    for line in added(change):
        if not rows[line.number - 1][:1].isspace() and (match := LEAVES.search(line.text)):
            message = f"exits before its tests run, or selects them: `{line.text[:80]}`"
            yield TamperFinding(
                "left-early", change.path, line.number, message, "suspect" if match["chooses"] else "weakening"
            )
        for sign in signs():
            if (
                sign.rule in _FORBIDDEN_IN_TESTS
                and ending(change.path) in (sign.endings or ())
                and sign.pattern.search(line.text)
            ):
                yield TamperFinding(sign.rule, change.path, line.number, f"{sign.why}: `{line.text[:80]}`", "suspect")


def _suppressed(change: ChangedFile) -> Iterator[TamperFinding]:
    for line in added(change, comments=True):
        if silences_file().search(line.text):
            yield TamperFinding(
                "lint-off-for-file",
                change.path,
                line.number,
                f"a linter is silenced for the whole file: `{line.text[:60]}`",
            )
        elif silences_line().search(line.text):
            yield _silenced(change.path, line)


def _silenced(path: str, line: AddedLine) -> TamperFinding:
    return TamperFinding("lint-off", path, line.number, f"a linter is silenced: `{line.text[-80:]}`", "note")
