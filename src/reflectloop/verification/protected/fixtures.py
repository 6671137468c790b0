"""Find what in a conftest.py goes beyond plain fixtures."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef


class NonFixtureCode(NamedTuple):
    """A new statement that does more than define a fixture."""

    line: int
    what: str
    grave: bool = True  # could force tests to pass; otherwise it affects them like any other change


@lru_cache(maxsize=64)
def parsed(data: bytes | None) -> ast.Module | None:
    """Return the parsed module, an empty one for no data, or None if Python cannot parse it.

    Callers share the module, so none may change it.
    """
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
    beyond = list(_beyond(added, old))
    lines = {statement.line for statement in beyond}
    return [*beyond, *(statement for statement in _lost(removed, new) if statement.line not in lines)]


def _top(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            yield statement


def _source(statement: ast.stmt) -> str:
    return ast.unparse(statement)


def _beyond(added: Iterable[ast.stmt], old: ast.Module) -> Iterator[NonFixtureCode]:
    functions = {each.name: each for each in old.body if isinstance(each, Function)}
    for statement in added:
        what = _reach(statement)
        before = functions.get(statement.name) if isinstance(statement, Function) else None
        if before and isinstance(statement, Function) and not before.name.startswith("pytest_"):
            if what and not (_reach(before) == what and _same_body(before, statement)):
                yield NonFixtureCode(statement.lineno, what)
        elif what and before is None:
            yield NonFixtureCode(statement.lineno, what)
        elif what and before and isinstance(statement, Function) and not _same_body(before, statement):
            yield NonFixtureCode(statement.lineno, f"changes the hook {statement.name}")


def _same_body(old: Function, new: Function) -> bool:
    """Return True if two versions of a hook do the same, whatever their annotations and comments."""
    before, after = ([ast.unparse(each) for each in _top(hook.body)] for hook in (old, new))
    return before == after and [each.arg for each in old.args.args] == [each.arg for each in new.args.args]


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
    if _imports_only(statement) or _declares(statement):
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
        return None if _only_reports(function) else f"defines the hook {function.name}"
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


def _only_reports(hook: Function) -> bool:
    """Return True for a hook that prints something, or declares options, markers and profiles and nothing else."""
    if hook.name in _REPORTING_HOOKS:
        return _dangerous_call(hook) is None and not hook.decorator_list and not _steers(hook.body, hook)
    return hook.name in {"pytest_configure", "pytest_addoption"} and all(
        _declares(each, hook) for each in _top(hook.body)
    )


def _steers(statements: Sequence[ast.AST], hook: Function) -> bool:
    """Return True if code sets or calls something of the runner, or gives what it got from it to other code."""
    arguments = {argument.arg for argument in (*hook.args.posonlyargs, *hook.args.args, *hook.args.kwonlyargs)}
    nodes = [node for statement in statements for node in ast.walk(statement)]
    read = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, ast.Name) and node.id in arguments and id(node) not in read:
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            root = ast.unparse(node.func).partition(".")[0]
            if root in arguments and node.func.attr not in _READS_OR_PRINTS:
                return True
    return False


def _declares(statement: ast.stmt, hook: Function | None = None) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or ast.unparse(call.func).rpartition(".")[2] not in _DECLARATIONS:
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return hook is None or not _steers(given, hook)


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
_REPORTING_HOOKS = frozenset(
    {"pytest_report_header", "pytest_terminal_summary", "pytest_report_collectionfinish", "pytest_html_report_title"}
)
_READS_OR_PRINTS = frozenset(
    {
        "getoption",
        "getini",
        "getvalue",
        "get",
        "getreports",
        "hasplugin",
        "has_plugin",
        "write",
        "write_line",
        "write_sep",
    }
    | {"line", "section", "ensure_newline", "keys", "values", "items", "relative_to", "joinpath"}
)
_DECLARATIONS = frozenset({"addinivalue_line", "addoption", "addini", "register_profile", "register_assert_rewrite"})
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
            # A changed hook is reported with the new statements, if it does something else now.
            if not statement.name.startswith("pytest_"):
                yield NonFixtureCode(names[statement.name], f"changes {statement.name}", grave=False)
        elif isinstance(statement, Function | ast.ClassDef):
            yield NonFixtureCode(statement.lineno, f"drops {statement.name}", grave=False)
        elif not isinstance(statement, ast.Import | ast.ImportFrom):
            yield NonFixtureCode(statement.lineno, f"drops `{_short(statement)}`", grave=False)


def _short(statement: ast.stmt) -> str:
    return ast.unparse(statement).splitlines()[0][:60]
