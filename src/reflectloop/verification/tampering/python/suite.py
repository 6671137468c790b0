"""Read a Python test file into its tests, their marks and the functions they use."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from reflectloop.verification.protected.fixtures import Function, is_fixture, parsed
from reflectloop.verification.tampering.python.checks import Assertion
from reflectloop.verification.tampering.python.flow import Skip, constant, walked

_SKIP_MARKS = frozenset(("skip", "skipif", "skipIf", "skipUnless", "xfail", "expectedFailure", "skip_if", "xfailif"))


class SuiteFunction(NamedTuple):
    """A function in a test file: a test if `collected`, otherwise support code."""

    path: str
    name: str  # dotted, with its classes
    line: int
    node: Function
    collected: bool
    marks: tuple[Skip, ...]
    checks: tuple[Assertion, ...]
    body: str  # without docstring, annotations and decorators
    conditions: tuple[str, ...] = ()


class Suite(NamedTuple):
    """The tests and support functions of one file."""

    path: str
    module: ast.Module
    cases: tuple[SuiteFunction, ...]
    marks: tuple[Skip, ...]  # on the file as a whole

    @property
    def tests(self) -> list[SuiteFunction]:
        return [case for case in self.cases if case.collected]


class _Around(NamedTuple):
    """The classes and conditions around a definition."""

    path: str
    names: tuple[str, ...] = ()
    marks: tuple[Skip, ...] = ()
    collected: bool = True
    conditions: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def read(path: str, data: bytes | None) -> Suite | None:
    """Return the file's tests, or None if Python cannot parse it."""
    module = parsed(data)
    if module is None:
        return None
    try:
        overwritten = _overwritten(module)
        last = _last_of_each(list(_defined(module.body, _Around(path), _bases(module))))
        cases = tuple(case._replace(collected=case.collected and case.name not in overwritten) for case in last)
        return Suite(path, module, cases, tuple(_file_marks(module)))
    except RecursionError:
        return None


def _last_of_each(cases: Sequence[SuiteFunction]) -> Iterator[SuiteFunction]:
    """Yield the last definition of each name, which replaces earlier ones."""
    last = {case.name: case for case in cases}
    yield from (case for case in cases if last[case.name] is case)


def _overwritten(module: ast.Module) -> frozenset[str]:
    """Return names that are set or deleted after their definition: `test_a = None`, `del TestB.test_c`."""
    targets = [
        target
        for statement in module.body
        if isinstance(statement, ast.Assign | ast.Delete)
        for target in statement.targets
    ]
    return frozenset(ast.unparse(target) for target in targets)


def _bases(module: ast.Module) -> frozenset[str]:
    classes = (class_node for class_node in ast.walk(module) if isinstance(class_node, ast.ClassDef))
    return frozenset(ast.unparse(base).rpartition(".")[2] for class_node in classes for base in class_node.bases)


def _defined(body: Sequence[ast.stmt], around: _Around, bases: frozenset[str]) -> Iterator[SuiteFunction]:
    for statement in body:
        if isinstance(statement, Function):
            yield _case(statement, around)
        elif isinstance(statement, ast.ClassDef):
            yield from _defined(statement.body, _inside(statement, around, bases), bases)
        elif isinstance(statement, ast.If):
            if constant(statement.test) is not False:
                condition = ast.unparse(statement.test)
                yield from _defined(statement.body, around._replace(conditions=(*around.conditions, condition)), bases)
            yield from _defined(statement.orelse, around, bases)
        elif isinstance(statement, ast.Try | ast.With):
            yield from _defined([*statement.body, *getattr(statement, "orelse", [])], around, bases)


def _inside(node: ast.ClassDef, around: _Around, bases: frozenset[str]) -> _Around:
    marks = (*_decorator_marks(node.decorator_list), *_file_marks(node))
    collectable = node.name.startswith("Test") or bool(node.bases) or node.name in bases or "Test" in node.name
    # pytest does not collect a class that has a constructor.
    constructed = not node.bases and any(
        isinstance(member, Function) and member.name == "__init__" for member in node.body
    )
    collected = around.collected and collectable and not constructed and not _not_a_test(node.body)
    return around._replace(names=(*around.names, node.name), marks=(*around.marks, *marks), collected=collected)


def _not_a_test(body: Sequence[ast.stmt]) -> bool:
    return any(
        isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == "__test__"
        and constant(statement.value) is False
        for statement in body
    )


def _case(node: Function, around: _Around) -> SuiteFunction:
    collected = walked(node.body)
    fixture = any(
        is_fixture(decorator) or decorator == "property" for decorator in map(ast.unparse, node.decorator_list)
    )
    return SuiteFunction(
        path=around.path,
        name=".".join((*around.names, node.name)),
        line=node.lineno,
        node=node,
        collected=around.collected and node.name.startswith("test") and not fixture,
        marks=(*around.marks, *_decorator_marks(node.decorator_list), *collected.skips),
        checks=tuple(collected.checks),
        body=bare(node),
        conditions=around.conditions,
    )


def bare(node: Function) -> str:
    """Return the source of a function's body, without docstrings, annotations and decorators."""
    statements = [
        statement
        for statement in node.body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]
    return "\n".join(ast.unparse(_unannotated(statement)) for statement in statements)


def _unannotated(statement: ast.stmt) -> ast.stmt:
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return ast.Assign([statement.target], statement.value, lineno=statement.lineno)
    return statement


def _decorator_marks(decorators: Sequence[ast.expr]) -> Iterator[Skip]:
    for decorator in decorators:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(called).rpartition(".")[2] in _SKIP_MARKS:
            yield Skip(decorator.lineno, f"@{ast.unparse(decorator)}"[:100])


def _file_marks(node: ast.Module | ast.ClassDef) -> Iterator[Skip]:
    """Yield `pytestmark` marks, and what skips a module when it is imported."""
    for statement in node.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark":
            yield from _marks_within(statement.value)
        elif isinstance(statement, ast.Assign) and _not_a_test([statement]):
            yield Skip(statement.lineno, "__test__ = False")
    if isinstance(node, ast.Module):
        loose = [member for member in node.body if not isinstance(member, Function | ast.ClassDef)]
        yield from walked(loose).skips
        yield from _exits(loose)


def _exits(loose: Sequence[ast.stmt]) -> Iterator[Skip]:
    plain = [part for part in loose if not (isinstance(part, ast.If) and "__main__" in ast.unparse(part.test))]
    for node in (part for statement in plain for part in ast.walk(statement)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"sys.exit", "os._exit", "exit", "quit"}:
            yield Skip(node.lineno, f"{ast.unparse(node)} when the file is loaded")


def _marks_within(value: ast.expr) -> Iterator[Skip]:
    for node in ast.walk(value):
        if isinstance(node, ast.Attribute) and node.attr in _SKIP_MARKS:
            yield Skip(node.lineno, f"pytestmark = {ast.unparse(value)}"[:100])
