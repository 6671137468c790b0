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


class Assertion(NamedTuple):
    """One assertion of a test, its conditions, and whether its failure is swallowed."""

    kind: Kind
    text: str
    node: ast.expr
    line: int
    conditions: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    swallowed: str | None = None


class Demand(NamedTuple):
    """An assertion in its common form."""

    kind: Kind
    node: ast.expr


def demands(test: ast.expr) -> Iterator[Demand]:
    """Yield an asserted expression, split at each `and`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from demands(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield Demand("claim", _negated(test))
    else:
        yield Demand("claim", test)


_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


def _negated(test: ast.UnaryOp) -> ast.expr:
    inner = test.operand
    if isinstance(inner, ast.Compare) and len(inner.ops) == 1 and type(inner.ops[0]) in _OPPOSITE:
        return ast.Compare(inner.left, [_OPPOSITE[type(inner.ops[0])]()], inner.comparators)
    return test


def called(call: ast.Call) -> Iterator[Demand]:
    """Yield what a call asserts; nothing if it is not an assertion."""
    name = last_name(call.func)
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
        yield Demand("raises", _raising(call))
    elif _FAILS.search(ast.unparse(call.func)):
        yield Demand("call", _without_message(call))


def expects_raise(call: ast.expr) -> bool:
    return isinstance(call, ast.Call) and last_name(call.func) in _RAISES


def _raising(call: ast.Call) -> ast.Call:
    """Return `raises(type, match=...)` for any of its spellings."""
    name = last_name(call.func)
    keywords = [keyword for keyword in call.keywords if keyword.arg in {"match", "check"}]
    kinds = call.args[:1] or [keyword.value for keyword in call.keywords if keyword.arg == "expected_exception"]
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
