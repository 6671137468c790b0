"""Check lines added to sources for behaviour that differs under test, and for silenced linters."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from reflectloop.verification.protected import guard
from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.protected.names import CODE_ENDINGS
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import JAVASCRIPT, AddedLine, added, ending
from reflectloop.verification.tampering.detection_patterns import (
    LEAVES,
    signs,
    silences_file,
    silences_line,
)
from reflectloop.verification.tampering.powers.compare import moved_from

_RESOLVED = JAVASCRIPT | {"py", "pyi", "pyw"}
_FORBIDDEN_IN_TESTS = frozenset({"patches-the-runner"})
_EQUALITY = {"__eq__": True, "__ne__": False}  # the constant with which each method always reports equality


def look(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    for changed in changes:
        if changed.after is None or ending(changed.path) not in CODE_ENDINGS:
            continue
        change = changed._replace(before=moved_from(changed, changes))
        protection = guard(change.path)
        if protection is None or protection.kind == "shadow":
            yield from _under_test(change)
        elif protection.kind in {"test", "fixture", "hook"}:
            yield from _in_tests(change)
            yield from _always_equal(change)
        if protection is None or protection.kind in {"test", "fixture", "hook", "shadow"}:
            yield from _suppressed(change)


def _under_test(change: ChangedFile) -> Iterator[TamperFinding]:
    """Report lines that ask about tests, in languages whose names are not resolved (see `powers`)."""
    if ending(change.path) in _RESOLVED:
        return
    for line in added(change):
        for sign in signs():
            if (sign.endings is None or ending(change.path) in sign.endings) and sign.pattern.search(line.text):
                message = f"{sign.why}: `{line.text[:80]}`"
                yield TamperFinding(sign.rule, change.path, line.number, message, sign.grade)
                break


def _always_equal(change: ChangedFile) -> Iterator[TamperFinding]:
    """Report a value of a test file that equals everything, which passes every comparison."""
    if ending(change.path) != "py" or not any(name.encode() in (change.after or b"") for name in _EQUALITY):
        return
    tree = parsed(change.after)
    if tree is None:
        return  # other checks report files that do not parse
    new = {line.number for line in added(change)}
    for node in ast.walk(tree):
        if _answers_always(node) and not new.isdisjoint(range(node.lineno, (node.end_lineno or node.lineno) + 1)):
            yield TamperFinding("always-equal", change.path, node.lineno, "is equal to everything", "suspect")


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
