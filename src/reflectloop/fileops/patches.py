"""Reads a patch of either form, and works out what it makes of files, before any of them is touched. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from reflectloop.fileops import begin_patch, hunks, unified
from reflectloop.fileops.change import FileChange, PatchUnfit

__all__ = ["FileChange", "FileResult", "PatchUnfit", "outcome", "read"]


class FileResult(NamedTuple):
    """What a file is to be; None for its content when it is to be gone."""

    content: bytes | None
    executable: bool | None = None


def read(text: str) -> tuple[FileChange, ...]:
    """Every file a patch changes. Unfit says what is wrong, and on which line."""
    first = text.lstrip("\ufeff \t\r\n")
    found = begin_patch.read(first) if first.startswith(begin_patch.FIRST) else unified.read(text)
    if not found:
        raise PatchUnfit("is neither a '*** Begin Patch' text nor a unified diff")
    return found


def outcome(changes: tuple[FileChange, ...], look: Callable[[str], bytes | None]) -> dict[str, FileResult]:
    """What every named file is in the end; `look` gives a file's content now, None where there is none."""
    made: dict[str, FileResult] = {}

    def current(path: str) -> bytes | None:
        return made[path].content if path in made else look(path)

    for change in changes:
        before = current(change.path)
        if change.kind == "add":
            _refuse_there(before, change.path)
            made[change.path] = FileResult(_applied(b"", change), change.executable)
            continue
        if before is None:
            raise PatchUnfit(f"{change.path!r} is not there")
        after = _applied(before, change)
        if change.kind == "delete":
            made[change.path] = FileResult(None)
        elif change.target and change.target != change.path:
            _refuse_there(current(change.target), change.target)
            made |= {change.path: FileResult(None), change.target: FileResult(after, change.executable)}
        else:
            made[change.path] = FileResult(after, change.executable)
    return made


def _refuse_there(content: bytes | None, path: str) -> None:
    if content is not None:
        raise PatchUnfit(f"{path!r} is there already")


def _applied(before: bytes, change: FileChange) -> bytes:
    try:
        text = before.decode("utf-8", "surrogateescape")
        return hunks.apply(text, change.hunks, close=change.closes).encode("utf-8", "surrogateescape")
    except hunks.HunkMismatch as fault:
        raise PatchUnfit(f"{change.path}: {fault}") from fault
