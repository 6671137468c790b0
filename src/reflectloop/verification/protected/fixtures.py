"""Find what in a conftest.py goes beyond plain fixtures."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef


class NonFixtureCode(NamedTuple):
    """A new statement that does more than define a fixture."""

    line: int
    what: str
    grave: bool = True  # could force tests to pass; otherwise it affects them like any other change


def parsed(data: bytes | None) -> ast.Module | None:
    """Return the parsed module, an empty one for no data, or None if Python cannot parse it."""
    if data is None:
        return ast.Module(body=[], type_ignores=[])
    try:
        return _by_value(ast.parse(data))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _by_value(module: ast.Module) -> ast.Module:
    """Drop the `u` prefix of strings, since `u'a'` and `'a'` are the same value."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant):
            node.kind = None
    return module


def beyond_fixtures(before: bytes | None, after: bytes | None) -> list[NonFixtureCode]:
    """Return new top-level statements other than fixtures, imports and plain values."""
    old, new = parsed(before), parsed(after)
    if new is None or old is None:
        return [NonFixtureCode(1, "cannot be read as Python")]
    try:
        return _compared(old, new)
    except RecursionError:
        return [NonFixtureCode(1, "is nested too deeply to be read")]


def _compared(old: ast.Module, new: ast.Module) -> list[NonFixtureCode]:
    known = {_source(statement) for statement in _top(old.body)}
    current = {_source(statement) for statement in _top(new.body)}
    added = [statement for statement in _top(new.body) if _source(statement) not in known]
    removed = [statement for statement in _top(old.body) if _source(statement) not in current]
    beyond = list(_beyond(added))
    lines = {statement.line for statement in beyond}
    return [*beyond, *(statement for statement in _lost(removed, new) if statement.line not in lines)]


def _top(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            yield statement


def _source(statement: ast.stmt) -> str:
    return ast.unparse(statement)


def _beyond(added: Iterable[ast.stmt]) -> Iterator[NonFixtureCode]:
    for statement in added:
        what = _reach(statement)
        if what:
            yield NonFixtureCode(statement.lineno, what)


def _reach(statement: ast.stmt) -> str | None:
    """Return why a new statement is more than a fixture, or None."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return None if not _stars(statement) else "imports everything from another module"
    if isinstance(statement, Function):
        return _function(statement)
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return _assignment(statement)
    if isinstance(statement, ast.ClassDef):
        return (
            None
            if not _dangerous_call(statement)
            else f"defines {statement.name}, which calls {_dangerous_call(statement)}"
        )
    if _imports_only(statement):
        return None
    return f"runs `{_short(statement)}` when loaded"


def _imports_only(statement: ast.stmt) -> bool:
    """Return True for `if TYPE_CHECKING:` and `try:` blocks that contain only imports and plain values."""
    if not isinstance(statement, ast.If | ast.Try):
        return False
    handlers = statement.handlers if isinstance(statement, ast.Try) else []
    inner = [
        *statement.body,
        *statement.orelse,
        *(inner_statement for handler in handlers for inner_statement in handler.body),
    ]
    return all(
        isinstance(inner_statement, ast.Import | ast.ImportFrom | ast.Assign | ast.Pass)
        and not _reach_of(inner_statement)
        for inner_statement in inner
    )


def _reach_of(statement: ast.stmt) -> str | None:
    return None if isinstance(statement, ast.Pass) else _reach(statement)


def _stars(statement: ast.Import | ast.ImportFrom) -> bool:
    return any(alias.name == "*" for alias in statement.names)


def _function(function: Function) -> str | None:
    if function.name.startswith("pytest_"):
        return f"defines the hook {function.name}"
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    fixture = any(is_fixture(decorator) for decorator in decorators)
    if any("autouse=True" in decorator for decorator in decorators):
        return f"defines the fixture {function.name}, which applies to every test automatically"
    if any("hookimpl" in decorator or "hookspec" in decorator for decorator in decorators):
        return f"defines the hook {function.name}"
    if dangerous := _dangerous_call(function):
        return f"defines {function.name}, which calls {dangerous}"
    if fixture or all(decorator.partition("(")[0].rpartition(".")[2] in _PLAIN for decorator in decorators):
        return None
    return f"defines {function.name} under `@{decorators[0][:60]}`"


def is_fixture(decorator: str) -> bool:
    return decorator.partition("(")[0].rpartition(".")[2] in {"fixture", "yield_fixture"}


_DANGEROUS_CALLS = (
    "os._exit",
    "sys.exit",
    "pytest.skip",
    "pytest.xfail",
    "pytest.exit",
    "os.kill",
    "importlib.reload",
    "add_marker",
)
_RUNNER = ("pytest", "_pytest", "unittest", "pluggy")


_PLAIN = frozenset({"contextmanager", "asynccontextmanager", "cache", "lru_cache", "wraps", "overload", "dataclass"})


def _dangerous_call(definition: ast.stmt) -> str | None:
    """Return the first call or assignment in the definition that could force tests to pass, or None."""
    for node in ast.walk(definition):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(_DANGEROUS_CALLS):
            return ast.unparse(node.func)
        if isinstance(node, ast.Assign) and any(_belongs_to_runner(target) for target in node.targets):
            return ast.unparse(node.targets[0])
    return None


def _belongs_to_runner(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and ast.unparse(target).split(".")[0] in (
        *_RUNNER,
        "builtins",
        "sys",
        "os",
    )


def _assignment(statement: ast.Assign | ast.AnnAssign) -> str | None:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in targets:
        name = ast.unparse(target)
        if name in {"pytest_plugins", "collect_ignore", "collect_ignore_glob", "pytestmark", "__test__"}:
            return f"sets {name}"
        if not isinstance(target, ast.Name):
            return f"sets `{name}` when loaded"
    return None


def _lost(removed: Iterable[ast.stmt], new: ast.Module) -> Iterator[NonFixtureCode]:
    """Yield removed or changed fixtures and values, since they affect the tests that did not change."""
    names = {node.name: node.lineno for node in new.body if isinstance(node, Function | ast.ClassDef)}
    for statement in removed:
        if isinstance(statement, Function | ast.ClassDef) and statement.name in names:
            yield NonFixtureCode(
                names[statement.name], f"changes {statement.name}", grave=statement.name.startswith("pytest_")
            )
        elif isinstance(statement, Function | ast.ClassDef):
            yield NonFixtureCode(statement.lineno, f"drops {statement.name}", grave=False)
        elif not isinstance(statement, ast.Import | ast.ImportFrom):
            yield NonFixtureCode(statement.lineno, f"drops `{_short(statement)}`", grave=False)


def _short(statement: ast.stmt) -> str:
    return ast.unparse(statement).splitlines()[0][:60]
