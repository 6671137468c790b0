"""Checks the paths of a request by their text alone; links are checked when files are opened."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from reflectloop.system.patterns import lazy
from reflectloop.workspace.project import KEPT_OUT

_LONGEST_PATH, _LONGEST_NAME = 3000, 255  # bytes
_DRIVE = lazy(r"[A-Za-z]:")
# Reserved folders, also by their short names on other file systems.
_OURS = frozenset((".git", "git~1", ".reflectloop", "reflec~1"))
_NO_WIDTH = {"Cf", "Mn"}
_KEPT_OUT = tuple(tuple(path.split("/")) for path in KEPT_OUT)


def parts_of(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def fault_in(path: str) -> str | None:
    """Return why a path is not a valid path in the workspace, or None."""
    if not path:
        return "must not be empty"
    if any(unicodedata.category(char) == "Cc" for char in path):
        return "contains a control character"
    if path.startswith(("/", "~")):
        return "must be relative to the workspace"
    if "\\" in path or _DRIVE.match(path):
        return "must be written as in 'folder/file', without backslash or drive"
    return _fault_in_parts(parts_of(path))


def _fault_in_parts(parts: tuple[str, ...]) -> str | None:
    if ".." in parts:
        return "must not contain '..'"
    sizes = [len(part.encode("utf-8", "surrogatepass")) for part in parts]
    if sum(sizes) + len(sizes) > _LONGEST_PATH or any(size > _LONGEST_NAME for size in sizes):
        return "is too long for a path"
    plain = tuple(map(_plain, parts))
    ours = next((part for part, bare in zip(parts, plain, strict=True) if bare in _OURS), None)
    if ours is None and any(plain[: len(excluded)] == excluded for excluded in _KEPT_OUT):
        ours = "/".join(parts)
    return f"{ours!r} may not be read or written by a request" if ours is not None else None


def _plain(part: str) -> str:
    """Return a name in the form in which the most tolerant file system compares it."""
    visible = "".join(
        char for char in unicodedata.normalize("NFKD", part) if unicodedata.category(char) not in _NO_WIDTH
    )
    return visible.split(":")[0].rstrip(". ").casefold()


def is_reserved(name: str) -> bool:
    """Return True if a folder of this name is never listed."""
    return _plain(name) in _OURS


def folder_path(path: str) -> str:
    """Return a folder's path in its normal form, or raise ValueError."""
    fault = fault_in(path)
    if fault:
        raise ValueError(fault)
    return "/".join(parts_of(path)) or "."


def file_path(path: str) -> str:
    plain = folder_path(path)
    if plain == "." or path.endswith("/"):
        raise ValueError("must name a file, not a folder")
    return plain


def is_within(path: str, roots: Iterable[str]) -> bool:
    """Return True if a path is in one of the roots, compared by complete names: `srcs/a` is not in `src`."""
    parts = parts_of(path)
    return any(parts[: len(above)] == above for above in map(parts_of, roots))
