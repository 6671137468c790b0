"""Tell whether a patch adds one more value to those that a function of base knows by name.

A function that compares an argument with words or numbers (`if scheme == "http"`) answers all other values alike. A fix
that names another value there is narrow by its nature.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from reflectloop.verification.probing.changed import parse
from reflectloop.verification.probing.neighbours import CallInput, arguments
from reflectloop.verification.probing.observations import Observation, Option
from reflectloop.verification.probing.tables import assigned, find_function

_FOLDING = ("lower", "upper", "casefold", "strip")
_ENDS = ("startswith", "endswith")
_SMALL = 2
_LEAST_OTHERS, _ALIKE = 8, 0.95  # inputs with another value in the argument, share to which base gives one answer


def named_options(source: bytes, qualname: str) -> Mapping[str, frozenset[Option]]:
    """Return, by the place of an argument, the values with which a function compares the argument or a part of it."""
    tree = parse(source)
    function = find_function(tree, qualname) if isinstance(tree, ast.Module) else None
    if not isinstance(tree, ast.Module) or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return {}
    listed = [*function.args.posonlyargs, *function.args.args]
    places = {argument.arg: str(place) for place, argument in enumerate(listed)}
    places |= {argument.arg: argument.arg for argument in function.args.kwonlyargs}
    known = {name: node.value for name, node in assigned(tree).items() if isinstance(node, ast.Assign | ast.AnnAssign)}
    out: dict[str, set[Option]] = {}
    for node in ast.walk(function):
        for asked, other, is_whole in _comparisons(node):
            if (name := _parameter(asked)) in places:
                table = known.get(other.id) if isinstance(other, ast.Name) else other
                values = {Option(value, is_whole) for value in _literals(table) if not _is_special(value)}
                out.setdefault(places[name], set()).update(values)
    return {place: frozenset(values) for place, values in out.items() if values}


def _comparisons(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST, bool]]:
    """Yield what is asked about, what it is compared with, and whether it is compared as a whole."""
    if isinstance(node, ast.Compare) and len(node.comparators) == 1:
        left, right = node.left, node.comparators[0]
        if isinstance(node.ops[0], ast.Eq | ast.NotEq):
            yield from ((left, right, True), (right, left, True))
        elif isinstance(node.ops[0], ast.In | ast.NotIn):
            yield from ((right, left, False), *([] if isinstance(right, ast.Constant) else [(left, right, True)]))
    elif isinstance(node, ast.Subscript):
        yield node.slice, node.value, True
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        if node.func.attr == "get":
            yield node.args[0], node.func.value, True
        elif node.func.attr in _ENDS:
            yield node.func.value, node.args[0], False
    elif isinstance(node, ast.Match):
        values = [item for case in node.cases for item in ast.walk(case.pattern) if isinstance(item, ast.MatchValue)]
        yield from ((node.subject, item.value, True) for item in values)


def _parameter(node: ast.AST) -> str:
    """Return the name of a variable that is asked about as a whole, in any case."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FOLDING:
        node = node.func.value
    return node.id if isinstance(node, ast.Name) else ""


def _literals(node: ast.AST | None) -> Iterator[str | int | float]:
    if isinstance(node, ast.Constant) and type(node.value) in (str, int, float):
        yield node.value  # type: ignore[misc]
    elif isinstance(node, ast.Dict):
        for key in node.keys:
            yield from _literals(key)
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for element in node.elts:
            yield from _literals(element)


def _is_special(value: str | float) -> bool:
    """Return True for what is no name of a case: an empty text, a number next to zero."""
    return not value.strip() if isinstance(value, str) else abs(value) <= _SMALL


def is_one_more(seen: Observation) -> bool:
    """Return True if each changed test has, in one argument, a value that the patch names beside those of base.

    None of base's values is a part of it, and base gives nearly all other values the answer that it gave to the test.
    """
    options = seen.function.options
    if not options or not seen.changed or seen.new or seen.left_out:
        return False
    return all(any(_is_added(seen, at, place) for place in options) for at in seen.changed)


def _is_added(seen: Observation, at: int, place: str) -> bool:
    item, known = seen.tests[at], seen.function.options[place]
    value = value_at(item.input, place)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not _names(seen.function.added, value):
        return False
    if not item.base.returns or not item.patch.returns or _is_like(value, known):
        return False
    others = [near for near in seen.near if near.origin == at and near.place == place and not near.base.stopped]
    alike = [near for near in others if near.base.text == item.base.text]
    return len(others) >= _LEAST_OTHERS and len(alike) >= _ALIKE * len(others)


def _is_like(value: str | float, known: frozenset[Option]) -> bool:
    """Return True unless base knows values of this kind, none of which is a part of this one."""
    same_kind = [option for option in known if isinstance(option.value, str) is isinstance(value, str)]
    parts = [str(option.value).casefold() for option in same_kind if not option.is_whole]
    return not same_kind or any(part in str(value).casefold() for part in parts)


def _names(added: frozenset[object], value: str | float) -> bool:
    if not isinstance(value, str):
        return abs(value) in added
    return value.casefold() in {text.casefold() for text in added if isinstance(text, str)}


def value_at(given: CallInput, place: str) -> object:
    """Return the argument of this number or name."""
    return next((value for name, value in arguments(given) if str(name) == place), None)
