"""Walk a function and collect its assertions, with what could keep them from failing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reflectloop.verification.tampering.python.checks import (
    Assertion,
    Demand,
    called,
    demands,
    expects_raise,
    last_name,
)

_BROAD = frozenset({"Exception", "BaseException", "AssertionError"})
_SKIPS = frozenset({"skip", "skipTest", "xfail", "importorskip", "exit"})
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


class StatementContext(NamedTuple):
    """The conditions, loops and handlers around a statement."""

    conditions: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    swallowed: str | None = None

    def under(self, condition: str) -> StatementContext:
        return self._replace(conditions=(*self.conditions, condition))


class Skip(NamedTuple):
    """A call or mark that skips a test."""

    line: int
    what: str
    conditions: tuple[str, ...] = ()


class FunctionFlow(NamedTuple):
    """The assertions and skips of a function."""

    checks: list[Assertion]
    skips: list[Skip]


def walked(body: Iterable[ast.stmt]) -> FunctionFlow:
    """Return the assertions and skips in these statements."""
    collected = FunctionFlow([], [])
    _block(body, StatementContext(), collected)
    return collected


def _block(body: Iterable[ast.stmt], place: StatementContext, collected: FunctionFlow) -> None:
    """Walk the statements, stopping after one that always leaves the block."""
    for statement in body:
        _statement(statement, place, collected)
        if _leaves(statement):
            return
        if isinstance(statement, ast.If) and not statement.orelse and _ends(statement.body):
            place = place.under(f"not ({ast.unparse(statement.test)})")


def _leaves(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If) and constant(statement.test) is True:
        return _ends(statement.body)
    return isinstance(statement, _ENDS) or _is_exit(statement)


def _ends(body: list[ast.stmt]) -> bool:
    return any(isinstance(statement, ast.Return | ast.Continue) or _is_exit(statement) for statement in body)


def _is_exit(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    return last_name(call.func) in {"skip", "skipTest", "_exit"} or ast.unparse(call.func) in {
        "sys.exit",
        "pytest.exit",
    }


def constant(test: ast.expr) -> bool | None:
    """Return True or False if a condition is always so, or None if it is not known."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = constant(test.operand)
        return None if inner is None else not inner
    return None


def _statement(statement: ast.stmt, place: StatementContext, collected: FunctionFlow) -> None:
    match statement:
        case ast.Assert(test=test):
            _record(demands(test), statement.lineno, place, collected)
        case ast.If():
            _branches(statement, place, collected)
        case ast.For() | ast.AsyncFor():
            inner = place._replace(loops=(*place.loops, ast.unparse(statement.iter)))
            _expression(statement.iter, statement.lineno, place, collected)
            _block(statement.body, inner, collected)
            _block(statement.orelse, place, collected)
        case ast.Try() | ast.TryStar():
            _try(statement, place, collected)
        case ast.With() | ast.AsyncWith():
            _with(statement, place, collected)
        case ast.Raise(exc=exc) if exc is not None and "SkipTest" in ast.unparse(exc):
            collected.skips.append(Skip(statement.lineno, "raise SkipTest", place.conditions))
        case _:
            _expression(getattr(statement, "value", None), statement.lineno, place, collected)
            _nested(statement, place, collected)


def _nested(statement: ast.stmt, place: StatementContext, collected: FunctionFlow) -> None:
    """Walk loops, match statements and functions defined inside a test, as far as they can be judged."""
    if isinstance(statement, ast.Match):
        for case in statement.cases:
            _block(case.body, place.under(ast.unparse(case.pattern)), collected)
    elif isinstance(statement, ast.While) and constant(statement.test) is not False:
        _block(statement.body, place, collected)
    elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        _block(statement.body, place.under(f"{statement.name} is called"), collected)


def _branches(statement: ast.If, place: StatementContext, collected: FunctionFlow) -> None:
    known = constant(statement.test)
    condition = ast.unparse(statement.test)
    if known is not False:
        _block(statement.body, place if known else place.under(condition), collected)
    if known is not True:
        _block(statement.orelse, place if known is False else place.under(f"not ({condition})"), collected)


def _try(statement: ast.Try | ast.TryStar, place: StatementContext, collected: FunctionFlow) -> None:
    swallows = next(
        (
            ast.unparse(handler.type) if handler.type else "everything"
            for handler in statement.handlers
            if _swallows(handler)
        ),
        None,
    )
    if any(isinstance(last, ast.Return) for last in statement.finalbody):
        swallows = "finally: return"
    _block(statement.body, place._replace(swallowed=swallows) if swallows else place, collected)
    for handler in statement.handlers:
        _block(handler.body, place, collected)
    _block(statement.orelse, place, collected)
    _block(statement.finalbody, place, collected)


def _swallows(handler: ast.ExceptHandler) -> bool:
    broad = handler.type is None or bool(_BROAD & {last_name(node) for node in _types(handler.type)})
    inner = walked(handler.body)
    reacts = inner.checks or any(isinstance(node, ast.Raise) for part in handler.body for node in ast.walk(part))
    return broad and not reacts


def _types(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _with(statement: ast.With | ast.AsyncWith, place: StatementContext, collected: FunctionFlow) -> None:
    inner = place
    for item in statement.items:
        call = item.context_expr
        _expression(call, statement.lineno, place, collected)
        if isinstance(call, ast.Call) and last_name(call.func) == "suppress":
            inner = inner._replace(swallowed=", ".join(ast.unparse(argument) for argument in call.args) or "nothing")
        elif isinstance(call, ast.Call) and expects_raise(call) and call.args and last_name(call.args[0]) in _BROAD:
            inner = inner._replace(swallowed=last_name(call.args[0]))
    # Code after the raise in the same block never runs, but assertions there are rare and not meant to.
    _block(statement.body, inner, collected)


def _expression(node: object, line: int, place: StatementContext, collected: FunctionFlow) -> None:
    """Record calls that assert or skip at any depth: `excinfo = pytest.raises(...)`, `a.assert_called() or b`."""
    if not isinstance(node, ast.AST):
        return
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            _skipping(inner, place, collected)
            _record(called(inner), getattr(inner, "lineno", line), place, collected)


def _skipping(call: ast.Call, place: StatementContext, collected: FunctionFlow) -> None:
    name = last_name(call.func)
    spelled = ast.unparse(call.func)
    if (
        name in _SKIPS
        and spelled.split(".", maxsplit=1)[0] in {"pytest", "self", "unittest", name}
        and spelled != "exit"
    ):
        collected.skips.append(Skip(call.lineno, f"{spelled}()", place.conditions))


def _record(made: Iterator[Demand], line: int, place: StatementContext, collected: FunctionFlow) -> None:
    for kind, node in made:
        text = ast.unparse(ast.fix_missing_locations(node))
        collected.checks.append(Assertion(kind, text, node, line, place.conditions, place.loops, place.swallowed))


__all__ = ["FunctionFlow", "Skip", "StatementContext", "constant", "expects_raise", "walked"]
