"""Walks a function and gathers its demands, with what stands between them and failure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reflectloop.verify.weakening.python.checks import Check, Demand, called, demands, expects_raise, last_name

_BROAD = frozenset({"Exception", "BaseException", "AssertionError"})
_SKIPS = frozenset({"skip", "skipTest", "xfail", "importorskip", "exit"})
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


class Place(NamedTuple):
    """Where a statement stands: under which conditions, in which loops, inside what swallows a failure."""

    conditions: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    swallowed: str | None = None

    def under(self, condition: str) -> Place:
        return self._replace(conditions=(*self.conditions, condition))


class Skip(NamedTuple):
    line: int
    what: str
    conditions: tuple[str, ...] = ()


class Walked(NamedTuple):
    checks: list[Check]
    skips: list[Skip]


def walked(body: Iterable[ast.stmt]) -> Walked:
    found = Walked([], [])
    _block(body, Place(), found)
    return found


def _block(body: Iterable[ast.stmt], place: Place, found: Walked) -> None:
    """Statement by statement; what follows one that always leaves is never reached."""
    for statement in body:
        _statement(statement, place, found)
        if _leaves(statement):
            return
        if isinstance(statement, ast.If) and not statement.orelse and _ends(statement.body):
            place = place.under(f"not ({ast.unparse(statement.test)})")


def _leaves(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If) and constant(statement.test) is True:
        return _ends(statement.body)
    return isinstance(statement, _ENDS) or _is_exit(statement)


def _ends(body: list[ast.stmt]) -> bool:
    return any(isinstance(each, ast.Return | ast.Continue) or _is_exit(each) for each in body)


def _is_exit(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    return last_name(call.func) in {"skip", "skipTest", "_exit"} or ast.unparse(call.func) in {
        "sys.exit",
        "pytest.exit",
    }


def constant(test: ast.expr) -> bool | None:
    """Whether a condition is always true, always false, or not known."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = constant(test.operand)
        return None if inner is None else not inner
    return None


def _statement(statement: ast.stmt, place: Place, found: Walked) -> None:
    match statement:
        case ast.Assert(test=test):
            _keep(demands(test), statement.lineno, place, found)
        case ast.If():
            _branches(statement, place, found)
        case ast.For() | ast.AsyncFor():
            inner = place._replace(loops=(*place.loops, ast.unparse(statement.iter)))
            _expression(statement.iter, statement.lineno, place, found)
            _block(statement.body, inner, found)
            _block(statement.orelse, place, found)
        case ast.Try() | ast.TryStar():
            _tried(statement, place, found)
        case ast.With() | ast.AsyncWith():
            _within(statement, place, found)
        case ast.Raise(exc=exc) if exc is not None and "SkipTest" in ast.unparse(exc):
            found.skips.append(Skip(statement.lineno, "raise SkipTest", place.conditions))
        case _:
            _expression(getattr(statement, "value", None), statement.lineno, place, found)
            _nested(statement, place, found)


def _nested(statement: ast.stmt, place: Place, found: Walked) -> None:
    """What a test defines inside itself demands too, as far as can be seen."""
    if isinstance(statement, ast.Match):
        for case in statement.cases:
            _block(case.body, place.under(ast.unparse(case.pattern)), found)
    elif isinstance(statement, ast.While) and constant(statement.test) is not False:
        _block(statement.body, place, found)
    elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        _block(statement.body, place.under(f"{statement.name} is called"), found)


def _branches(statement: ast.If, place: Place, found: Walked) -> None:
    known = constant(statement.test)
    said = ast.unparse(statement.test)
    if known is not False:
        _block(statement.body, place if known else place.under(said), found)
    if known is not True:
        _block(statement.orelse, place if known is False else place.under(f"not ({said})"), found)


def _tried(statement: ast.Try | ast.TryStar, place: Place, found: Walked) -> None:
    swallows = next(
        (ast.unparse(each.type) if each.type else "everything" for each in statement.handlers if _swallows(each)), None
    )
    if any(isinstance(each, ast.Return) for each in statement.finalbody):
        swallows = "finally: return"
    _block(statement.body, place._replace(swallowed=swallows) if swallows else place, found)
    for handler in statement.handlers:
        _block(handler.body, place, found)
    _block(statement.orelse, place, found)
    _block(statement.finalbody, place, found)


def _swallows(handler: ast.ExceptHandler) -> bool:
    broad = handler.type is None or bool(_BROAD & {last_name(each) for each in _types(handler.type)})
    inner = walked(handler.body)
    speaks = inner.checks or any(isinstance(each, ast.Raise) for part in handler.body for each in ast.walk(part))
    return broad and not speaks


def _types(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _within(statement: ast.With | ast.AsyncWith, place: Place, found: Walked) -> None:
    inner = place
    for item in statement.items:
        call = item.context_expr
        _expression(call, statement.lineno, place, found)
        if isinstance(call, ast.Call) and last_name(call.func) == "suppress":
            inner = inner._replace(swallowed=", ".join(ast.unparse(each) for each in call.args) or "nothing")
        elif isinstance(call, ast.Call) and expects_raise(call) and call.args and last_name(call.args[0]) in _BROAD:
            inner = inner._replace(swallowed=last_name(call.args[0]))
    # What follows the raise in the same block never runs, but nobody writes a demand there and means it.
    _block(statement.body, inner, found)


def _expression(node: object, line: int, place: Place, found: Walked) -> None:
    """Calls that demand or skip, however deep: `excinfo = pytest.raises(…)`, `a.assert_called() or b`."""
    if not isinstance(node, ast.AST):
        return
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            _skipping(inner, place, found)
            _keep(called(inner), getattr(inner, "lineno", line), place, found)


def _skipping(call: ast.Call, place: Place, found: Walked) -> None:
    name = last_name(call.func)
    spelled = ast.unparse(call.func)
    if (
        name in _SKIPS
        and spelled.split(".", maxsplit=1)[0] in {"pytest", "self", "unittest", name}
        and spelled != "exit"
    ):
        found.skips.append(Skip(call.lineno, f"{spelled}()", place.conditions))


def _keep(made: Iterator[Demand], line: int, place: Place, found: Walked) -> None:
    for kind, node in made:
        text = ast.unparse(ast.fix_missing_locations(node))
        found.checks.append(Check(kind, text, node, line, place.conditions, place.loops, place.swallowed))


__all__ = ["Place", "Skip", "Walked", "constant", "expects_raise", "walked"]
