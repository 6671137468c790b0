"""Sees whether anybody opens or changes a file of some folders, by inode, whatever path or mount they come through."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

_MODIFY, _ATTRIB, _CREATE, _DELETE, _OPEN, _MOVED = 0x02, 0x04, 0x100, 0x200, 0x20, 0xC0
_IS_FOLDER = 0x40000000
_HEAD = struct.Struct("iIII")


class Watch:
    """inotify on folders and their files. Ask `seen` for the names of files opened or changed since the last time."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in folders:
            mask = _MODIFY | _ATTRIB | _CREATE | _DELETE | _OPEN | _MOVED
            if self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), mask) < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch", str(folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def seen(self) -> set[str]:
        found: set[str] = set()
        while True:
            try:
                data = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                return found
            place = 0
            while place < len(data):
                _, mask, _, length = _HEAD.unpack_from(data, place)
                name = data[place + _HEAD.size : place + _HEAD.size + length].rstrip(b"\0")
                place += _HEAD.size + length
                if not mask & _IS_FOLDER:
                    found.add(os.fsdecode(name))
