"""Parse Python that is newer than the engine's own, with another interpreter that is installed."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from reflectloop.errors import ReflectloopError
from reflectloop.system import process

_VERSIONS = ("3.15", "3.14", "3.13", "3.12")
_TIMEOUT_S = 20.0
_LARGEST = 256 << 20  # bytes of a tree as JSON
# Runs in the other interpreter: reads a source, writes its syntax tree.
_PROGRAM = """
import ast, json, sys
sys.setrecursionlimit(20000)
def plain(value):
    if isinstance(value, ast.AST):
        row = {"_": type(value).__name__}
        for name in value._fields + ("lineno", "end_lineno", "col_offset", "end_col_offset"):
            if hasattr(value, name):
                row[name] = plain(getattr(value, name))
        return row
    if isinstance(value, list):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return {"$": "int", "v": hex(value)}
    if isinstance(value, bytes):
        return {"$": "bytes", "v": value.decode("latin-1")}
    if value is Ellipsis:
        return {"$": "..."}
    return {"$": type(value).__name__, "v": repr(value)}
json.dump(plain(ast.parse(sys.stdin.buffer.read())), sys.stdout)
"""


def newer_reader(root: Path, caller: Mapping[str, str]) -> Callable[[bytes], ast.Module | None]:
    """Return a parser that tries the project's Python, then newer ones on PATH."""
    places: list[str] | None = None

    @lru_cache(maxsize=64)
    def read(data: bytes) -> ast.Module | None:
        nonlocal places
        places = list(dict.fromkeys(_interpreters(root, caller))) if places is None else places
        return next((tree for python in places if (tree := _parsed(python, data)) is not None), None)

    return read


def _interpreters(root: Path, caller: Mapping[str, str]) -> Iterator[str]:
    """Yield interpreters that are not part of the project: a program of the project is not started here."""
    inside = os.path.realpath(root)
    for place in map(os.path.realpath, _places(root, caller)):
        if os.access(place, os.X_OK) and not Path(place).is_relative_to(inside):
            yield place


def _places(root: Path, caller: Mapping[str, str]) -> Iterator[str]:
    yield from (os.fspath(root / folder / "bin" / "python") for folder in (".venv", "venv"))
    path = caller.get("PATH", os.defpath)
    yield from (place for version in _VERSIONS if (place := process.find(f"python{version}", path=path, cwd=Path("/"))))
    home = Path(caller.get("PYENV_ROOT") or Path(caller.get("HOME", "/nonexistent"), ".pyenv"))
    for version in _VERSIONS:
        yield from map(os.fspath, sorted(home.glob(f"versions/{version}.*/bin/python3"), reverse=True))


def _parsed(python: str, data: bytes) -> ast.Module | None:
    try:
        command = [python, "-I", "-S", "-c", _PROGRAM]
        done = process.capture(command, cwd=Path("/"), env={}, stdin=data, timeout_s=_TIMEOUT_S)
        if done.code or len(done.stdout) > _LARGEST:
            return None
        tree = _rebuilt(json.loads(done.stdout))
    except (ReflectloopError, OSError, ValueError, TypeError, RecursionError):
        return None
    return tree if isinstance(tree, ast.Module) else None


_CONSTANTS: dict[str, Callable[[str], Any]] = {
    "int": lambda text: int(text, 16),
    "bytes": lambda text: text.encode("latin-1"),
    "float": float,
    "complex": complex,
}
_PLACE = ("lineno", "end_lineno", "col_offset", "end_col_offset")
_EQUAL_NODES = {"TemplateStr": "JoinedStr", "Interpolation": "FormattedValue"}


def _rebuilt(value: Any) -> Any:  # noqa: ANN401 - any part of a tree
    if isinstance(value, list):
        return [_rebuilt(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$" in value:
        return ... if value["$"] == "..." else _CONSTANTS[value["$"]](value["v"])
    return _node(value)


def _node(row: dict[str, Any]) -> ast.AST:
    """Return the node, one that this Python lacks as the nearest one that it has."""
    kind = _EQUAL_NODES.get(row["_"], row["_"])
    fields = {name: _rebuilt(part) for name, part in row.items() if name not in ("_", "type_params")}
    parameters = row.get("type_params") or ()
    bounds = [_rebuilt(part) for each in parameters for part in each.values() if isinstance(part, dict)]
    if kind == "TypeAlias":
        kind, fields["targets"] = "Assign", [fields.pop("name")]
    elif "decorator_list" in fields:
        fields["decorator_list"] += [part for part in bounds if isinstance(part, ast.expr)]
    known = getattr(ast, kind, None)
    if not (isinstance(known, type) and issubclass(known, ast.AST)):
        parts = [part for part in fields.values() if isinstance(part, ast.expr)]
        known, fields = ast.Tuple, {**_place(fields), "elts": parts, "ctx": ast.Load()}
    return known(**{name: part for name, part in fields.items() if name in (*known._fields, *_PLACE)})


def _place(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in _PLACE if name in fields}
