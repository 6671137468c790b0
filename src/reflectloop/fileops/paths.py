"""Which paths a request may name, told by the text alone; links are looked at where files are opened."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from reflectloop.workspace.project import KEPT_OUT

_LONGEST_PATH, _LONGEST_NAME = 3000, 255  # bytes
_DRIVE = re.compile(r"[A-Za-z]:")
# Other file systems' names for the same folders: short names, streams, trailing dots and spaces.
_OURS = frozenset((".git", "git~1", ".reflectloop", "reflec~1"))
_NO_WIDTH = {"Cf", "Mn"}
_KEPT_OUT = tuple(tuple(path.split("/")) for path in KEPT_OUT)


def parts_of(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def fault_in(path: str) -> str | None:
    """Why a path cannot be one of the workspace's files or folders."""
    if not path:
        return "must not be empty"
    if any(unicodedata.category(char) == "Cc" for char in path):
        return "holds a control character"
    if path.startswith(("/", "~")):
        return "must be relative to the workspace"
    if "\\" in path or _DRIVE.match(path):
        return "must be written as in 'folder/file', without backslash or drive"
    return _fault_in_parts(parts_of(path))


def _fault_in_parts(parts: tuple[str, ...]) -> str | None:
    if ".." in parts:
        return "must not hold '..'"
    sizes = [len(part.encode("utf-8", "surrogatepass")) for part in parts]
    if sum(sizes) + len(sizes) > _LONGEST_PATH or any(size > _LONGEST_NAME for size in sizes):
        return "is too long for a path"
    plain = tuple(map(_plain, parts))
    ours = next((part for part, bare in zip(parts, plain, strict=True) if bare in _OURS), None)
    if ours is None and any(plain[: len(kept)] == kept for kept in _KEPT_OUT):
        ours = "/".join(parts)
    return f"{ours!r} is not a request's to read or write" if ours is not None else None


def _plain(part: str) -> str:
    """A name as the most forgiving file system would compare it."""
    seen = "".join(char for char in unicodedata.normalize("NFKD", part) if unicodedata.category(char) not in _NO_WIDTH)
    return seen.split(":")[0].rstrip(". ").casefold()


def is_hidden(name: str) -> bool:
    """Whether a folder of this name is never shown."""
    return _plain(name) in _OURS


def folder(path: str) -> str:
    """The same path in its plain form; ValueError says why it is none."""
    fault = fault_in(path)
    if fault:
        raise ValueError(fault)
    return "/".join(parts_of(path)) or "."


def file(path: str) -> str:
    plain = folder(path)
    if plain == "." or path.endswith("/"):
        raise ValueError("must name a file, not a folder")
    return plain


def is_within(path: str, roots: Iterable[str]) -> bool:
    """By whole names: `src` does not hold `srcs/a`."""
    parts = parts_of(path)
    return any(parts[: len(above)] == above for above in map(parts_of, roots))
