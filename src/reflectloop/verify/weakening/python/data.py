"""Compares the data written out in a test file."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping

from reflectloop.verify.weakening.python.verdict import Said, Verdict

_LEAST = 2


def cut(old: ast.Module, new: ast.Module) -> Iterator[Said]:
    """Lists and tables at the top of the file that lost entries; those of parametrisations are looked at there."""
    before, after = _written(old), _written(new)
    changed = {name for name in before.keys() & after.keys() if _entries(before[name]) != _entries(after[name])}
    for name in sorted(before.keys() & top_values(new).keys() - after.keys()):
        words = f"`{name}` was written out and is computed now: `{ast.unparse(top_values(new)[name])[:60]}`"
        yield Said(top_values(new)[name].lineno, Verdict("data-cut", words, "suspect"))
    used = {ast.unparse(each) for each in (*_parametrised(old), *_parametrised(new))} if changed else set()
    for name in changed - used:
        gone = Counter(_entries(before[name])) - Counter(_entries(after[name]))
        come = Counter(_entries(after[name])) - Counter(_entries(before[name]))
        missing = gone.total() - come.total()
        if missing > 0 and len(_entries(before[name])) >= _LEAST:
            words = f"`{name}` has {missing} entries fewer, among the old ones `{next(iter(gone))[:60]}`"
            yield Said(after[name].lineno, Verdict("data-cut", words))


def top_values(module: ast.Module) -> Mapping[str, ast.expr]:
    """Every name the file sets at its top, and to what."""
    found: dict[str, ast.expr] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            found[ast.unparse(target)] = statement.value
    return found


def replaced(old: ast.Module, new: ast.Module) -> Iterator[Said]:
    """Parts of imported modules that the test file now sets when it is loaded."""
    imported = {
        (name.asname or name.name).partition(".")[0]
        for statement in new.body
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for name in statement.names
    }
    known = top_values(old)
    for target, value in top_values(new).items():
        if target not in known and "." in target and target.partition(".")[0] in imported:
            yield Said(value.lineno, Verdict("code-mocked", f"the file sets `{target}` when it is loaded"))


def _written(module: ast.Module) -> Mapping[str, ast.expr]:
    known = {"__all__", "pytestmark"}
    return {name: each for name, each in top_values(module).items() if isinstance(each, _HOLDERS) and name not in known}


_HOLDERS = ast.List | ast.Tuple | ast.Set | ast.Dict


def _entries(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Dict):
        return [ast.unparse(key) if key else "**" for key in node.keys]
    return [ast.unparse(each) for each in getattr(node, "elts", [])]


def _parametrised(module: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("parametrize") and len(node.args) > 1:
            yield node.args[1]
