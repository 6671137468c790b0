"""Compare two assertions and decide whether the second checks less than the first."""

from __future__ import annotations

import ast
import builtins
from typing import NamedTuple

from reflectloop.verification.result import Grade
from reflectloop.verification.tampering.python.checks import Assertion, last_name
from reflectloop.verification.tampering.python.values import (
    blanked,
    is_literal,
    is_written,
    number,
    same_values,
    tautology,
    tolerance,
)
from reflectloop.verification.tampering.python.verdict import TamperVerdict, side_by_side


def raises(old: ast.expr, new: ast.expr) -> TamperVerdict | None:
    """Return what an expected exception lost, or None."""
    if not (isinstance(old, ast.Call) and isinstance(new, ast.Call)):
        return None
    message = side_by_side(ast.unparse(old), ast.unparse(new))
    before, after = _kinds(old), _kinds(new)
    if wider := [name for name in after if name not in before and _wider(name, before)]:
        return TamperVerdict("raises-wider", f"{message}: {wider[0]} is wider")
    if (old_match := _match(old)) is not None and old_match != _match(new):
        return _message(old_match, _match(new), message)
    other = before and before != after and not set(after) < set(before)
    return TamperVerdict("raises-changed", message, "suspect") if other else None


def _message(old: str, new: str | None, message: str) -> TamperVerdict | None:
    if new is None or new in {"'.*'", "''"}:
        return TamperVerdict("raises-wider", f"{message}: any message is accepted")
    if old.strip("'\"") in new:
        return None  # a longer message is stricter
    if new.strip("'") in old:
        return TamperVerdict("raises-wider", f"{message}: a shorter message is accepted")
    return TamperVerdict("expected-changed", message, "suspect")


def _kinds(call: ast.Call) -> tuple[str, ...]:
    if not call.args:
        return ()
    first = call.args[0]
    return tuple(ast.unparse(kind) for kind in (first.elts if isinstance(first, ast.Tuple) else [first]))


def _match(call: ast.Call) -> str | None:
    return next((ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "match"), None)


def _wider(name: str, before: tuple[str, ...]) -> bool:
    if name in {"Exception", "BaseException", "Warning"}:
        return True
    new = getattr(builtins, name, None)
    olds = [getattr(builtins, kind, None) for kind in before]
    return isinstance(new, type) and any(isinstance(old, type) and issubclass(old, new) for old in olds)


_RANKS: dict[type[ast.cmpop], int] = {
    ast.Eq: 9,
    ast.Is: 9,
    ast.In: 5,
    ast.Lt: 4,
    ast.LtE: 3,
    ast.Gt: 4,
    ast.GtE: 3,
    ast.NotEq: 2,
    ast.IsNot: 2,
    ast.NotIn: 2,
}
_APPROXIMATE, _OF_TYPE, _FALSE, _TRUE = 7, 3, 3, 2
_WIDER_WHEN_MORE = frozenset(
    {"rel", "abs", "rel_tol", "abs_tol", "rtol", "atol", "delta", "tolerance", "tol", "epsilon"}
)
_WIDER_WHEN_LESS = frozenset({"places", "decimal", "significant", "nulp"})
_MOCKS = {
    "assert_called_once_with": 5,
    "assert_awaited_once_with": 5,
    "assert_called_with": 4,
    "assert_awaited_with": 4,
    "assert_has_calls": 4,
    "assert_any_call": 3,
    "assert_called_once": 2,
    "assert_awaited_once": 2,
    "assert_called": 1,
    "assert_awaited": 1,
}


class Claim(NamedTuple):
    """An assertion taken apart: the subject, how strict it is, and the expected value."""

    subject: str
    rank: int
    expected: ast.expr | None
    sign: type[ast.cmpop] | None


