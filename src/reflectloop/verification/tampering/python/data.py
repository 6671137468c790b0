"""Compare the data written in a test file."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping

from reflectloop.verification.tampering.python.verdict import LocatedVerdict, TamperVerdict

_LEAST = 2


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
