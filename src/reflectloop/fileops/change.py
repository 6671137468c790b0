"""What either form of a patch says about one file."""

from __future__ import annotations

from typing import Literal, NamedTuple

from reflectloop.fileops import paths
from reflectloop.fileops.hunks import Hunk

MOST_HUNKS = 2000


class PatchUnfit(Exception):
    """A patch that cannot be read, or does not fit the files."""


class FileChange(NamedTuple):
    kind: Literal["add", "update", "delete"]
    path: str
    hunks: tuple[Hunk, ...] = ()
    target: str | None = None  # where it is moved to
    executable: bool | None = None
    closes: bool = False  # the file ends with a line break, whatever the hunks say

    @property
    def places(self) -> tuple[str, ...]:
        return (self.path, self.target) if self.target else (self.path,)


def named(path: str, line: int) -> str:
    """A path as a patch names it, in its plain form."""
    try:
        return paths.file(path)
    except ValueError as fault:
        raise PatchUnfit(f"line {line}: path {path[:200]!r} {fault}") from fault


def counted(changes: list[FileChange]) -> tuple[FileChange, ...]:
    if sum(len(change.hunks) for change in changes) > MOST_HUNKS:
        raise PatchUnfit(f"has more than {MOST_HUNKS} hunks")
    return tuple(changes)
