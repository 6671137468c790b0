"""Work out texts that Python code writes in pieces."""

from __future__ import annotations

import ast
import base64
import codecs
from collections.abc import Callable
from contextlib import suppress

_LONGEST = 2000
_PLAIN_METHODS = frozenset(("lower", "upper", "strip", "title", "capitalize", "swapcase", "casefold"))
Value = str | bytes | int
Lookup = Callable[[str], ast.expr | None]


def fold(node: ast.expr, lookup: Lookup, depth: int = 12) -> Value | None:
    """Return the text, bytes or number that an expression always has, or None; `lookup` finds what a name is set to."""
    if depth == 0:
        return None
    with suppress(ValueError, TypeError, LookupError, OverflowError, ArithmeticError):
        value = _fold(node, lookup, depth - 1)
        return value if not isinstance(value, str | bytes) or len(value) <= _LONGEST else None
    return None


def text(node: ast.expr, lookup: Lookup) -> str | None:
    """Return the text that an expression always has, or None."""
    value = fold(node, lookup)
    return value if isinstance(value, str) else None


def _fold(node: ast.expr, lookup: Lookup, depth: int) -> Value | None:  # noqa: PLR0911 - one for each kind
    match node:
        case ast.Constant(value=str() | bytes() | int() as value):
            return value
        case ast.Name(id=name):
            bound = lookup(name)
            return fold(bound, lookup, depth) if bound is not None else None
        case ast.BinOp(left=left, op=op, right=right):
            return _operation(op, left, right, lookup, depth)
        case ast.JoinedStr(values=parts):
            return _joined(parts, lookup, depth)
        case ast.Subscript(value=value, slice=part):
            return _part(value, part, lookup, depth)
        case ast.Call():
            return _call(node, lookup, depth)
        case _:
            return None


def _operation(op: ast.operator, left: ast.expr, right: ast.expr, lookup: Lookup, depth: int) -> Value | None:
    first = fold(left, lookup, depth)
    if isinstance(op, ast.Mod) and isinstance(first, str):
        items = right.elts if isinstance(right, ast.Tuple) else [right]
        values = [fold(item, lookup, depth) for item in items]
        return first % tuple(values) if None not in values else None
    second = fold(right, lookup, depth)
    if isinstance(op, ast.Add):
        if isinstance(first, str) and isinstance(second, str):
            return first + second
        if isinstance(first, bytes) and isinstance(second, bytes):
            return first + second
    numbers = isinstance(first, int) and isinstance(second, int)
    if numbers and isinstance(op, ast.Add | ast.Sub | ast.BitXor):
        return _number(op, int(first or 0), int(second or 0))
    return None


def _number(op: ast.operator, first: int, second: int) -> int:
    if isinstance(op, ast.Add):
        return first + second
    return first - second if isinstance(op, ast.Sub) else first ^ second


def _joined(parts: list[ast.expr], lookup: Lookup, depth: int) -> str | None:
    values = [fold(part.value if isinstance(part, ast.FormattedValue) else part, lookup, depth) for part in parts]
    return "".join(map(str, values)) if None not in values else None


def _part(value: ast.expr, part: ast.expr, lookup: Lookup, depth: int) -> Value | None:
    whole = fold(value, lookup, depth)
    if not isinstance(whole, str):
        return None
    if isinstance(part, ast.Slice):
        ends = [_integer(end, lookup, depth) for end in (part.lower, part.upper, part.step)]
        return whole[slice(*ends)]
    at = _integer(part, lookup, depth)
    return whole[at] if at is not None else None


def _integer(node: ast.expr | None, lookup: Lookup, depth: int) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        positive = _integer(node.operand, lookup, depth)
        return None if positive is None else -positive
    value = fold(node, lookup, depth) if node is not None else None
    return value if isinstance(value, int) else None


def _call(node: ast.Call, lookup: Lookup, depth: int) -> Value | None:
    values = [fold(argument, lookup, depth) for argument in node.args]
    if isinstance(node.func, ast.Name):
        return _builtin(node.func.id, node, values, lookup, depth)
    if not isinstance(node.func, ast.Attribute):
        return None
    name, owner = node.func.attr, fold(node.func.value, lookup, depth)
    if isinstance(owner, bytes):
        return owner.decode(*map(str, values[:1])) if name == "decode" else None
    if not isinstance(owner, str):
        return _decoded(name, values)
    if name == "join" and node.args:
        return _join(owner, node.args[0], lookup, depth)
    return _method(owner, name, values) if None not in values else None


def _method(owner: str, name: str, values: list[Value | None]) -> str | None:
    if name in _PLAIN_METHODS and not values:
        return str(getattr(owner, name)())
    if name == "replace" and len(values) == 2:  # noqa: PLR2004 - old and new
        return owner.replace(str(values[0]), str(values[1]))
    return owner.format(*values) if name == "format" and "." not in owner else None


def _decoded(name: str, values: list[Value | None]) -> Value | None:
    """Return the result of `b64decode("…")`, `bytes.fromhex("…")` and `codecs.decode("…", "rot13")`."""
    first = values[0] if values else None
    if not isinstance(first, str | bytes):
        return None
    if name == "b64decode":
        return base64.b64decode(first)
    if name in ("fromhex", "unhexlify"):
        return bytes.fromhex(first if isinstance(first, str) else first.decode())
    rotated = name == "decode" and len(values) > 1 and "rot" in str(values[1])
    return codecs.decode(first, "rot13") if rotated and isinstance(first, str) else None


def _builtin(name: str, node: ast.Call, values: list[Value | None], lookup: Lookup, depth: int) -> Value | None:
    if name == "chr" and values and isinstance(values[0], int):
        return chr(values[0])
    if name == "str" and len(values) == 1:
        return str(values[0]) if values[0] is not None else None
    if name == "bytes" and node.args and isinstance(node.args[0], ast.List | ast.Tuple):
        numbers = [_integer(item, lookup, depth) for item in node.args[0].elts]
        return bytes(number for number in numbers if number is not None) if None not in numbers else None
    return _decoded(name, values)


def _join(glue: str, items: ast.expr, lookup: Lookup, depth: int) -> str | None:
    if isinstance(items, ast.Call) and isinstance(items.func, ast.Name) and items.func.id == "reversed" and items.args:
        whole = fold(items.args[0], lookup, depth)
        return glue.join(reversed(whole)) if isinstance(whole, str) else None
    if isinstance(items, ast.Call) and isinstance(items.func, ast.Name) and items.func.id == "map":
        return _mapped(glue, items, lookup, depth)
    if isinstance(items, ast.List | ast.Tuple):
        values = [fold(item, lookup, depth) for item in items.elts]
        return glue.join(map(str, values)) if None not in values else None
    whole = fold(items, lookup, depth)
    return glue.join(whole) if isinstance(whole, str) else None


def _mapped(glue: str, items: ast.Call, lookup: Lookup, depth: int) -> str | None:
    """Return the text of `"".join(map(chr, [112, 121]))`."""
    chr_of = len(items.args) == 2 and isinstance(items.args[0], ast.Name) and items.args[0].id == "chr"  # noqa: PLR2004
    if not chr_of:
        return None
    row = items.args[1]
    codes = [_integer(item, lookup, depth) for item in getattr(row, "elts", [])]
    value = fold(row, lookup, depth)
    if isinstance(value, bytes):
        codes = list(value)
    return glue.join(chr(code) for code in codes if code is not None) if codes and None not in codes else None
