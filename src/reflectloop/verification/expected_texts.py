"""Tell the expected values of tests, such as digests and signatures, from texts that may be secrets."""

from __future__ import annotations

import ast

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import is_test
from reflectloop.verification.protected.fixtures import parsed

# A text that merely looks drawn by chance; every other rule knows a secret by its form or its name.
RANDOM_TEXT = "random-text"
_ASSERTS = lazy(r"\b(?:assert\w*|expect|equals?|deepEqual|strictEqual|toBe|toEqual|toStrictEqual|same|is)!?\(")


def is_expected_value(path: str, data: bytes | None, line: int, rule: str) -> bool:
    """Return True if the text on this line is what an assertion of a test compares with."""
    if rule != RANDOM_TEXT or data is None or not is_test(path):
        return False
    if path.endswith(".py"):
        module = parsed(data)
        return module is not None and any(_compares_on(node, line) for node in ast.walk(module))
    rows = data.decode(errors="replace").splitlines()
    return line <= len(rows) and _ASSERTS.search(rows[line - 1]) is not None


def _compares_on(node: ast.AST, line: int) -> bool:
    match node:
        case ast.Assert(test=ast.Compare(ops=[ast.Eq()], left=left, comparators=[right])):
            sides = [left, right]
        case ast.Call(func=ast.Attribute(attr=name), args=args) if name.startswith("assert"):
            sides = args
        case _:
            return False
    return any(
        isinstance(side, ast.Constant) and isinstance(side.value, str) and side.lineno <= line <= (side.end_lineno or 0)
        for side in sides
    )
