"""Parses a patch of either form and computes the resulting files before any file is changed. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from reflectloop.fileops import begin_patch, hunks, unified
from reflectloop.fileops.change import FileChange, PatchUnfit

__all__ = ["FileChange", "FileResult", "PatchUnfit", "parse_patch", "resulting_files"]


class FileResult(NamedTuple):
    """The new state of a file; content None means deleted."""

    content: bytes | None
    executable: bool | None = None


def parse_patch(text: str) -> tuple[FileChange, ...]:
    """Return the change of each file in a patch, or raise PatchUnfit with the line and the fault."""
    first = text.lstrip("\ufeff \t\r\n")
    changes = begin_patch.parse_patch(first) if first.startswith(begin_patch.FIRST) else unified.parse_diff(text)
    if not changes:
        raise PatchUnfit("is neither a '*** Begin Patch' text nor a unified diff")
    return changes


def resulting_files(changes: tuple[FileChange, ...], look: Callable[[str], bytes | None]) -> dict[str, FileResult]:
    """Return the resulting state of each file; `look` returns a file's present content, or None."""
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
            raise PatchUnfit(f"{change.path!r} does not exist")
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
        raise PatchUnfit(f"{path!r} already exists")


def _applied(before: bytes, change: FileChange) -> bytes:
    try:
        text = before.decode("utf-8", "surrogateescape")
        return hunks.apply(text, change.hunks, close=change.closes).encode("utf-8", "surrogateescape")
    except hunks.HunkMismatch as fault:
        raise PatchUnfit(f"{change.path}: {fault}") from fault
