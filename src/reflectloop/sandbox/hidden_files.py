"""What of the system's folders is hidden from root's commands: what others may not read, by mode and not by name.

An ordinary user's commands cannot read it anyway. Root's have lost their powers in the box, and still own these files.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class _Reach(NamedTuple):
    """How deep a folder is looked through."""

    folder: str
    depth: int
    besides: tuple[str, ...] = ()  # looked through on their own


_ALL_OF_IT = 40
# What packages bring lies in the first levels of /usr or is there for everybody; the rest is where people put things.
_LOOKED_THROUGH = (
    _Reach("/etc", _ALL_OF_IT),
    _Reach("/opt", _ALL_OF_IT),
    _Reach("/usr", 2, besides=("/usr/local", "/usr/etc")),
    _Reach("/usr/local", _ALL_OF_IT),
    _Reach("/usr/etc", _ALL_OF_IT),
)
_MOST_ENTRIES = 300_000  # of one tree; the folders beyond are hidden whole, since nobody has looked at them
_MANY = 50  # files in one folder, from which on it is hidden whole if most of it is
_GOOD_FOR_S = 30.0
_remembered: dict[tuple[_Reach, ...], tuple[float, list[Path]]] = {}


def from_others(reaches: Sequence[_Reach] = _LOOKED_THROUGH) -> list[Path]:
    """Return the files and folders that a command of root's could read and others may not; none for other users."""
    if os.geteuid() != 0:
        return []
    key = tuple(reaches)
    looked, paths = _remembered.get(key, (float("-inf"), []))
    if time.monotonic() - looked > _GOOD_FOR_S:
        paths = [path for reach in reaches for path in _look(reach)]
        _remembered[key] = (time.monotonic(), paths)
    return paths


def _look(reach: _Reach) -> Iterator[Path]:
    waiting = deque([(reach.folder, reach.depth)])  # the first levels first: the bound is met deep down if at all
    seen = 0
    while waiting:
        folder, depth = waiting.popleft()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        seen += len(entries)
        if seen > _MOST_ENTRIES:
            yield Path(folder)
            continue
        files: list[Path] = []
        for entry in entries:
            mode = _mode(entry)
            if mode and stat.S_ISDIR(mode) and mode & stat.S_IXOTH:
                if depth > 1 and entry.path not in reach.besides:
                    waiting.append((entry.path, depth - 1))
            elif mode and _is_hidden(mode):
                files.append(Path(entry.path))
        yield from [Path(folder)] if len(files) > max(_MANY, len(entries) // 2) else files


def _mode(entry: os.DirEntry[str]) -> int | None:
    """Return the mode of what uid 0 can read without any power, None of everything else."""
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    by_owner = found.st_uid == 0 and found.st_mode & stat.S_IRUSR
    by_group = found.st_gid == os.getegid() and found.st_mode & stat.S_IRGRP
    by_others = found.st_mode & (stat.S_IROTH | stat.S_IXOTH)
    return found.st_mode if by_owner or by_group or by_others else None


def _is_hidden(mode: int) -> bool:
    """Whether others may neither read nor run it; sockets are doors to programs outside, whatever their mode."""
    return stat.S_ISSOCK(mode) or (not stat.S_ISLNK(mode) and not mode & (stat.S_IROTH | stat.S_IXOTH))
