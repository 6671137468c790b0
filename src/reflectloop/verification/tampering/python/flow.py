"""Walk a function and collect its assertions, with what could keep them from failing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from reflectloop.verification.tampering.python.checks import (
    OPPOSITES,
    Assertion,
    Binding,
    Demand,
    called,
    demands,
    expects_raise,
    last_name,
)

_BROAD = frozenset({"Exception", "BaseException", "AssertionError"})
_SKIPS = frozenset({"skip", "skipTest", "xfail", "importorskip", "exit"})
_PLAIN_CONTEXTS = frozenset({"subTest", "suppress", "nullcontext"})
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


class StatementContext(NamedTuple):
    """The conditions, loops and handlers around a statement, and the values of local names."""

    conditions: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    swallowed: str | None = None
    values: Binding | None = None
    within: tuple[ast.expr, ...] = ()

    def under(self, condition: str) -> StatementContext:
        return self._replace(conditions=(*self.conditions, condition))

    def bound(self, name: str, value: ast.expr | None) -> StatementContext:
        return self._replace(values=Binding(name, value, self.values))

    def forgetting(self, statements: Iterable[ast.AST]) -> StatementContext:
        """Return the context after statements that may or may not have run."""
        place = self
        for name in sorted(_set_in(statements)):
            place = place.bound(name, None)
        return place


class Skip(NamedTuple):
    """A call or mark that skips a test, or expects it to fail; on no condition, always."""

    line: int
    what: str
    conditions: tuple[str, ...] = ()
    kind: Literal["skip", "xfail"] = "skip"

    @property
    def unconditional(self) -> bool:
        """True if the test never runs, or may always fail."""
        return not self.conditions and "strict" not in self.what

    @property
    def meaning(self) -> tuple[str, ...]:
        """The part that two spellings of the same skip share."""
        return (self.kind, *sorted(self.conditions))


def plain_condition(node: ast.expr, *, negated: bool = False) -> str:
    """Return a condition in one spelling: a text is read as code, and `not` is resolved."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        written = node.value
        try:
            node = ast.parse(written, mode="eval").body
        except (SyntaxError, ValueError):
            return written
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return plain_condition(node.operand, negated=not negated)
    if negated and isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPPOSITES:
        return ast.unparse(ast.Compare(node.left, [OPPOSITES[type(node.ops[0])]()], node.comparators))
    return f"not ({ast.unparse(node)})" if negated else ast.unparse(node)


class HelperCall(NamedTuple):
    """A call in a test, which may be of a function that asserts."""

    node: ast.Call
    place: StatementContext


class FunctionFlow(NamedTuple):
    """The assertions, skips and calls of a function."""

    checks: list[Assertion]
    skips: list[Skip]
    calls: list[HelperCall]


def walked(body: Iterable[ast.stmt]) -> FunctionFlow:
    """Return the assertions, skips and calls in these statements."""
    collected = FunctionFlow([], [], [])
    _block(body, StatementContext(), collected)
    return collected


def _block(body: Iterable[ast.stmt], place: StatementContext, collected: FunctionFlow) -> StatementContext:
    """Walk the statements, stopping after one that always leaves the block; return the context behind them."""
    for statement in body:
        place = place._replace(values=_statement(statement, place, collected))
        if _leaves(statement):
            break
        if isinstance(statement, ast.If) and not statement.orelse and _ends(statement.body):
            if any(_skips(part) for part in statement.body):
                continue  # recorded as a skip on that condition
            place = place.under(plain_condition(statement.test, negated=True))
    return place


