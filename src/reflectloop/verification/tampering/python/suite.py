"""Read a Python test file into its tests, their marks and the functions they use."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected.fixtures import Function, is_fixture, parsed
from reflectloop.verification.tampering.python.checks import Assertion, last_name
from reflectloop.verification.tampering.python.flow import HelperCall, Skip, constant, plain_condition, walked

_DOTTED = lazy(r"\w+(?:\.\w+)+\Z")
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
    calls: tuple[HelperCall, ...] = ()
    decorators: tuple[str, ...] = ()  # what each stands for, in order
    class_line: int = 0  # before the first line of its class and the decorators of it
    marked_async: bool = False  # a mark or a base class says that async tests run
    near_async: bool = False  # the file has other async tests


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
    module: ast.Module
    names: tuple[str, ...] = ()
    marks: tuple[Skip, ...] = ()
    collected: bool = True
    conditions: tuple[str, ...] = ()
    class_line: int = 0
    marked_async: bool = False
    near_async: bool = False


@lru_cache(maxsize=256)
def read(path: str, data: bytes | None) -> Suite | None:
    """Return the file's tests, or None if Python cannot parse it."""
    module = parsed(data)
    return None if module is None else suite_of(path, module)


def suite_of(path: str, module: ast.Module) -> Suite | None:
    """Return the tests of a parsed file, or None if it is nested too deeply."""
    try:
        overwritten = _overwritten(module)
        marks = tuple(_file_marks(module, module))
        around = _Around(
            path,
            module,
            marks=marks,
            marked_async=any(_asks_for_async(part) for part in module.body if _sets_marks(part)),
            near_async=any(isinstance(node, ast.AsyncFunctionDef) and _is_test(node) for node in ast.walk(module)),
        )
        last = _last_of_each(list(_defined(module.body, around, _bases(module))))
        cases = tuple(case._replace(collected=case.collected and case.name not in overwritten) for case in last)
        return Suite(path, module, cases, marks)
    except RecursionError:
        return None


def _is_test(node: ast.AsyncFunctionDef) -> bool:
    return node.name.startswith("test")


def _sets_marks(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"


def with_names(module: ast.Module, names: Mapping[str, str]) -> ast.Module:
    """Return a copy of the module in which some code has other names."""
    copied = copy.deepcopy(module)
    for node in ast.walk(copied):
        for field in ("id", "attr", "arg", "name"):
            word = getattr(node, field, None)
            if isinstance(word, str) and word in names:
                setattr(node, field, names[word])
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.match(node.value):
            node.value = ".".join(names.get(part, part) for part in node.value.split("."))
    return copied


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
    marks = (*_decorator_marks(node.decorator_list, around.module), *_file_marks(node, around.module))
    collectable = node.name.startswith("Test") or bool(node.bases) or node.name in bases or "Test" in node.name
    # pytest does not collect a class that has a constructor.
    constructed = not node.bases and any(
        isinstance(member, Function) and member.name == "__init__" for member in node.body
    )
    collected = around.collected and collectable and not constructed and not _not_a_test(node.body)
    above = min((decorator.lineno for decorator in node.decorator_list), default=node.lineno) - 1
    names = (*around.names, node.name)
    return around._replace(
        names=names,
        marks=(*around.marks, *marks),
        collected=collected,
        class_line=above,
        marked_async=around.marked_async or any(map(_asks_for_async, (*node.decorator_list, *node.bases))),
    )


def _asks_for_async(node: ast.AST) -> bool:
    """Return True for marks and base classes by which async tests run, as `pytest.mark.asyncio`."""
    return re.search(r"asyncio|anyio|trio|curio|gen_test|Async", ast.unparse(node)) is not None


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
        marks=(*around.marks, *_decorator_marks(node.decorator_list, around.module), *collected.skips),
        checks=tuple(collected.checks),
        body=bare(node),
        conditions=around.conditions,
        calls=tuple(collected.calls),
        decorators=tuple(ast.unparse(_by_name(decorator, around.module)) for decorator in node.decorator_list),
        class_line=around.class_line,
        marked_async=around.marked_async or any(map(_asks_for_async, node.decorator_list)),
        near_async=around.near_async,
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


def _decorator_marks(decorators: Sequence[ast.expr], module: ast.Module) -> Iterator[Skip]:
    for decorator in decorators:
        mark = _by_name(decorator, module)
        if (skip := _skip(mark, module)) is not None:
            yield skip._replace(line=decorator.lineno, what=f"@{ast.unparse(decorator)}")


def _by_name(mark: ast.expr, module: ast.Module) -> ast.expr:
    """Return the mark that a name of the module stands for, or the mark itself."""
    return _set_names(module).get(mark.id, mark) if isinstance(mark, ast.Name) else mark


@lru_cache(maxsize=64)
def _set_names(module: ast.Module) -> dict[str, ast.expr]:
    """Return the names that the module sets at top level, with their values."""
    return {
        target.id: statement.value
        for statement in module.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }


class _Named(ast.NodeTransformer):
    """Replaces names by the values that the module sets."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.get(node.id, node)


def _skip(mark: ast.expr, module: ast.Module) -> Skip | None:
    """Return the skip that a mark makes, with its condition, or None."""
    name = last_name(mark.func if isinstance(mark, ast.Call) else mark)
    if name not in _SKIP_MARKS:
        return None
    kind: Literal["skip", "xfail"] = "xfail" if name in {"xfail", "xfailif", "expectedFailure"} else "skip"
    condition = _condition(mark, name) if isinstance(mark, ast.Call) else None
    if condition is not None:
        condition = _Named(_set_names(module)).visit(copy.deepcopy(condition))
    conditions = () if condition is None else (plain_condition(condition, negated=name == "skipUnless"),)
    return Skip(mark.lineno, ast.unparse(mark), tuple(part for part in conditions if part != "True"), kind)


def _condition(mark: ast.Call, name: str) -> ast.expr | None:
    named = next((keyword.value for keyword in mark.keywords if keyword.arg == "condition"), None)
    takes_one = name not in {"skip", "expectedFailure"}
    return named or (mark.args[0] if mark.args and takes_one else None)


def _file_marks(node: ast.Module | ast.ClassDef, module: ast.Module) -> Iterator[Skip]:
    """Yield `pytestmark` marks, and what skips a module when it is imported."""
    for statement in node.body:
        if isinstance(statement, ast.Assign) and _sets_marks(statement):
            yield from _marks_within(statement.value, module)
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


def _marks_within(value: ast.expr, module: ast.Module) -> Iterator[Skip]:
    for mark in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
        if (skip := _skip(_by_name(mark, module), module)) is not None:
            yield skip._replace(line=mark.lineno, what=f"pytestmark = {ast.unparse(mark)}")
