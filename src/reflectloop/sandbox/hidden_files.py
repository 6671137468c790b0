"""Finds the files in system folders to hide from root's commands: all that other users may not read.

Commands of ordinary users cannot read them anyway. Commands of root have no capabilities in the sandbox, but still
own these files.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class _SearchDepth(NamedTuple):
    """The depth to which a folder is searched."""

    folder: str
    depth: int
    besides: tuple[str, ...] = ()  # subfolders with an entry of their own


_UNLIMITED = 40
# Deeper levels of /usr come from packages and are readable for everybody; the others may contain people's files.
_SEARCHED = (
    _SearchDepth("/etc", _UNLIMITED),
    _SearchDepth("/opt", _UNLIMITED),
    _SearchDepth("/usr", 2, besides=("/usr/local", "/usr/etc")),
    _SearchDepth("/usr/local", _UNLIMITED),
    _SearchDepth("/usr/etc", _UNLIMITED),
)
_MOST_ENTRIES = 300_000  # per tree; folders beyond are hidden completely, because they were not searched
_MANY = 50  # with more hidden files than this, a folder is hidden completely if most of it is hidden
_GOOD_FOR_S = 30.0
_remembered: dict[tuple[_SearchDepth, ...], tuple[float, list[Path]]] = {}


def from_others(searches: Sequence[_SearchDepth] = _SEARCHED) -> list[Path]:
    """Return the files and folders that root's commands could read and other users may not; [] if not root."""
    if os.geteuid() != 0:
        return []
    key = tuple(searches)
    searched_at, paths = _remembered.get(key, (float("-inf"), []))
    if time.monotonic() - searched_at > _GOOD_FOR_S:
        paths = [path for search in searches for path in _search(search)]
        _remembered[key] = (time.monotonic(), paths)
    return paths


def _search(search: _SearchDepth) -> Iterator[Path]:
    waiting = deque([(search.folder, search.depth)])  # breadth first: the limit then affects only deep folders
    count = 0
    while waiting:
        folder, depth = waiting.popleft()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        count += len(entries)
        if count > _MOST_ENTRIES:
            yield Path(folder)
            continue
        files: list[Path] = []
        for entry in entries:
            mode = _mode(entry)
            if mode and stat.S_ISDIR(mode) and mode & stat.S_IXOTH:
                if depth > 1 and entry.path not in search.besides:
                    waiting.append((entry.path, depth - 1))
            elif mode and _is_hidden(mode):
                files.append(Path(entry.path))
        yield from [Path(folder)] if len(files) > max(_MANY, len(entries) // 2) else files


def _mode(entry: os.DirEntry[str]) -> int | None:
    """Return the mode of an entry that uid 0 can read without capabilities, else None."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    by_owner = status.st_uid == 0 and status.st_mode & stat.S_IRUSR
    by_group = status.st_gid == os.getegid() and status.st_mode & stat.S_IRGRP
    by_others = status.st_mode & (stat.S_IROTH | stat.S_IXOTH)
    return status.st_mode if by_owner or by_group or by_others else None


def _is_hidden(mode: int) -> bool:
    """Return True if other users may neither read nor execute it, and for every socket."""
    return stat.S_ISSOCK(mode) or (not stat.S_ISLNK(mode) and not mode & (stat.S_IROTH | stat.S_IXOTH))