def _set_in(statements: Iterable[ast.AST]) -> set[str]:
    """Return the names that the statements set."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _assigned(target: ast.expr, value: ast.expr | None, place: StatementContext) -> StatementContext:
    """Return the context in which the target has the value; parts of a tuple get the parts of the value."""
    if isinstance(target, ast.Name):
        return place.bound(target.id, value)
    if not isinstance(target, ast.Tuple | ast.List):
        return place
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else None
    for at, part in enumerate(target.elts):
        if not isinstance(part, ast.Name):
            place = place.forgetting([part])
        elif value is None or parts:
            place = place.bound(part.id, parts[at] if parts else None)
        else:
            place = place.bound(part.id, ast.Subscript(value, ast.Constant(at), ast.Load()))
    return place


def _leaves(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If) and constant(statement.test) is True:
        return _ends(statement.body)
    return isinstance(statement, _ENDS) or _is_exit(statement)


def _ends(body: list[ast.stmt]) -> bool:
    return any(isinstance(statement, ast.Return | ast.Continue) or _is_exit(statement) for statement in body)


def _skips(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and last_name(call.func) in {"skip", "skipTest"}


def _fails(statement: ast.stmt) -> bool:
    """Return True for a statement that fails the test: `self.fail()`, `assert False`, `raise AssertionError`."""
    match statement:
        case ast.Assert(test=ast.Constant(value=False)):
            return True
        case ast.Raise(exc=exc) if exc is not None:
            return last_name(exc.func if isinstance(exc, ast.Call) else exc) == "AssertionError"
        case ast.Expr(value=ast.Call(func=func)):
            return ast.unparse(func) in {"self.fail", "pytest.fail", "fail"}
    return False


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


def _statement(statement: ast.stmt, place: StatementContext, collected: FunctionFlow) -> Binding | None:
    """Record what a statement asserts, and return the values of local names behind it."""
    match statement:
        case ast.Assert(test=test):
            _record(demands(test), statement.lineno, place, collected)
            _expression(test, statement.lineno, place, collected, asserted=True)
        case ast.If():
            _branches(statement, place, collected)
            return place.forgetting([statement]).values
        case ast.For() | ast.AsyncFor():
            return _loop(statement, place, collected)
        case ast.Try() | ast.TryStar():
            return _try(statement, place, collected)
        case ast.With() | ast.AsyncWith():
            return _with(statement, place, collected)
        case ast.Raise(exc=exc) if exc is not None and "SkipTest" in ast.unparse(exc):
            collected.skips.append(Skip(statement.lineno, "raise SkipTest", place.conditions))
        case _:
            _expression(getattr(statement, "value", None), statement.lineno, place, collected)
            _nested(statement, place, collected)
            return _after(statement, place).values
    return place.values


def _after(statement: ast.stmt, place: StatementContext) -> StatementContext:
    """Return the context behind a simple statement."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                place = _assigned(target, value, place)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            place = _assigned(target, value, place)
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
            place = place.bound(name, ast.BinOp(ast.Name(name, ast.Load()), op, value))
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            place = place.bound(name, None)
        case ast.While() | ast.Match():
            place = place.forgetting([statement])
    return place


def _loop(statement: ast.For | ast.AsyncFor, place: StatementContext, collected: FunctionFlow) -> Binding | None:
    _expression(statement.iter, statement.lineno, place, collected)
    inner = place._replace(loops=(*place.loops, ast.unparse(statement.iter))).forgetting(statement.body)
    names = statement.target.elts if isinstance(statement.target, ast.Tuple | ast.List) else [statement.target]
    for at, name in enumerate(names):
        if isinstance(name, ast.Name):
            position = None if name is statement.target else at
            inner = inner._replace(values=Binding(name.id, None, inner.values, statement.iter, position))
    _block(statement.body, inner, collected)
    after = place.forgetting([statement])
    _block(statement.orelse, after, collected)
    return after.values


def _nested(statement: ast.stmt, place: StatementContext, collected: FunctionFlow) -> None:
    """Walk loops, match statements and functions defined inside a test, as far as they can be judged."""
    if isinstance(statement, ast.Match):
        for case in statement.cases:
            _block(case.body, place.under(ast.unparse(case.pattern)).forgetting([statement]), collected)
    elif isinstance(statement, ast.While) and constant(statement.test) is not False:
        _block(statement.body, place.forgetting([statement]), collected)
    elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        inner = place.under(f"{statement.name} is called").forgetting([statement])
        for argument in statement.args.args if not isinstance(statement, ast.ClassDef) else ():
            inner = inner.bound(argument.arg, None)
        _block(statement.body, inner, collected)


def _branches(statement: ast.If, place: StatementContext, collected: FunctionFlow) -> None:
    known = constant(statement.test)
    if known is None and not statement.orelse and len(statement.body) == 1 and _fails(statement.body[0]):
        # `if wrong: fail()` asserts that nothing is wrong.
        _record(demands(ast.UnaryOp(ast.Not(), statement.test)), statement.lineno, place, collected)
        return
    if known is not False:
        _block(statement.body, place if known else place.under(plain_condition(statement.test)), collected)
    if known is not True:
        otherwise = place.under(plain_condition(statement.test, negated=True))
        _block(statement.orelse, place if known is False else otherwise, collected)


def _try(statement: ast.Try | ast.TryStar, place: StatementContext, collected: FunctionFlow) -> Binding | None:
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
    body, orelse = _must_raise(statement, place, collected)
    inner = _block(body, place._replace(swallowed=swallows) if swallows else place, collected)
    after = place._replace(values=inner.values)
    for handler in statement.handlers:
        raised = f"{ast.unparse(handler.type) if handler.type else 'anything'} is raised"
        _block(handler.body, place.forgetting(statement.body).under(raised), collected)
        after = after.forgetting(handler.body)
    after = after._replace(values=_block(orelse, after, collected).values)
    return _block(statement.finalbody, after, collected).values