def claim(node: ast.expr) -> Claim:
    """Take an assertion apart."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _comparison(node.left, node.ops[0], node.comparators[0])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return Claim(ast.unparse(node.operand), _FALSE, None, None)
    if isinstance(node, ast.Call) and last_name(node.func) in {"isinstance", "issubclass"} and len(node.args) > 1:
        return Claim(ast.unparse(node.args[0]), _OF_TYPE, node.args[1], None)
    return Claim(ast.unparse(node), _TRUE, None, None)


def _comparison(left: ast.expr, sign: ast.cmpop, right: ast.expr) -> Claim:
    if isinstance(sign, ast.In | ast.NotIn) and (is_literal(left) or not is_literal(right)):
        return Claim(ast.unparse(right), _RANKS[type(sign)], left, type(sign))
    if is_literal(left) and not is_literal(right) and isinstance(sign, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
        left, right = right, left
    rank = _RANKS[type(sign)]
    if isinstance(sign, ast.Eq) and tolerance(right):
        rank = _APPROXIMATE
    return Claim(ast.unparse(left), rank, right, type(sign))


def compare(old: Assertion, new: Assertion) -> TamperVerdict | None:
    """Return what the new assertion checks less or differently than the old one, or None."""
    if old.text == new.text:
        return None
    if old.kind == "raises" and new.kind == "raises":
        return raises(old.node, new.node)
    if tautology(new.node) and not tautology(old.node):
        return TamperVerdict("assert-always-true", f"{side_by_side(old.text, new.text)}: it always passes")
    if old.kind == "call" and new.kind == "call":
        return _calls(old, new)
    if old.kind == new.kind == "claim":
        return _claims(old, new)
    return TamperVerdict("assert-replaced", side_by_side(old.text, new.text), "suspect")


def _claims(old: Assertion, new: Assertion) -> TamperVerdict | None:
    before = claim(old.node)
    after = _facing(before, claim(new.node))
    message = side_by_side(old.text, new.text)
    if _alternative(old, new):
        return TamperVerdict("assert-weaker", f"{message}: another outcome is allowed too")
    if same_sides(old.node, new.node) or _respelled(old.text, new.text) or _same_type(before, after):
        return None
    if after.rank < before.rank and _about(before.subject, after.subject):
        grade: Grade = "suspect" if before.rank - after.rank <= _CLOSE else "weakening"
        return (
            None if _same_truth(before, after) else TamperVerdict("assert-weaker", f"{message}: it checks less", grade)
        )
    if before.subject == after.subject and before.expected is not None and after.expected is not None:
        return _expectation(before, after, message)
    stricter = after.rank > before.rank and _about(before.subject, after.subject)
    if stricter or (after.rank == before.rank and _same(before, after)) or before.subject == f"len({after.subject})":
        return None
    return TamperVerdict("assert-replaced", message, grade_of_replaced(old, new))


_CLOSE = 2  # ranks


def grade_of_replaced(old: Assertion, new: Assertion) -> Grade:
    """Return a weakening where a plain truth stands in the place of a value, even if it is about something else."""
    if not old.kind == new.kind == "claim":
        return "suspect"
    return "weakening" if claim(old.node).rank - claim(new.node).rank > _CLOSE else "suspect"


def _facing(before: Claim, after: Claim) -> Claim:
    """Swap the sides of an equation if that matches the subject of the old one."""
    if after.sign in {ast.Eq, ast.Is} and after.expected is not None and ast.unparse(after.expected) == before.subject:
        return after._replace(subject=before.subject, expected=ast.parse(after.subject, mode="eval").body)
    return after


def _respelled(old: str, new: str) -> bool:
    """Return True for a renamed variable, `==` turned into `is`, or the same attribute read from another object."""
    if blanked(old) == blanked(new) or old.replace(" == ", " is ") == new:
        return True
    tails = [text.removeprefix("not ").rpartition(".")[2] for text in (old, new)]
    return tails[0] == tails[1] and tails[0].isidentifier() and old.startswith("not ") == new.startswith("not ")


def _same_type(before: Claim, after: Claim) -> bool:
    """Recognise `type(x) is T` turned into `isinstance(x, T)`, which linters ask for."""
    return before.subject == f"type({after.subject})" and after.rank == _OF_TYPE and _same(before, after)


def same_sides(old: ast.expr, new: ast.expr) -> bool:
    """Return True if both compare the same two sides, as in `a == b` and `b is a`."""
    sides = [_sides(node) for node in (old, new)]
    return sides[0] is not None and sides[0] == sides[1]


def _sides(node: ast.expr) -> frozenset[str] | None:
    if not isinstance(node, ast.Compare) or len(node.ops) > 1 or not isinstance(node.ops[0], ast.Eq | ast.Is):
        return None
    return frozenset({ast.unparse(node.left), ast.unparse(node.comparators[0])})


def _alternative(old: Assertion, new: Assertion) -> bool:
    node = new.node
    return (
        isinstance(node, ast.BoolOp)
        and isinstance(node.op, ast.Or)
        and any(ast.unparse(value) == old.text for value in node.values)
    )


def _about(before: str, after: str) -> bool:
    return before == after or before in after or after in before


def _same(before: Claim, after: Claim) -> bool:
    return (
        before.expected is not None and after.expected is not None and _text(before.expected) == _text(after.expected)
    )


def _same_truth(before: Claim, after: Claim) -> bool:
    """Return True if `== True` or `is True` became the plain name, or `is False` became `not`."""
    if not isinstance(before.expected, ast.Constant) or before.subject != after.subject or after.expected is not None:
        return False
    return (before.expected.value is True and after.rank == _TRUE) or (
        before.expected.value is False and after.rank == _FALSE
    )


def _expectation(before: Claim, after: Claim, message: str) -> TamperVerdict | None:
    old, new = before.expected, after.expected
    if old is None or new is None or same_values(old, new):
        return None
    if before.sign in {ast.Lt, ast.LtE, ast.Gt, ast.GtE} and before.sign is after.sign:
        return _bound(before, after, message)
    if last_name(new) == "ANY" or (before.sign is ast.In and after.sign is ast.In and _shorter(old, new)):
        return TamperVerdict("assert-weaker", f"{message}: more values are accepted")
    if isinstance(old, ast.Call) and isinstance(new, ast.Call) and (widened := _widened(old, new)):
        return TamperVerdict("tolerance-widened", f"{message}: {widened}")
    if is_written(old) and is_written(new):
        return TamperVerdict("expected-changed", f"{message}: another value is expected", "suspect")
    return _computed(old, new, after.subject, message)


def _computed(old: ast.expr, new: ast.expr, subject: str, message: str) -> TamperVerdict | None:
    """Report an expected value that the code under test now computes itself, which proves nothing."""
    makers = {last_name(node.func) for node in ast.walk(new) if isinstance(node, ast.Call)} - {""}
    known = {last_name(node.func) for node in ast.walk(old) if isinstance(node, ast.Call)}
    echoed = subject in ast.unparse(new) and subject not in ast.unparse(old)
    if echoed or any(f"{maker}(" in subject for maker in makers - known):
        return TamperVerdict("expected-computed", f"{message}: the code under test now computes the expected value")
    return (
        None
        if not is_literal(old)
        else TamperVerdict("expected-changed", f"{message}: another value is expected", "note")
    )


def _bound(before: Claim, after: Claim, message: str) -> TamperVerdict | None:
    old, new = number(before.expected), number(after.expected)
    if old is None or new is None:
        return None
    wider = new > old if before.sign in {ast.Lt, ast.LtE} else new < old
    return TamperVerdict("tolerance-widened", f"{message}: the bound is wider") if wider else None


def _shorter(old: ast.expr, new: ast.expr) -> bool:
    if not (isinstance(old, ast.Constant) and isinstance(new, ast.Constant)):
        return False
    both = (old.value, new.value)
    return (
        all(isinstance(value, str | bytes) for value in both)
        and len(str(new.value)) < len(str(old.value))
        and (str(new.value) in str(old.value))
    )


_BY_PLACE = {"approx": ("", "rel", "abs"), "assertAlmostEqual": ("", "", "places"), "isclose": ("", "", "rtol", "atol")}


def _named(call: ast.Call) -> list[ast.keyword]:
    """Return the tolerances by name, including positional ones."""
    names = _BY_PLACE.get(last_name(call.func), ())
    placed = [ast.keyword(name, value) for name, value in zip(names, call.args, strict=False) if name]
    return [*placed, *call.keywords]


def _widened(old: ast.Call, new: ast.Call) -> str | None:
    """Return the tolerance that grew or is new, or None."""
    before = {tolerance_.arg: number(tolerance_.value) for tolerance_ in _named(old) if tolerance_.arg}
    for keyword in _named(new):
        was, now = before.get(keyword.arg or ""), number(keyword.value)
        if keyword.arg in _WIDER_WHEN_MORE and now is not None and now > (was or 0.0):
            return f"{keyword.arg} is wider"
        if keyword.arg in _WIDER_WHEN_LESS and now is not None and (was is None or now < was):
            return f"{keyword.arg} is coarser"
    return None


def _calls(old: Assertion, new: Assertion) -> TamperVerdict | None:
    before, after = old.node, new.node
    if not (isinstance(before, ast.Call) and isinstance(after, ast.Call)):
        return None
    message = side_by_side(old.text, new.text)
    was, now = last_name(before.func), last_name(after.func)
    if _MOCKS.get(now, 9) < _MOCKS.get(was, 0):
        return TamperVerdict("assert-weaker", f"{message}: it checks less")
    if was != now:
        return TamperVerdict("assert-replaced", message, "suspect")
    if widened := _widened(before, after):
        return TamperVerdict("tolerance-widened", f"{message}: {widened}")
    changed = [
        (old_argument, new_argument)
        for old_argument, new_argument in zip(before.args, after.args, strict=False)
        if _text(old_argument) != _text(new_argument)
    ]
    if any(is_literal(old_argument) and is_literal(new_argument) for old_argument, new_argument in changed):
        return TamperVerdict("expected-changed", f"{message}: another value is expected", "suspect")
    return None


def _text(node: ast.expr) -> str:
    return ast.unparse(node)
