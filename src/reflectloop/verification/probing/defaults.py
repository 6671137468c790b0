"""Leave out recorded arguments that only repeat a parameter's default value; pure."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reflectloop.verification.probing.changed import parse
from reflectloop.verification.probing.inside import plain_data

_UNKNOWN = object()


class ParameterDefaults(NamedTuple):
    """The defaults of a function: of its last positional parameters, and of all that have a name."""

    first: int  # the number of positional parameters without a default
    values: tuple[Any, ...] = ()
    named: Mapping[str, Any] = {}


def read(source: bytes, line: int) -> ParameterDefaults:
    """Return the defaults of the function that begins in a line."""
    tree = parse(source)
    for node in ast.walk(tree) if isinstance(tree, ast.Module) else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _first_line(node) == line:
            given = node.args
            usual = [*given.posonlyargs, *given.args][-len(given.defaults) :] if given.defaults else []
            named = [*zip(usual, given.defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
            return ParameterDefaults(
                len(given.posonlyargs) + len(given.args) - len(given.defaults),
                tuple(map(_value, given.defaults)),
                {argument.arg: _value(default) for argument, default in named if default is not None},
            )
    return ParameterDefaults(0)


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _value(node: ast.expr) -> Any:  # noqa: ANN401 - any literal
    try:
        return plain_data.encode_argument(ast.literal_eval(node), plain_data.ValueBudget(1 << 22))
    except (ValueError, TypeError, RecursionError, MemoryError, SyntaxError, plain_data.NotPlainData):
        return _UNKNOWN


def left_out(
    defaults: ParameterDefaults, args: Sequence[Any], kwargs: Sequence[Sequence[Any]], always: Sequence[Any]
) -> tuple[list[Any], list[list[Any]]]:
    """Return the arguments without the last ones that are defaults; `always` are positional values of all calls."""
    out = list(args)
    while len(out) > defaults.first and len(out) - defaults.first <= len(defaults.values):
        default = defaults.values[len(out) - 1 - defaults.first]
        steady = len(out) <= len(always) and always[len(out) - 1] is not _UNKNOWN
        if not (_is_default(out[-1], default) or (default is _UNKNOWN and steady)):
            break
        out.pop()
    named = [[name, value] for name, value in kwargs if not _is_default(value, defaults.named.get(name, _UNKNOWN))]
    return out, named


def steady(calls: Sequence[Sequence[Any]]) -> list[Any]:
    """Return, for each position, the value that all calls have there, or a mark that they differ."""
    columns = zip(*calls, strict=False)
    return [column[0] if all(plain_data.same(column[0], value) for value in column) else _UNKNOWN for column in columns]


def _is_default(value: Any, default: Any) -> bool:  # noqa: ANN401 - JSON
    """Return True for the default, or for one that can change and has grown."""
    if default is _UNKNOWN:
        return False
    if plain_data.same(value, default):
        return True
    if isinstance(value, dict) and isinstance(default, dict) and "dict" in value and "dict" in default:
        entries = [plain_data.text_of(entry) for entry in value["dict"]]
        return all(plain_data.text_of(entry) in entries for entry in default["dict"])
    return isinstance(value, list) and isinstance(default, list) and value[: len(default)] == default
