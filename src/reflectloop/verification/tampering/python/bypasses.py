"""Find tricks that keep a test's assertions but bypass the code under test."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping

from reflectloop.verification.tampering.python.checks import expects_raise, last_name
from reflectloop.verification.tampering.python.suite import SuiteFunction
from reflectloop.verification.tampering.python.verdict import LocatedVerdict, TamperVerdict

_MOCKS = frozenset({"unittest", "mock", "pytest_mock"})
_LEAST = 2
_REGISTRIES = ("globals()", "sys.modules", "builtins.", "vars()")


def in_test(old: SuiteFunction, new: SuiteFunction) -> Iterator[LocatedVerdict]:
    """Yield the tricks in one test."""
    called = _called(old.node) & _called(new.node)
    for name, line in sorted(_bound(new.node).items() - _bound(old.node).items()):
        if name in called and name not in _bound(old.node):
            yield LocatedVerdict(line, TamperVerdict("code-mocked", f"it calls `{name}` but sets that name itself"))
    asserted = {part.id for check in new.checks for part in ast.walk(check.node) if isinstance(part, ast.Name)}
    arguments = asserted & {argument.arg for argument in old.node.args.args}
    for name in sorted(arguments & _assigned(new.node) - _assigned(old.node)):
        message = f"it sets `{name}`, which is an argument"
        yield LocatedVerdict(new.line, TamperVerdict("expected-computed", message, "suspect"))
    if _raises_itself(new.node) > _raises_itself(old.node):
        message = "it raises the exception itself that the code under test should raise"
        yield LocatedVerdict(new.line, TamperVerdict("raises-itself", message))
    yield from _kind(old, new)


def _kind(old: SuiteFunction, new: SuiteFunction) -> Iterator[LocatedVerdict]:
    """Yield a plain test turned into something a runner may not run."""
    if not new.collected:
        return
    run = new.marked_async or old.near_async
    if isinstance(new.node, ast.AsyncFunctionDef) and isinstance(old.node, ast.FunctionDef) and not run:
        message = "it is now async; without a plugin it does not run"
        # unittest calls such a method and takes the coroutine, which nobody awaits, for a pass
        method = [argument.arg for argument in new.node.args.args][:1] == ["self"]
        verdict = TamperVerdict("test-uncollected", message, "weakening" if method else "suspect")
        yield LocatedVerdict(new.line, verdict)
    if _yields(new.node) and not _yields(old.node):
        yield LocatedVerdict(
            new.line, TamperVerdict("test-uncollected", "it is now a generator, and does not run as a test")
        )


def _yields(node: ast.AST) -> bool:
    inner = [part for part in ast.walk(node) if isinstance(part, ast.FunctionDef | ast.Lambda | ast.AsyncFunctionDef)]
    nested = {id(deep) for part in inner if part is not node for deep in ast.walk(part)}
    return any(isinstance(part, ast.Yield | ast.YieldFrom) and id(part) not in nested for part in ast.walk(node))


def _called(node: ast.AST) -> set[str]:
    return {part.func.id for part in ast.walk(node) if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)}


def _assigned(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _bound(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, int]:
    """Return the names the function defines itself: set, defined or imported inside, or arguments with a default."""
    names = dict.fromkeys(_assigned(node), node.lineno)
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.ClassDef) and part is not node:
            names[part.name] = node.lineno
    arguments = node.args.args
    names.update({part.arg: node.lineno for part in arguments[len(arguments) - len(node.args.defaults) :]})
    return names


def _raises_itself(node: ast.AST) -> int:
    blocks = [part for part in ast.walk(node) if isinstance(part, ast.With | ast.AsyncWith)]
    expecting = [part for part in blocks if any(expects_raise(item.context_expr) for item in part.items)]
    inner = {id(part) for block in expecting for part in _run_inside(block)}
    return sum(isinstance(part, ast.Raise) and id(part) in inner for part in ast.walk(node))


def _run_inside(block: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a block that run with it: not those of functions and classes defined inside."""
    for part in ast.iter_child_nodes(block):
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield part
            yield from _run_inside(part)


