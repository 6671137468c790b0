"""The change of one file, as both patch forms describe it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from reflectloop.fileops import paths
from reflectloop.fileops.hunks import Hunk

MOST_HUNKS = 2000


class PatchUnfit(Exception):
    """A patch cannot be parsed, or does not match the files."""


class FileChange(NamedTuple):
    kind: Literal["add", "update", "delete"]
    path: str
    hunks: tuple[Hunk, ...] = ()
    target: str | None = None  # its new path, if the file is moved
    executable: bool | None = None
    closes: bool = False  # end the file with a line break, whatever the hunks say

    @property
    def places(self) -> tuple[str, ...]:
        return (self.path, self.target) if self.target else (self.path,)


def normal_path(path: str, line: int) -> str:
    """Return a path of a patch in its normal form, or raise PatchUnfit."""
    try:
        return paths.file_path(path)
    except ValueError as fault:
        raise PatchUnfit(f"line {line}: path {path[:200]!r} {fault}") from fault


def check_hunk_count(changes: list[FileChange]) -> tuple[FileChange, ...]:
    if sum(len(change.hunks) for change in changes) > MOST_HUNKS:
        raise PatchUnfit(f"has more than {MOST_HUNKS} hunks")
    return tuple(changes)