def _must_raise(
    statement: ast.Try | ast.TryStar, place: StatementContext, collected: FunctionFlow
) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Read `try: work() ... except E: pass, else: fail()` as `raises(E)`; return both blocks without `fail`."""
    body, orelse = statement.body, statement.orelse
    kinds = [handler.type for handler in statement.handlers if handler.type]
    if len(kinds) != 1 or not (_fails(body[-1]) or any(_fails(part) for part in orelse)):
        return body, orelse
    expected = ast.Call(ast.Name("raises", ast.Load()), [kinds[0]], [])
    body = body[:-1] if _fails(body[-1]) else body
    _record(iter([Demand("raises", expected, tuple(body))]), statement.lineno, place, collected)
    return body, [part for part in orelse if not _fails(part)]


def _swallows(handler: ast.ExceptHandler) -> bool:
    broad = handler.type is None or bool(_BROAD & {last_name(node) for node in _types(handler.type)})
    inner = walked(handler.body)
    reacts = inner.checks or any(isinstance(node, ast.Raise) for part in handler.body for node in ast.walk(part))
    return broad and not reacts


def _types(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _with(statement: ast.With | ast.AsyncWith, place: StatementContext, collected: FunctionFlow) -> Binding | None:
    inner = place
    for item in statement.items:
        call = item.context_expr
        _expression(call, statement.lineno, inner, collected, inside=tuple(statement.body))
        if isinstance(call, ast.Call) and last_name(call.func) == "suppress":
            inner = inner._replace(swallowed=", ".join(ast.unparse(argument) for argument in call.args) or "nothing")
        elif isinstance(call, ast.Call) and expects_raise(call) and call.args and last_name(call.args[0]) in _BROAD:
            inner = inner._replace(swallowed=last_name(call.args[0]))
        if isinstance(call, ast.Call) and not expects_raise(call) and last_name(call.func) not in _PLAIN_CONTEXTS:
            inner = inner._replace(within=(*inner.within, call))
        if item.optional_vars is not None:
            inner = _assigned(item.optional_vars, _entered(call, statement.body), inner)
    # Code after the raise in the same block never runs, but assertions there are rare and not meant to.
    return _block(statement.body, inner, collected).values


def _entered(context: ast.expr, body: list[ast.stmt]) -> ast.expr:
    """Return the value of `as`: what is recorded, opened or captured depends on what runs inside."""
    if expects_raise(context):
        return context
    run = [part.value for part in body if isinstance(part, ast.Expr | ast.Assign)]
    return ast.Call(ast.Name("within", ast.Load()), [context, *run], [])


def _expression(
    node: object,
    line: int,
    place: StatementContext,
    collected: FunctionFlow,
    *,
    inside: tuple[ast.stmt, ...] = (),
    asserted: bool = False,
) -> None:
    """Record calls that assert or skip at any depth: `excinfo = pytest.raises(...)`, `a.assert_called() or b`."""
    if not isinstance(node, ast.AST):
        return
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            collected.calls.append(HelperCall(inner, place))
            if not asserted:
                _skipping(inner, place, collected)
                made = (demand._replace(inside=demand.inside or inside) for demand in called(inner))
                _record(made, getattr(inner, "lineno", line), place, collected)


def _skipping(call: ast.Call, place: StatementContext, collected: FunctionFlow) -> None:
    name = last_name(call.func)
    spelled = ast.unparse(call.func)
    if (
        name in _SKIPS
        and spelled.split(".", maxsplit=1)[0] in {"pytest", "self", "unittest", name}
        and spelled != "exit"
    ):
        needed = (f"{ast.unparse(call)} finds nothing",) if name == "importorskip" else ()
        kind: Literal["skip", "xfail"] = "xfail" if name == "xfail" else "skip"
        collected.skips.append(Skip(call.lineno, ast.unparse(call), (*place.conditions, *needed), kind))


def _record(made: Iterator[Demand], line: int, place: StatementContext, collected: FunctionFlow) -> None:
    for kind, node, inside in made:
        text = ast.unparse(ast.fix_missing_locations(node))
        collected.checks.append(Assertion(kind, text, node, line, *place[:4], inside, place.within))


__all__ = ["FunctionFlow", "HelperCall", "Skip", "StatementContext", "constant", "expects_raise", "walked"]
