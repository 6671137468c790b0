"""Tells which names were made in folders, and which folders were moved, by the kernel's inotify."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_CREATE, _MOVED_TO, _DELETE_SELF, _MOVE_SELF = 0x100, 0x80, 0x400, 0x800
_OVERFLOW = 0x4000
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_WANTED = _CREATE | _MOVED_TO | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS | _NO_LINKS
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_READ_SIZE = 1 << 16
_MOST_READS = 1 << 10


class FolderEvents(NamedTuple):
    """The events since the last call: names made, folders moved or removed, and True if some were lost."""

    made: tuple[tuple[str, str], ...] = ()  # folder and name
    moved: tuple[str, ...] = ()
    lost: bool = False


class FolderWatch:
    """Watches folders; where the kernel cannot, it reports nothing."""

    def __init__(self, top: Path, folders: Iterable[str]) -> None:
        self._names: dict[int, str] = {}
        self._fd = -1
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None, use_errno=True)
            self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            for folder in folders if self._fd >= 0 else ():
                watch = libc.inotify_add_watch(self._fd, os.fsencode(top / folder), _WANTED)
                if watch >= 0:
                    self._names[watch] = folder

    def events(self) -> FolderEvents:
        """Return what happened since the last call."""
        made, moved, lost = [], [], False
        for watch, mask, name in self._read():
            folder = self._names.get(watch)
            lost |= bool(mask & _OVERFLOW)
            if folder is None:
                continue
            if mask & (_CREATE | _MOVED_TO):
                made.append((folder, name))
            elif mask & (_DELETE_SELF | _MOVE_SELF):
                moved.append(folder)
        return FolderEvents(tuple(dict.fromkeys(made)), tuple(dict.fromkeys(moved)), lost)

    def _read(self) -> Iterable[tuple[int, int, str]]:
        for _ in range(_MOST_READS if self._fd >= 0 else 0):
            try:
                data = os.read(self._fd, _READ_SIZE)
            except OSError:  # nothing is left
                return
            at = 0
            while at < len(data):
                watch, mask, _cookie, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                yield watch, mask, os.fsdecode(data[at - length : at].rstrip(b"\0"))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
