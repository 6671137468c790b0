"""Classify expressions: only literals, a number, or true whatever the code does."""

from __future__ import annotations

import ast
from functools import lru_cache

from reflectloop.verification.tampering.python.checks import last_name


@lru_cache(maxsize=4096)
def blanked(text: str) -> str:
    """Return an expression with every variable blanked; calls, attributes and literals stay."""
    copied = ast.parse(text, mode="eval")
    called = {id(node.func) for node in ast.walk(copied) if isinstance(node, ast.Call)}
    for node in ast.walk(copied):
        if isinstance(node, ast.Name) and id(node) not in called and node.id[:1].islower():
            node.id = "_"
    return ast.unparse(copied)


def is_literal(node: ast.expr | None) -> bool:
    """Return True if the expression has only literals: no name, no call."""
    allowed = ast.Constant | ast.List | ast.Tuple | ast.Set | ast.Dict | ast.UnaryOp | ast.operator | ast.unaryop
    allowed |= ast.expr_context | ast.BinOp | ast.JoinedStr | ast.FormattedValue
    return node is not None and all(isinstance(part, allowed) for part in ast.walk(node))


def tolerance(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "approx"


def number(node: ast.expr | None) -> float | None:
    try:
        value = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None  # noqa: PLR2004 - fits a float


def tautology(node: ast.expr) -> bool:
    """Return True if an assertion passes whatever the code does."""
    match node:
        case ast.Constant(value=content) | ast.Tuple(elts=content) | ast.List(elts=content):
            return bool(content)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is() | ast.LtE() | ast.GtE()], comparators=[right]):
            return ast.unparse(left) == ast.unparse(right) or last_name(right) == "ANY" or _never_negative(node)
        case ast.Compare(left=left, ops=[ast.In()], comparators=[ast.List(elts=elts) | ast.Tuple(elts=elts)]):
            return any(ast.unparse(left) == ast.unparse(item) for item in elts)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(tautology(item) for item in values) or _excluded_middle(values)
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node).startswith("isinstance(")
        and last_name(node.args[-1]) == "object"
    )


def _never_negative(node: ast.Compare) -> bool:
    counted = isinstance(node.left, ast.Call) and last_name(node.left.func) == "len"
    return counted and isinstance(node.ops[0], ast.GtE) and number(node.comparators[0]) == 0


def _excluded_middle(values: list[ast.expr]) -> bool:
    texts = {ast.unparse(value) for value in values}
    return any(f"not {text}" in texts for text in texts)
