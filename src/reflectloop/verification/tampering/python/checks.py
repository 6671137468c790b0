"""Convert every kind of Python assertion to one form."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["claim", "raises", "call"]

_COMPARISONS: dict[str, type[ast.cmpop]] = {
    "assertEqual": ast.Eq,
    "assertEquals": ast.Eq,
    "assertListEqual": ast.Eq,
    "assertDictEqual": ast.Eq,
    "assertSetEqual": ast.Eq,
    "assertTupleEqual": ast.Eq,
    "assertSequenceEqual": ast.Eq,
    "assertMultiLineEqual": ast.Eq,
    "assertNotEqual": ast.NotEq,
    "assertIs": ast.Is,
    "assertIsNot": ast.IsNot,
    "assertIn": ast.In,
    "assertNotIn": ast.NotIn,
    "assertGreater": ast.Gt,
    "assertGreaterEqual": ast.GtE,
    "assertLess": ast.Lt,
    "assertLessEqual": ast.LtE,
}
_RAISES = {
    "raises": "raises",
    "assertRaises": "raises",
    "assertRaisesRegex": "raises",
    "assertRaisesRegexp": "raises",
    "RaisesGroup": "raises",
    "warns": "warns",
    "assertWarns": "warns",
    "assertWarnsRegex": "warns",
    "deprecated_call": "warns",
    "assertLogs": "logs",
}
_FAILS = re.compile(r"(?:^|\.)(?:fail|assert[A-Z_]\w*|assert_\w+|expect\w*|should\w*)$|^assert\w+$")
_MESSAGE_KEYWORDS = frozenset({"msg", "message", "err_msg"})


class Binding(NamedTuple):
    """A local name with its value, and the bindings before it; neither value nor loop if the value is not known."""

    name: str
    value: ast.expr | None
    before: Binding | None
    loop: ast.expr | None = None  # the name takes the elements of this
    at: int | None = None  # of each element, the part at this position


class Assertion(NamedTuple):
    """One assertion of a test, its conditions, and whether its failure is swallowed."""

    kind: Kind
    text: str
    node: ast.expr
    line: int
    conditions: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    swallowed: str | None = None
    values: Binding | None = None  # of the local names where it stands
    inside: tuple[ast.stmt, ...] = ()  # the statements that must raise
    within: tuple[ast.expr, ...] = ()  # the contexts of `with` around it


class Demand(NamedTuple):
    """An assertion in its common form."""

    kind: Kind
    node: ast.expr
    inside: tuple[ast.stmt, ...] = ()


def demands(test: ast.expr) -> Iterator[Demand]:
    """Yield an asserted expression, split at each `and`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from demands(value)
    elif isinstance(test, ast.Compare) and len(test.ops) > 1:  # `a == b == c` asserts `a == b` and `b == c`
        sides = [test.left, *test.comparators]
        for left, sign, right in zip(sides, test.ops, sides[1:], strict=False):
            yield Demand("claim", ast.Compare(left, [sign], [right]))
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield Demand("claim", _negated(test))
    else:
        yield Demand("claim", test)


OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


def _exact(sign: ast.cmpop) -> bool:
    """Return True if the opposite holds exactly where this does not; `<` and `>=` may both be False."""
    return isinstance(sign, ast.In | ast.NotIn | ast.Is | ast.IsNot | ast.Eq | ast.NotEq)


def _negated(test: ast.UnaryOp) -> ast.expr:
    inner = test.operand
    if isinstance(inner, ast.Compare) and len(inner.ops) == 1 and _exact(inner.ops[0]):
        return ast.Compare(inner.left, [OPPOSITES[type(inner.ops[0])]()], inner.comparators)
    return test


def called(call: ast.Call) -> Iterator[Demand]:
    """Yield what a call asserts; nothing if it is not an assertion."""
    name = last_name(call.func)
    if name.startswith("assert") and call.args and isinstance(call.args[0], ast.Name) and call.args[0].id == "self":
        call = ast.copy_location(
            ast.Call(call.func, call.args[1:], call.keywords), call
        )  # `six.assertRaisesRegex(self, …)`
    if name in _COMPARISONS and len(call.args) >= 2:  # noqa: PLR2004 - both sides
        yield Demand("claim", ast.Compare(call.args[0], [_COMPARISONS[name]()], [call.args[1]]))
    elif name in {"assertTrue", "assert_"} and call.args:
        yield from demands(call.args[0])
    elif name == "assertFalse" and call.args:
        yield from demands(ast.UnaryOp(ast.Not(), call.args[0]))
    elif name in {"assertIsNone", "assertIsNotNone"} and call.args:
        sign = ast.Is() if name == "assertIsNone" else ast.IsNot()
        yield Demand("claim", ast.Compare(call.args[0], [sign], [ast.Constant(None)]))
    elif name == "assertIsInstance" and len(call.args) >= 2:  # noqa: PLR2004 - both sides
        yield Demand("claim", ast.Call(ast.Name("isinstance", ast.Load()), call.args[:2], []))
    elif name in _RAISES:
        called_here = [ast.Expr(ast.Call(call.args[1], call.args[2:], _passed_on(call)))] if _calls_itself(call) else []
        yield Demand("raises", _raising(call), tuple(called_here))
    elif _FAILS.search(ast.unparse(call.func)):
        yield Demand("call", _without_message(call))


def _calls_itself(call: ast.Call) -> bool:
    """Return True for `assertRaises(ValueError, work, 3)`, which calls `work(3)`."""
    return len(call.args) > 1 and "Regex" not in last_name(call.func)


def _passed_on(call: ast.Call) -> list[ast.keyword]:
    return [keyword for keyword in call.keywords if keyword.arg not in {"match", "check", "expected_exception", "msg"}]


def expects_raise(call: ast.expr) -> bool:
    return isinstance(call, ast.Call) and last_name(call.func) in _RAISES


def _raising(call: ast.Call) -> ast.Call:
    """Return `raises(type, match=...)` for any of its spellings."""
    name = last_name(call.func)
    keywords = [keyword for keyword in call.keywords if keyword.arg in {"match", "check"}]
    kinds = call.args[:1] or [keyword.value for keyword in call.keywords if keyword.arg == "expected_exception"]
    if name == "deprecated_call":
        kinds = [ast.Name("DeprecationWarning", ast.Load())]
    if name.endswith(("Regex", "Regexp")) and len(call.args) > 1:
        keywords = [ast.keyword("match", call.args[1])]
    return ast.Call(ast.Name(_RAISES[name], ast.Load()), kinds, keywords)


def _without_message(call: ast.Call) -> ast.Call:
    return ast.Call(
        call.func, call.args, [keyword for keyword in call.keywords if keyword.arg not in _MESSAGE_KEYWORDS]
    )


def last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
