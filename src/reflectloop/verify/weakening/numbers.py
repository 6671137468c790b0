"""Looks for comparisons, new in a source, with a number that base's tests give to the code under test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from reflectloop.verify.protected import guard, is_test
from reflectloop.verify.protected.fixtures import parsed
from reflectloop.verify.protected.names import CODE_ENDINGS
from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening.added import code, ending

Number = int | float
_LEAST_DIGITS = 3  # of a float
_LEAST = 1000  # of a whole number
_ROUND = 100
_LONGEST = 10_000  # characters of one line
_WORD = r"(?<![\w.])-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])"
_TEXT_NUMBER = re.compile(_WORD)
_TEXT_COMPARED = re.compile(rf"[!=]==?\s*\(?\s*({_WORD})|\bcase\s+({_WORD})|({_WORD})\s*\)?\s*[!=]==?")
_TEXT_LISTED = re.compile(r"\[([-\d\s.,_eE]{4,400})\]\s*\.\s*(?:includes|contains|include\?|indexOf)\b")
_EXPECTS = re.compile(r"assert|expect|approx|isclose|should|verify|raises")


def look(changes: Sequence[Change], context: Mapping[str, bytes]) -> Iterator[Finding]:
    sources = [each for each in changes if each.after and guard(each.path) is None and _is_code(each.path)]
    tests = {path: data for path, data in context.items() if is_test(path)}
    tests |= {each.path: each.before for each in changes if each.before and is_test(each.path)}
    if not sources or not tests:
        return
    given = {number for path, data in tests.items() for number in _given(path, data)}
    for change in sources:
        known = {number for _, number in _compared(change.path, change.before)}
        for line, number in _compared(change.path, change.after):
            if number in given and number not in known:
                words = f"singles out {number}, which a test gives to it"
                yield Finding("test-input-special-cased", change.path, line, words, "suspect")


def _is_code(path: str) -> bool:
    return ending(path) in CODE_ENDINGS


def distinctive(value: object) -> bool:
    """Whether two people would hardly write the same number by chance."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, float):
        digits = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
        return digits.isdigit() and len(digits) >= _LEAST_DIGITS
    return abs(value) >= _LEAST and value % _ROUND != 0 and not any(_power(abs(value) + by) for by in (-1, 0, 1))


def _power(value: int) -> bool:
    return value & (value - 1) == 0 or value in {10**exponent for exponent in range(20)}


def _compared(path: str, data: bytes | None) -> list[tuple[int, Number]]:
    """The distinctive numbers that something is compared with, and where."""
    found = _in_tree(data) if path.endswith(".py") else _in_text(path, data)
    return [(line, abs(value)) for line, value in found if distinctive(value)]


def _in_tree(data: bytes | None) -> Iterator[tuple[int, Number]]:
    module = parsed(data)
    for node in ast.walk(module) if module else ():
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            for side in (node.left, *node.comparators):
                yield from _written(side)
        elif isinstance(node, ast.MatchValue):
            yield from _written(node.value)


def _written(node: ast.expr) -> Iterator[tuple[int, Number]]:
    """A number by itself or in a list; not one that takes part in a calculation."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        for each in node.elts:
            yield from _written(each)
    elif isinstance(node, ast.UnaryOp):
        yield from _written(node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield node.lineno, node.value


def _in_text(path: str, data: bytes | None) -> Iterator[tuple[int, Number]]:
    for at, row in enumerate(code(path, data).splitlines(), 1):
        line = row[:_LONGEST]
        words = [word for found in _TEXT_COMPARED.findall(line) for word in found if word]
        words += [word for listed in _TEXT_LISTED.findall(line) for word in _TEXT_NUMBER.findall(listed)]
        yield from ((at, _value(word)) for word in words)


def _value(word: str) -> Number:
    plain = word.replace("_", "")[:40]
    return float(plain) if re.search(r"[.eE]", plain) else int(plain)


def _given(path: str, data: bytes) -> Iterator[Number]:
    """The distinctive numbers of a test file that are not only what it expects."""
    if not path.endswith(".py"):
        rows = (row[:_LONGEST] for row in code(path, data).splitlines())
        values: Iterator[object] = (_value(word) for row in rows for word in _TEXT_NUMBER.findall(row))
    else:
        module = parsed(data)
        nodes = list(ast.walk(module)) if module else []
        expected = {id(each) for node in nodes for each in _expected(node)}
        values = (each.value for each in nodes if isinstance(each, ast.Constant) and id(each) not in expected)
    yield from (abs(each) for each in values if isinstance(each, int | float) and distinctive(each))


def _expected(node: ast.AST) -> Iterator[ast.expr]:
    """The sides of a comparison, and what is handed to an assertion."""
    sides: list[ast.expr] = []
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and _EXPECTS.search(ast.unparse(node.func)):
        sides = node.args
    for side in sides:
        yield side.operand if isinstance(side, ast.UnaryOp) else side
