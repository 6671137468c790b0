"""Find names that a test file imports from the project and that only ask about the platform: `WIN`, `IS_JYTHON`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.tampering.python.values import asks_about_the_machine

Versions = Callable[[str], Sequence[bytes]]  # the versions of a source: of base and of the patch, if it differs
_ROOTS = ("", "src/", "lib/", "python/")


def no_versions(_path: str) -> Sequence[bytes]:
    return ()


def with_platform_names(module: ast.Module, versions: Versions) -> ast.Module:
    """Return the module with such names set at its top, as if it had defined them itself."""
    assignments = list(_assignments(module, versions))
    return ast.Module([*assignments, *module.body], module.type_ignores) if assignments else module


def _assignments(module: ast.Module, versions: Versions) -> Iterator[ast.stmt]:
    for statement in module.body:
        if not isinstance(statement, ast.ImportFrom) or statement.level or not statement.module:
            continue
        for alias in statement.names:
            if alias.name.isupper() and (value := _value(statement.module, alias.name, versions)):
                name = ast.Name(alias.asname or alias.name, ast.Store())
                yield ast.fix_missing_locations(ast.copy_location(ast.Assign([name], value), statement))


def _value(module: str, name: str, versions: Versions) -> ast.expr | None:
    """Return the value of a name, if all versions of its module say the same, and it asks only for the platform."""
    path = module.replace(".", "/")
    for root in _ROOTS:
        texts = versions(f"{root}{path}.py") or versions(f"{root}{path}/__init__.py")
        if texts:
            values = [_set_in(parsed(text), name) for text in texts]
            same = len({ast.unparse(value) if value else "" for value in values}) == 1
            return values[0] if same and values[0] and asks_about_the_machine(values[0]) else None
    return None


def _set_in(module: ast.Module | None, name: str) -> ast.expr | None:
    """Return the only value that the module gives to the name, or None."""
    if module is None:
        return None
    names = [node for node in ast.walk(module) if isinstance(node, ast.Name) and node.id == name]
    stored = [node for node in names if not isinstance(node.ctx, ast.Load)]
    values = [
        part.value
        for part in module.body
        if isinstance(part, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in part.targets)
    ]
    return values[0] if len(values) == len(stored) == 1 else None
