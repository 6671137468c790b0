"""Compare the public interface of Python modules before and after a change, without running them."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from reflectloop.verification import protected
from reflectloop.verification.result import ChangedFile

_ROOTS = ("src", "lib", "python")  # folders that are not part of a module's name
_NOT_IMPORTED_FOLDERS = frozenset(("docs", "doc", "examples", "scripts", "tools", "benchmarks", "bench"))
_NOT_IMPORTED_FILES = frozenset(("setup.py", "noxfile.py", "tasks.py", "fabfile.py", "manage.py"))


def breaking_changes(changes: Sequence[ChangedFile]) -> tuple[str, ...]:
    """Return the incompatible changes that callers would notice: removed names and changed parameters."""
    modules = {name: change for change in changes if (name := public_module(change.path))}
    parsed = {name: change for name, change in modules.items() if _readable(change)}
    if not any(change.before for change in parsed.values()):
        return ()
    return tuple(dict.fromkeys(text for name in parsed for text in _module_breaks(name, parsed)))


def additions(changes: Sequence[ChangedFile]) -> tuple[str, ...]:
    """Return what a change adds to the public interface: parameters, and functions that no other code of it uses.

    A function that the changed code calls was extracted, and one that another module had was moved.
    """
    modules = {name: change for change in changes if (name := public_module(change.path)) and _readable(change)}
    before = {name: _interface(change.before) for name, change in modules.items()}
    known = {item.rsplit(".", 1)[-1] for interface in before.values() for item in interface}
    out = []
    for name, change in modules.items():
        for item, parameters in _interface(change.after).items():
            old = before[name].get(item)
            if old is not None:
                out += [
                    f"{name}.{item}: new parameter ({parameter})" for parameter in parameters if parameter not in old
                ]
            elif item.rsplit(".", 1)[-1] not in known and not _is_used(item.rsplit(".", 1)[-1], modules):
                out.append(f"{name}.{item}: is new, and nothing in the change uses it")
    return tuple(out)


def _interface(source: bytes | None) -> dict[str, list[str]]:
    """Return the public functions and classes of a module, and the methods of those, with their parameters."""
    out: dict[str, list[str]] = {}
    for node in ast.parse(source or b"").body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            out[node.name] = _parameters(node)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            out[node.name] = []
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
            out |= {f"{node.name}.{item.name}": _parameters(item) for item in methods if not item.name.startswith("_")}
    return out


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    stars = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [argument.arg for argument in (*named, *stars)]


def _is_used(name: str, modules: dict[str, ChangedFile]) -> bool:
    """Return True if the changed code names a function or class besides defining it."""
    for change in modules.values():
        for node in ast.walk(ast.parse(change.after or b"")):
            if isinstance(node, ast.Name) and node.id == name:
                return True
            if isinstance(node, ast.Attribute) and node.attr == name:
                return True
            if isinstance(node, ast.alias) and node.name == name:
                return True
    return False


def public_module(path: str) -> str | None:
    """Return the dotted name of a public module that others can import, or None for any other file."""
    place = PurePosixPath(path)
    if place.suffix != ".py" or protected.is_test(path) or place.name in _NOT_IMPORTED_FILES:
        return None
    parts = [*place.parts[:-1], place.stem]
    if parts[0] in _ROOTS and len(parts) > 1:
        parts = parts[1:]
    if parts[0] in _NOT_IMPORTED_FOLDERS or any(part.startswith("_") and part != "__init__" for part in parts):
        return None
    return ".".join(part for part in parts if part != "__init__") or None


def _readable(change: ChangedFile) -> bool:
    """Return True if both versions parse; a file that does not parse is reported by the checks."""
    try:
        return all(ast.parse(side) is not None for side in (change.before, change.after) if side is not None)
    except (SyntaxError, ValueError, RecursionError):
        return False


def _module_breaks(name: str, modules: dict[str, ChangedFile]) -> Iterator[str]:
    change = modules[name]
    if change.before is None:
        return
    if change.after is None:
        if _public(_visit(name, change.before)):
            yield f"{name}: the module is gone"
        return
    # Imported here: it takes a quarter of a second to load, and only refactorings need it.
    import griffe  # noqa: PLC0415

    old, new = _visit(name, change.before), _visit(name, change.after)
    level = logging.getLogger("griffe").level
    logging.getLogger("griffe").setLevel(
        logging.CRITICAL
    )  # it logs names that it cannot resolve; those are handled below
    try:
        for breakage in griffe.find_breaking_changes(old, new):
            if not _reexported(breakage, new):
                yield _describe(name, breakage)
    finally:
        logging.getLogger("griffe").setLevel(level)


def _visit(name: str, source: bytes) -> Any:  # noqa: ANN401 - griffe's module
    from pathlib import Path  # noqa: PLC0415

    import griffe  # noqa: PLC0415

    return griffe.visit(
        name.rsplit(".", 1)[-1], Path(f"{name.replace('.', '/')}.py"), source.decode("utf-8", "replace")
    )


def _public(visited: Any) -> bool:  # noqa: ANN401
    return any(member.is_public and not member.is_alias for member in visited.members.values())


def _reexported(breakage: Any, new: Any) -> bool:  # noqa: ANN401
    """Return True if a name was moved and is imported back, so its callers still find it."""
    top = breakage.obj.path.split(".")[1:2]
    member = new.members.get(top[0]) if top else None
    return member is not None and member.is_alias


def _describe(name: str, breakage: Any) -> str:  # noqa: ANN401
    kind = str(breakage.kind.value).lower()
    inner = breakage.obj.path.partition(".")[2] or breakage.obj.path
    parameter = next((value.name for value in (breakage.new_value, breakage.old_value) if hasattr(value, "name")), "")
    return f"{name}.{inner}: {kind}" + (
        f" ({parameter})" if parameter and parameter != inner.rsplit(".", 1)[-1] else ""
    )
