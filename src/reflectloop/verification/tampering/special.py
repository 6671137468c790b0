"""Find hard-coded answers to a test's inputs in Python sources."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reflectloop.verification.protected import guard, is_test
from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.doctests import all_examples

_PLAIN = ("None", "True", "False", "0", "1", "-1", "2", "''", "b''", "[]", "()", "{}")
_LEAST = 2


def look(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> Iterator[TamperFinding]:
    tests = [data for path, data in context.items() if is_test(path) and path.endswith(".py")]
    tests += [data for change in changes if is_test(change.path) for data in (change.before, change.after) if data]
    sources = [
        change for change in changes if change.path.endswith(".py") and guard(change.path) is None and change.after
    ]
    if not sources:
        return
    rows = frozenset(row for data in tests for row in _rows(data))
    rows |= frozenset(row for change in sources for pair in all_examples(change.before) for row in _example_rows(*pair))
    for change in sources:
        old = {code_text for _, code_text, _ in _answers(change.before)}
        for line, code_text, pairs in _answers(change.after):
            if code_text not in old and pairs and all(_tested(pair, rows) for pair in pairs):
                yield TamperFinding(
                    "test-input-special-cased",
                    change.path,
                    line,
                    f"answers a test's own input: `{code_text[:80]}`",
                    "suspect",
                )


def _tested(pair: tuple[str, str], rows: Iterable[frozenset[str]]) -> bool:
    return any(pair[0] in row and pair[1] in row for row in rows)


def _rows(data: bytes) -> Iterator[frozenset[str]]:
    """Yield the values that occur together in one assertion or one row of cases."""
    module = parsed(data)
    for node in ast.walk(module) if module else ():
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
            yield from _call_values(node.left, node.comparators[0])
            yield from _call_values(node.comparators[0], node.left)
        elif isinstance(node, ast.Call) and "assert" in ast.unparse(node.func) and len(node.args) > 1:
            yield from _call_values(node.args[0], node.args[1])
            yield from _call_values(node.args[1], node.args[0])
        elif isinstance(node, ast.Tuple):
            yield frozenset(ast.unparse(part) for part in ast.walk(node) if _is_value(part))


def _example_rows(question: str, answer: str) -> Iterator[frozenset[str]]:
    """Yield the values of a docstring example, read as the assertion that doctest makes of it."""
    yield from _rows(f"({question}) == ({answer})".encode(errors="replace"))


def _call_values(question: ast.expr, answer: ast.expr) -> Iterator[frozenset[str]]:
    """Yield the arguments of a call together with its expected result."""
    if isinstance(question, ast.Call):
        parts = (*question.args, *(keyword.value for keyword in question.keywords))
        inputs = [node for part in parts for node in ast.walk(part)]
        yield frozenset(ast.unparse(node) for node in (*inputs, *ast.walk(answer)) if _is_value(node))


def _is_value(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant)
    return isinstance(node, ast.Constant | ast.List | ast.Dict | ast.Tuple)


def _answers(data: bytes | None) -> Iterator[tuple[int, str, tuple[tuple[str, str], ...]]]:
    """Yield places that return one literal for another: line, code, and the pairs of values."""
    module = parsed(data)
    for node in ast.walk(module) if module else ():
        if isinstance(node, ast.If) and (pair := _answer(node.test, node.body)):
            yield node.lineno, f"if {ast.unparse(node.test)}: {ast.unparse(node.body[0])}", (pair,)
        elif isinstance(node, ast.IfExp) and (pair := _chosen(node.test, node.body)):
            yield node.lineno, ast.unparse(node), (pair,)
        elif isinstance(node, ast.Dict) and (pairs := _entries(node)):
            yield node.lineno, ast.unparse(node), pairs
        elif isinstance(node, ast.match_case) and isinstance(node.pattern, ast.MatchValue):
            result = _returned(node.body)
            if result is not None and _unusual(node.pattern.value, result):
                yield node.pattern.lineno, ast.unparse(node), ((ast.unparse(node.pattern.value), ast.unparse(result)),)


def _answer(test: ast.expr, body: Sequence[ast.stmt]) -> tuple[str, str] | None:
    result = _returned(body)
    return _chosen(test, result) if result is not None else None


def _returned(body: Sequence[ast.stmt]) -> ast.expr | None:
    """Return the value of a branch that only returns or sets it, or None."""
    first = body[0]
    return first.value if len(body) == 1 and isinstance(first, ast.Return | ast.Assign) else None


def _chosen(test: ast.expr, result: ast.expr) -> tuple[str, str] | None:
    for compare in ast.walk(test):
        if isinstance(compare, ast.Compare) and isinstance(compare.ops[0], ast.Eq | ast.In):
            for side in (compare.left, *compare.comparators):
                if _is_value(side) and _is_value(result) and _unusual(side, result):
                    return ast.unparse(side), ast.unparse(result)
    return None


def _unusual(first: ast.expr, second: ast.expr) -> bool:
    """Return True unless the result is a plain value, as in `if n == 0: return 1`, or equals the input."""
    return ast.unparse(second) not in _PLAIN and ast.unparse(first) != ast.unparse(second)


def _entries(node: ast.Dict) -> tuple[tuple[str, str], ...]:
    known = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key is not None]
    written = len(known) == len(node.keys) and all(_is_value(key) and _is_value(value) for key, value in known)
    pairs = tuple((ast.unparse(key), ast.unparse(value)) for key, value in known) if written else ()
    return pairs if len(pairs) >= _LEAST and any(_unusual(key, value) for key, value in known) else ()
