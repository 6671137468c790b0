"""Classify expressions: only literals, a number, or true whatever the code does."""

from __future__ import annotations

import ast
import operator
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from reflectloop.system.patterns import lazy
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


_BUILDER = lazy(
    r"dict|list|tuple|set|frozenset|bytes|str|int|float|complex|dedent|join|encode|[lr]?strip|splitlines|split|"
    r"date|time|datetime|timedelta|[A-Z]\w*"
)


def is_written(node: ast.expr | None) -> bool:
    """Return True if the expression only puts literals together: `"-".join(["a"])`, `Decimal("1.5")`."""
    if node is None:
        return False
    parts = list(ast.walk(node))
    functions = [part.func for part in parts if isinstance(part, ast.Call)]
    within = {id(part) for function in functions for part in ast.walk(function)}
    return all(map(_builds, functions)) and not any(
        isinstance(part, ast.Name | ast.Await | ast.Lambda | ast.comprehension) and id(part) not in within
        for part in parts
    )


def same_values(old: ast.expr, new: ast.expr) -> bool:
    """Return True if both put the same literals together, whichever module their builders are imported from."""
    return _shape(old) == _shape(new)


def _shape(node: ast.expr) -> str:
    copied = ast.parse(ast.unparse(node), mode="eval")
    for call in ast.walk(copied):
        if isinstance(call, ast.Call) and not isinstance(getattr(call.func, "value", None), ast.Constant):
            call.func = ast.Name(last_name(call.func), ast.Load())
    return ast.unparse(copied)


def _builds(function: ast.expr) -> bool:
    return _BUILDER.fullmatch(last_name(function)) is not None


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


# The questions about the machine that tests ask in order to skip themselves.
_MACHINE: dict[str, object] = {
    "sys.platform": sys.platform,
    "os.name": os.name,
    "sys.version_info": tuple(sys.version_info[:3]),
    "sys.version_info[:2]": tuple(sys.version_info[:2]),
    "sys.version_info[0]": sys.version_info[0],
    "sys.version_info.major": sys.version_info[0],
    "platform.system()": platform.system(),
    "platform.python_implementation()": platform.python_implementation(),
    "sys.implementation.name": sys.implementation.name,
}


# Other machines, by which two questions about the platform are compared.
_PLATFORMS: tuple[dict[str, object], ...] = tuple(
    {"sys.platform": name, "os.name": kind, "platform.system()": system}
    for name, kind, system in (
        ("linux", "posix", "Linux"),
        ("darwin", "posix", "Darwin"),
        ("win32", "nt", "Windows"),
        ("cygwin", "posix", "CYGWIN_NT-10.0"),
        ("freebsd14", "posix", "FreeBSD"),
        ("java", "java", "Java"),
    )
)


def same_platforms(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return True if both conditions ask only for the platform, and have the same answer on every one."""
    sides = [_answers(conditions) for conditions in (old, new)]
    return None not in sides[0] and sides[0] == sides[1] and len(set(sides[0])) > 1


def _answers(conditions: Sequence[str]) -> list[bool | None]:
    if not all(map(_is_code, conditions)) or "hasattr" in " ".join(conditions):
        return [None]
    nodes = [ast.parse(condition, mode="eval").body for condition in conditions]
    return [_all_known([_known(node, machine) for node in nodes]) for machine in _PLATFORMS]


def _all_known(answers: Sequence[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def asks_about_the_machine(node: ast.expr) -> bool:
    """Return True if an expression depends on the platform or the version of Python alone."""
    return not is_literal(node) and _known(node) is not None


def holds_here(conditions: Sequence[str]) -> bool | None:
    """Return True or False if conditions about the platform or the version do or do not hold here, or None."""
    known = [_known(ast.parse(condition, mode="eval").body) for condition in conditions if _is_code(condition)]
    if False in known:
        return False
    return None if None in known or len(known) < len(conditions) else True


def _is_code(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


def _known(node: ast.expr, machine: Mapping[str, object] = _MACHINE) -> bool | None:
    """Return the truth of a condition that only asks about the machine, or None."""
    match node:
        case ast.BoolOp(op=joined, values=values):
            parts = [_known(value, machine) for value in values]
            decided = isinstance(joined, ast.Or)  # one such part decides
            return decided if decided in parts else None if None in parts else not decided
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _known(operand, machine)
            return None if inner is None else not inner
        case ast.Call():
            return _asked(node, machine)
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            return _compared(machine.get(ast.unparse(left)), sign, right)
        case ast.Constant(value=value):
            return bool(value)
    return None


def _asked(call: ast.Call, machine: Mapping[str, object]) -> bool | None:
    """Return the answer to `sys.platform.startswith("win")` and `hasattr(os, "fork")`, or None."""
    match call:
        case ast.Call(func=ast.Attribute(value=asked, attr="startswith"), args=[ast.Constant(value=str() as start)]):
            value = machine.get(ast.unparse(asked))
            return value.startswith(start) if isinstance(value, str) else None
        case ast.Call(func=ast.Name(id="hasattr"), args=[ast.Name(id=module), ast.Constant(value=str() as name)]):
            known = sys.modules.get(module) if module in sys.stdlib_module_names else None
            return None if known is None else hasattr(known, name)
    return None


def _compared(value: object, sign: ast.cmpop, right: ast.expr) -> bool | None:
    if value is None or not is_literal(right):
        return None
    try:
        other = ast.literal_eval(right)
        return _SIGNS[type(sign)](value, other) if type(sign) in _SIGNS else None
    except (TypeError, ValueError):
        return None


_SIGNS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, others: value in others,
    ast.NotIn: lambda value, others: value not in others,
}
