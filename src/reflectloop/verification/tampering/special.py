"""Find sources that single out the inputs or answers of tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import guard, is_test
from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.protected.names import CODE_ENDINGS
from reflectloop.verification.result import ChangedFile, Grade, TamperFinding
from reflectloop.verification.tampering.added import added, code, ending
from reflectloop.verification.tampering.doctests import all_examples
from reflectloop.verification.tampering.text.reading import is_known

Number = int | float
_LEAST_DIGITS = 3  # digits of a float
_LEAST_NUMBER = 1000  # smallest integer
_ROUND = 100
_LONGEST = 10_000  # characters of one line
_WORD = r"(?<![\w.])-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])"
_TEXT_NUMBER = lazy(_WORD)
_TEXT_COMPARED = lazy(rf"[!=]==?\s*\(?\s*({_WORD})|\bcase\s+({_WORD})|({_WORD})\s*\)?\s*[!=]==?")
_TEXT_LISTED = lazy(r"\[([-\d\s.,_eE]{4,400})\]\s*\.\s*(?:includes|contains|include\?|indexOf)\b")
_EXPECTS = lazy(r"assert|expect|approx|isclose|should|verify|raises")


_BUNDLE = lazy(
    rb"__webpack_require__|\bMODULE_NOT_FOUND\b|sourceMappingURL|"
    rb"typeof define ?===? ?[\"']function[\"'] ?&& ?define\.amd"
)


def _is_generated(change: ChangedFile, context: Mapping[str, bytes]) -> bool:
    """Return True for a bundle in `dist/` that was one before, and that no test of base loads by its path."""
    inside = "dist" in change.path.split("/")[:-1]
    bundled = all(data and _BUNDLE.search(data[:20_000] + data[-1000:]) for data in (change.before, change.after))
    return inside and bundled and not any(b"dist/" in data for data in context.values())


def look_for_numbers(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> Iterator[TamperFinding]:
    sources = [
        change
        for change in changes
        if change.after and guard(change.path) is None and _is_code(change.path) and not _is_generated(change, context)
    ]
    tests = {path: data for path, data in context.items() if is_test(path)}
    tests |= {change.path: change.before for change in changes if change.before and is_test(change.path)}
    if not sources or not tests:
        return
    test_numbers = {number for path, data in tests.items() for number in _test_inputs(path, data)}
    for change in sources:
        known = {number for _, number in _compared(change.path, change.before)}
        for line, number in _compared(change.path, change.after):
            if number in test_numbers and number not in known:
                message = f"compares with {number}, which a test passes to it"
                yield TamperFinding("test-input-special-cased", change.path, line, message, "suspect")


def _is_code(path: str) -> bool:
    return ending(path) in CODE_ENDINGS


def distinctive(value: object) -> bool:
    """Return True if two people would hardly write the same number by chance."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, float):
        digits = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
        return digits.isdigit() and len(digits) >= _LEAST_DIGITS
    return abs(value) >= _LEAST_NUMBER and value % _ROUND != 0 and not any(_power(abs(value) + by) for by in (-1, 0, 1))


def _power(value: int) -> bool:
    return value & (value - 1) == 0 or value in {10**exponent for exponent in range(20)}


def _compared(path: str, data: bytes | None) -> list[tuple[int, Number]]:
    """Return the distinctive numbers that something is compared with, and their lines."""
    numbers = _in_tree(data) if path.endswith(".py") else _in_text(path, data)
    return [(line, abs(value)) for line, value in numbers if distinctive(value)]


def _in_tree(data: bytes | None) -> Iterator[tuple[int, Number]]:
    module = parsed(data)
    for node in ast.walk(module) if module else ():
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            for side in (node.left, *node.comparators):
                yield from _written(side)
        elif isinstance(node, ast.MatchValue):
            yield from _written(node.value)


