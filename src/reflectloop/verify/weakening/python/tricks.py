"""Looks for ways to leave a test's assertions as they are and the code under test out of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from reflectloop.verify.weakening.python.checks import expects_raise, last_name
from reflectloop.verify.weakening.python.suite import Case
from reflectloop.verify.weakening.python.verdict import Said, Verdict

_MOCKS = frozenset({"unittest", "mock", "pytest_mock"})
_REGISTRIES = ("globals()", "sys.modules", "builtins.", "vars()")


def in_test(old: Case, new: Case) -> Iterator[Said]:
    called = _called(old.node) & _called(new.node)
    for name, line in sorted(_bound(new.node).items() - _bound(old.node).items()):
        if name in called and name not in _bound(old.node):
            yield Said(line, Verdict("code-mocked", f"{new.name} calls `{name}` but sets that name itself"))
    arguments = {each.arg for each in old.node.args.args}
    for name in sorted(arguments & _assigned(new.node) - _assigned(old.node)):
        words = f"{new.name} sets `{name}`, which was given to it"
        yield Said(new.line, Verdict("expected-computed", words, "suspect"))
    if _raises_itself(new.node) > _raises_itself(old.node):
        words = f"{new.name} raises by itself what the code under test should raise"
        yield Said(new.line, Verdict("raises-itself", words))
    yield from _kind(old, new)


def _kind(old: Case, new: Case) -> Iterator[Said]:
    """A plain test made into something a runner may not run."""
    if not new.collected:
        return
    if isinstance(new.node, ast.AsyncFunctionDef) and isinstance(old.node, ast.FunctionDef):
        words = f"{new.name} is async now; without a plugin it is not run"
        yield Said(new.line, Verdict("test-uncollected", words, "suspect"))
    if _yields(new.node) and not _yields(old.node):
        yield Said(new.line, Verdict("test-uncollected", f"{new.name} yields now, and is not run as a test"))


def _yields(node: ast.AST) -> bool:
    inner = [each for each in ast.walk(node) if isinstance(each, ast.FunctionDef | ast.Lambda | ast.AsyncFunctionDef)]
    theirs = {id(deep) for each in inner if each is not node for deep in ast.walk(each)}
    return any(isinstance(each, ast.Yield | ast.YieldFrom) and id(each) not in theirs for each in ast.walk(node))


def _called(node: ast.AST) -> set[str]:
    return {each.func.id for each in ast.walk(node) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)}


def _assigned(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _bound(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, int]:
    """Names the function makes itself: set, defined inside, imported inside, or given with a default."""
    found = dict.fromkeys(_assigned(node), node.lineno)
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.ClassDef) and each is not node:
            found[each.name] = node.lineno
    arguments = node.args.args
    found.update({each.arg: node.lineno for each in arguments[len(arguments) - len(node.args.defaults) :]})
    return found


def _raises_itself(node: ast.AST) -> int:
    blocks = [each for each in ast.walk(node) if isinstance(each, ast.With | ast.AsyncWith)]
    expecting = [each for each in blocks if any(expects_raise(item.context_expr) for item in each.items)]
    return sum(isinstance(each, ast.Raise) for block in expecting for each in block.body)


def in_file(old: ast.Module, new: ast.Module) -> Iterator[Said]:
    before, after = _imported(old), _imported(new)
    own = {
        ast.unparse(target): each.lineno for each in new.body if isinstance(each, ast.Assign) for target in each.targets
    }
    own |= {each.name: each.lineno for each in new.body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    for name in sorted(before.keys() - after.keys() & own.keys()):
        if name in own:
            yield Said(
                own[name], Verdict("code-mocked", f"`{name}` was imported and is now made by the test file itself")
            )
    for name in sorted(before.keys() & after.keys()):
        if after[name].partition(".")[0] in _MOCKS and before[name].partition(".")[0] not in _MOCKS:
            yield Said(1, Verdict("code-mocked", f"`{name}` now comes from {after[name]}"))
    if "*" in after and after["*"] != before.get("*"):
        words = f"everything is imported from {after['*']}, whatever names it takes"
        yield Said(1, Verdict("code-mocked", words, "suspect"))
    yield from _loaded(old, new)


def _imported(module: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement in module.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            source = getattr(statement, "module", None) or "."
            found.update({name.asname or name.name: f"{source}.{name.name}" for name in statement.names})
    return found


def _loaded(old: ast.Module, new: ast.Module) -> Iterator[Said]:
    """What the file does to its own data or to the interpreter when it is loaded."""
    known = {ast.unparse(each) for each in old.body}
    data = {ast.unparse(each.targets[0]) for each in new.body if isinstance(each, ast.Assign)}
    for statement in new.body:
        text = ast.unparse(statement)
        if text in known:
            continue
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and last_name(call.func.value) in data:
            yield Said(statement.lineno, Verdict("data-cut", f"`{text[:60]}` changes what tests run over", "suspect"))
        elif text.startswith((*_REGISTRIES, "setattr(", "del ")):
            words = f"`{text[:60]}` changes names when the file is loaded"
            yield Said(statement.lineno, Verdict("code-mocked", words, "suspect"))
