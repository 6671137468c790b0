"""Says what of a conftest.py goes beyond plain fixtures."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Beyond(NamedTuple):
    """A statement new in the file that does more than offer a fixture."""

    line: int
    what: str
    grave: bool = True  # could force success; else it only acts on tests as any change would


def parsed(data: bytes | None) -> ast.Module | None:
    """The module, or None where Python would not read it either."""
    if data is None:
        return ast.Module(body=[], type_ignores=[])
    try:
        return _by_value(ast.parse(data))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _by_value(module: ast.Module) -> ast.Module:
    """`u'a'` is the value that `'a'` is, and is spelled the same."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant):
            node.kind = None
    return module


def beyond_fixtures(before: bytes | None, after: bytes | None) -> list[Beyond]:
    """What the new version has at its top that the old one had not, other than fixtures, imports and plain values."""
    old, new = parsed(before), parsed(after)
    if new is None or old is None:
        return [Beyond(1, "cannot be read as Python")]
    try:
        return _compared(old, new)
    except RecursionError:
        return [Beyond(1, "is nested too deep to be read")]


def _compared(old: ast.Module, new: ast.Module) -> list[Beyond]:
    known = {_said(each) for each in _top(old.body)}
    kept = {_said(each) for each in _top(new.body)}
    added = [each for each in _top(new.body) if _said(each) not in known]
    removed = [each for each in _top(old.body) if _said(each) not in kept]
    beyond = list(_beyond(added))
    said = {each.line for each in beyond}
    return [*beyond, *(each for each in _lost(removed, new) if each.line not in said)]


def _top(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            yield statement


def _said(statement: ast.stmt) -> str:
    return ast.unparse(statement)


def _beyond(added: Iterable[ast.stmt]) -> Iterator[Beyond]:
    for statement in added:
        what = _reach(statement)
        if what:
            yield Beyond(statement.lineno, what)


def _reach(statement: ast.stmt) -> str | None:
    """Why a new statement is more than a fixture, or None where it is not."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return None if not _stars(statement) else "imports everything from another module"
    if isinstance(statement, Function):
        return _function(statement)
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return _assignment(statement)
    if isinstance(statement, ast.ClassDef):
        return None if not _deed(statement) else f"defines {statement.name}, which calls {_deed(statement)}"
    if _imports_only(statement):
        return None
    return f"runs `{_short(statement)}` when loaded"


def _imports_only(statement: ast.stmt) -> bool:
    """`if TYPE_CHECKING:` and `try:` around imports."""
    if not isinstance(statement, ast.If | ast.Try):
        return False
    handlers = statement.handlers if isinstance(statement, ast.Try) else []
    inner = [*statement.body, *statement.orelse, *(each for handler in handlers for each in handler.body)]
    return all(
        isinstance(each, ast.Import | ast.ImportFrom | ast.Assign | ast.Pass) and not _reach_of(each) for each in inner
    )


def _reach_of(statement: ast.stmt) -> str | None:
    return None if isinstance(statement, ast.Pass) else _reach(statement)


def _stars(statement: ast.Import | ast.ImportFrom) -> bool:
    return any(each.name == "*" for each in statement.names)


def _function(function: Function) -> str | None:
    if function.name.startswith("pytest_"):
        return f"defines the hook {function.name}"
    decorators = [ast.unparse(each) for each in function.decorator_list]
    fixture = any(is_fixture(each) for each in decorators)
    if any("autouse=True" in each for each in decorators):
        return f"defines the fixture {function.name}, which acts on every test by itself"
    if any("hookimpl" in each or "hookspec" in each for each in decorators):
        return f"defines the hook {function.name}"
    if deed := _deed(function):
        return f"defines {function.name}, which calls {deed}"
    if fixture or all(each.partition("(")[0].rpartition(".")[2] in _PLAIN for each in decorators):
        return None
    return f"defines {function.name} under `@{decorators[0][:60]}`"


def is_fixture(decorator: str) -> bool:
    return decorator.partition("(")[0].rpartition(".")[2] in {"fixture", "yield_fixture"}


_DEEDS = (
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


def _deed(definition: ast.stmt) -> str | None:
    for node in ast.walk(definition):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(_DEEDS):
            return ast.unparse(node.func)
        if isinstance(node, ast.Assign) and any(_of_runner(target) for target in node.targets):
            return ast.unparse(node.targets[0])
    return None


def _of_runner(target: ast.expr) -> bool:
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


def _lost(removed: Iterable[ast.stmt], new: ast.Module) -> Iterator[Beyond]:
    """A fixture, import or value that is gone or another one now acts on the tests that stay as they are."""
    names = {each.name: each.lineno for each in new.body if isinstance(each, Function | ast.ClassDef)}
    for statement in removed:
        if isinstance(statement, Function | ast.ClassDef) and statement.name in names:
            yield Beyond(names[statement.name], f"changes {statement.name}", grave=statement.name.startswith("pytest_"))
        elif isinstance(statement, Function | ast.ClassDef):
            yield Beyond(statement.lineno, f"drops {statement.name}", grave=False)
        elif not isinstance(statement, ast.Import | ast.ImportFrom):
            yield Beyond(statement.lineno, f"drops `{_short(statement)}`", grave=False)


def _short(statement: ast.stmt) -> str:
    return ast.unparse(statement).splitlines()[0][:60]