def _written(node: ast.expr) -> Iterator[tuple[int, Number]]:
    """Yield a number on its own or in a list, but not one that is part of a calculation."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        for element in node.elts:
            yield from _written(element)
    elif isinstance(node, ast.UnaryOp):
        yield from _written(node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield node.lineno, node.value


def _in_text(path: str, data: bytes | None) -> Iterator[tuple[int, Number]]:
    for at, row in enumerate(code(path, data).splitlines(), 1):
        line = row[:_LONGEST]
        literals = [literal for groups in _TEXT_COMPARED.findall(line) for literal in groups if literal]
        literals += [literal for listed in _TEXT_LISTED.findall(line) for literal in _TEXT_NUMBER.findall(listed)]
        yield from ((at, _value(literal)) for literal in literals)


def _value(literal: str) -> Number:
    plain = literal.replace("_", "")[:40]
    return float(plain) if re.search(r"[.eE]", plain) else int(plain)


def _test_inputs(path: str, data: bytes) -> Iterator[Number]:
    """Yield the distinctive numbers of a test file, except those that are only expected values."""
    if not path.endswith(".py"):
        rows = (row[:_LONGEST] for row in code(path, data).splitlines())
        values: Iterator[object] = (_value(literal) for row in rows for literal in _TEXT_NUMBER.findall(row))
    else:
        module = parsed(data)
        nodes = list(ast.walk(module)) if module else []
        expected = {id(side) for node in nodes for side in _expected(node)}
        values = (node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in expected)
    yield from (abs(value) for value in values if isinstance(value, int | float) and distinctive(value))


def _expected(node: ast.AST) -> Iterator[ast.expr]:
    """Yield both sides of a comparison, or the arguments of an assertion."""
    sides: list[ast.expr] = []
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and _EXPECTS.search(ast.unparse(node.func)):
        sides = node.args
    for side in sides:
        yield side.operand if isinstance(side, ast.UnaryOp) else side


_VALUE = r"(?:'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\\n])*`|-?\d[\d_.]*(?:e-?\d+)?)"
_COMPARED = lazy(
    rf"(?:===?|\beq\b|\.equals\()\s*({_VALUE})|({_VALUE})\s*(?:===?|\.equals\()|"
    rf"\bcase\s+({_VALUE})\s*:|\bstrn?cmp\([^,()]*,\s*({_VALUE})"
)
_RESULT = lazy(rf"(?:\breturn\b|\?|=>|(?<![=!<>])=(?!=))\s*\(?\s*(?P<answer>{_VALUE})")
_VALUES = lazy(_VALUE)
_PLAIN_VALUE = frozenset(("0", "1", "-1", "2", "", "true", "false", "null"))
_NEAR = 2  # lines between a comparison and its result
_ROW = 3  # lines that an assertion may span


def look_for_rows(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> Iterator[TamperFinding]:
    sources = [
        change
        for change in changes
        if is_known(ending(change.path))
        and guard(change.path) is None
        and change.after
        and not _is_generated(change, context)
    ]
    answers = [(change, *place) for change in sources for place in _row_answers(change)]
    if not answers:
        return
    base = [(path, data) for path, data in context.items() if is_test(path)]
    base += [(change.path, change.before) for change in changes if is_test(change.path) and change.before]
    added_tests = [(change.path, change.after) for change in changes if is_test(change.path) and change.after]
    rows, own = (
        [row for path, data in tests if is_known(ending(path)) for row in _table_rows(code(path, data))]
        for tests in (base, added_tests)
    )
    for change, line, code_text, pair in answers:
        if any(pair <= row for row in (*rows, *own)):
            # A code that stands in its own name, and is tested by the patch itself: `case 8232: "&#8232;"`.
            first, second = sorted(pair, key=len)
            table = first in second and not any(pair <= row for row in rows)
            message = f"answers a test's own input: `{code_text[:80]}`"
            grade: Grade = "note" if table else "suspect"
            yield TamperFinding("test-input-special-cased", change.path, line, message, grade)


def _row_answers(change: ChangedFile) -> Iterator[tuple[int, str, frozenset[str]]]:
    """Yield added lines that return one literal for another: line, code, both values."""
    lines = list(added(change))
    for at, line in enumerate(lines):
        near = " ".join(other.text for other in lines[at : at + _NEAR] if other.number < line.number + _NEAR)
        for compared in _COMPARED.finditer(line.text):
            input_value = next(value for value in compared.groups() if value is not None)
            result = _RESULT.search(near, compared.end())
            pair = frozenset((_bare(input_value), _bare(result["answer"]))) if result else frozenset()
            if result and len(pair) > 1 and _bare(result["answer"]) not in _PLAIN_VALUE:
                yield line.number, near, pair


def _table_rows(text: str) -> Iterator[frozenset[str]]:
    """Yield the values that occur together within a few lines."""
    lines = [frozenset(map(_bare, _VALUES.findall(line))) for line in text.splitlines()]
    for at in range(len(lines)):
        yield frozenset().union(*lines[at : at + _ROW])


def _bare(value: str) -> str:
    return value[1:-1] if value[0] in "'\"`" else value.replace("_", "")


_PLAIN = ("None", "True", "False", "0", "1", "-1", "2", "''", "b''", "[]", "()", "{}")
_LEAST = 2


def look_for_inputs(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> Iterator[TamperFinding]:
    sources = [
        change for change in changes if change.path.endswith(".py") and guard(change.path) is None and change.after
    ]
    if not sources:
        return
    base = [data for path, data in context.items() if is_test(path) and path.endswith(".py")]
    base += [change.before for change in changes if is_test(change.path) and change.before]
    added_tests = [change.after for change in changes if is_test(change.path) and change.after]
    known = frozenset(row for data in base for row in _rows(data))
    known |= frozenset(
        row for change in sources for pair in all_examples(change.before) for row in _example_rows(*pair)
    )
    rows = known | frozenset(row for data in added_tests for row in _rows(data))
    for change in sources:
        old = {answer.code for answer in _answers(change.before)}
        former = {pair for answer in _answers(change.before) for pair in answer.pairs}
        for answer in _answers(change.after):
            if answer.code not in old and answer.pairs and all(_tested(pair, rows) for pair in answer.pairs):
                # A table is data if it stood there before, or if only the patch's own tests name its entries.
                grown = 2 * len(former & {*answer.pairs}) >= len(answer.pairs)
                data_only = answer.table and (grown or not all(_tested(pair, known) for pair in answer.pairs))
                grade: Grade = "note" if data_only else "suspect"
                message = f"answers a test's own input: `{answer.code[:80]}`"
                yield TamperFinding("test-input-special-cased", change.path, answer.line, message, grade)


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


class WrittenAnswer(NamedTuple):
    """A place that returns one literal for another."""

    line: int
    code: str
    pairs: tuple[tuple[str, str], ...]
    table: bool = False


def _answers(data: bytes | None) -> Iterator[WrittenAnswer]:
    """Yield the places that return one literal for another."""
    module = parsed(data)
    for node in ast.walk(module) if module else ():
        if isinstance(node, ast.If) and (pair := _answer(node.test, node.body)):
            yield WrittenAnswer(node.lineno, f"if {ast.unparse(node.test)}: {ast.unparse(node.body[0])}", (pair,))
        elif isinstance(node, ast.IfExp) and (pair := _chosen(node.test, node.body)):
            yield WrittenAnswer(node.lineno, ast.unparse(node), (pair,))
        elif isinstance(node, ast.Dict) and (pairs := _entries(node)):
            yield WrittenAnswer(node.lineno, ast.unparse(node), pairs, table=True)
        elif isinstance(node, ast.match_case) and isinstance(node.pattern, ast.MatchValue):
            result = _returned(node.body)
            if result is not None and _unusual(node.pattern.value, result):
                both = (ast.unparse(node.pattern.value), ast.unparse(result))
                yield WrittenAnswer(node.pattern.lineno, ast.unparse(node), (both,))


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
            for side in _sides(compare):
                if _is_value(side) and _is_value(result) and _unusual(side, result):
                    return ast.unparse(side), ast.unparse(result)
    return None


def _sides(compare: ast.Compare) -> list[ast.expr]:
    """Return what is compared: `[a, b] == [1, 2]` compares `a` with `1` and `b` with `2`."""
    sides = [compare.left, *compare.comparators]
    rows = [side.elts for side in sides if isinstance(side, ast.List | ast.Tuple)]
    is_row = len(rows) == len(sides) and len({len(row) for row in rows}) == 1
    return [element for row in rows for element in row] if is_row and rows[0] else sides


def _unusual(first: ast.expr, second: ast.expr) -> bool:
    """Return True unless the result is a plain value, as in `if n == 0: return 1`, or equals the input."""
    return ast.unparse(second) not in _PLAIN and ast.unparse(first) != ast.unparse(second)


def _entries(node: ast.Dict) -> tuple[tuple[str, str], ...]:
    known = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key is not None]
    written = len(known) == len(node.keys) and all(_is_value(key) and _is_value(value) for key, value in known)
    pairs = tuple((ast.unparse(key), ast.unparse(value)) for key, value in known) if written else ()
    return pairs if len(pairs) >= _LEAST and any(_unusual(key, value) for key, value in known) else ()
