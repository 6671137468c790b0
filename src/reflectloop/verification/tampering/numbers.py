"""Find new comparisons in a source with a number that base's tests pass to the code under test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from reflectloop.verification.protected import guard, is_test
from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.protected.names import CODE_ENDINGS
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import code, ending

Number = int | float
_LEAST_DIGITS = 3  # digits of a float
_LEAST = 1000  # smallest integer
_ROUND = 100
_LONGEST = 10_000  # characters of one line
_WORD = r"(?<![\w.])-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])"
_TEXT_NUMBER = re.compile(_WORD)
_TEXT_COMPARED = re.compile(rf"[!=]==?\s*\(?\s*({_WORD})|\bcase\s+({_WORD})|({_WORD})\s*\)?\s*[!=]==?")
_TEXT_LISTED = re.compile(r"\[([-\d\s.,_eE]{4,400})\]\s*\.\s*(?:includes|contains|include\?|indexOf)\b")
_EXPECTS = re.compile(r"assert|expect|approx|isclose|should|verify|raises")


def look(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> Iterator[TamperFinding]:
    sources = [change for change in changes if change.after and guard(change.path) is None and _is_code(change.path)]
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
    return abs(value) >= _LEAST and value % _ROUND != 0 and not any(_power(abs(value) + by) for by in (-1, 0, 1))


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