def in_file(old: ast.Module, new: ast.Module) -> Iterator[LocatedVerdict]:
    """Yield the tricks at file level."""
    before, after = _imported(old), _imported(new)
    defined = {
        ast.unparse(target): statement.lineno
        for statement in new.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
    }
    defined |= {
        statement.name: statement.lineno
        for statement in new.body
        if isinstance(statement, ast.FunctionDef | ast.ClassDef)
    }
    for name in sorted(before.keys() - after.keys() & defined.keys()):
        if name in defined:
            yield LocatedVerdict(
                defined[name],
                TamperVerdict("code-mocked", f"`{name}` was imported and is now defined by the test file"),
            )
    for name in sorted(before.keys() & after.keys()):
        if after[name].partition(".")[0] in _MOCKS and before[name].partition(".")[0] not in _MOCKS:
            yield LocatedVerdict(1, TamperVerdict("code-mocked", f"`{name}` now comes from {after[name]}"))
    if "*" in after and after["*"] != before.get("*"):
        message = f"everything is imported from {after['*']}, which may replace any name"
        yield LocatedVerdict(1, TamperVerdict("code-mocked", message, "suspect"))
    yield from _loaded(old, new)


def _imported(module: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for statement in module.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            source = getattr(statement, "module", None) or "."
            names.update({name.asname or name.name: f"{source}.{name.name}" for name in statement.names})
    return names


def _loaded(old: ast.Module, new: ast.Module) -> Iterator[LocatedVerdict]:
    """Yield statements that change the file's data or the interpreter when the file is loaded."""
    known = {ast.unparse(node) for node in old.body}
    data = {ast.unparse(node.targets[0]) for node in new.body if isinstance(node, ast.Assign)}
    for statement in new.body:
        text = ast.unparse(statement)
        if text in known:
            continue
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and last_name(call.func.value) in data:
            yield LocatedVerdict(
                statement.lineno,
                TamperVerdict("data-cut", f"`{text[:60]}` changes the data that tests run over", "suspect"),
            )
        elif text.startswith((*_REGISTRIES, "setattr(", "del ")):
            message = f"`{text[:60]}` changes names when the file is loaded"
            yield LocatedVerdict(statement.lineno, TamperVerdict("code-mocked", message, "suspect"))


def cut(old: ast.Module, new: ast.Module) -> Iterator[LocatedVerdict]:
    """Yield top-level lists and tables that lost entries, except those used by parametrisations."""
    before, after = _written(old), _written(new)
    changed = {name for name in before.keys() & after.keys() if _entries(before[name]) != _entries(after[name])}
    for name in sorted(before.keys() & top_values(new).keys() - after.keys()):
        message = f"`{name}` was a literal and is now computed: `{ast.unparse(top_values(new)[name])[:60]}`"
        yield LocatedVerdict(top_values(new)[name].lineno, TamperVerdict("data-cut", message, "suspect"))
    used = {ast.unparse(table) for table in (*_parametrised(old), *_parametrised(new))} if changed else set()
    for name in changed - used:
        removed = Counter(_entries(before[name])) - Counter(_entries(after[name]))
        new_entries = Counter(_entries(after[name])) - Counter(_entries(before[name]))
        missing = removed.total() - new_entries.total()
        if missing > 0 and len(_entries(before[name])) >= _LEAST:
            message = f"`{name}` lost {missing} entries, for example `{next(iter(removed))[:60]}`"
            yield LocatedVerdict(after[name].lineno, TamperVerdict("data-cut", message))


def top_values(module: ast.Module) -> Mapping[str, ast.expr]:
    """Return every name the file sets at top level, with its value."""
    values: dict[str, ast.expr] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            values[ast.unparse(target)] = statement.value
    return values


def replaced(old: ast.Module, new: ast.Module) -> Iterator[LocatedVerdict]:
    """Yield attributes of imported modules that the test file now sets when it is loaded."""
    imported = {
        (name.asname or name.name).partition(".")[0]
        for statement in new.body
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for name in statement.names
    }
    known = top_values(old)
    for target, value in top_values(new).items():
        if target not in known and "." in target and target.partition(".")[0] in imported:
            yield LocatedVerdict(
                value.lineno, TamperVerdict("code-mocked", f"the file sets `{target}` when it is loaded")
            )


def _written(module: ast.Module) -> Mapping[str, ast.expr]:
    known = {"__all__", "pytestmark"}
    return {
        name: value for name, value in top_values(module).items() if isinstance(value, _HOLDERS) and name not in known
    }


_HOLDERS = ast.List | ast.Tuple | ast.Set | ast.Dict


def _entries(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Dict):
        return [ast.unparse(key) if key else "**" for key in node.keys]
    return [ast.unparse(element) for element in getattr(node, "elts", [])]


def _parametrised(module: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("parametrize") and len(node.args) > 1:
            yield node.args[1]
