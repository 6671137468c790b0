"""Sees whether anybody opens or changes a file, by whatever path, mount or hard link they come."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

_MODIFIED, _ATTRIBUTES, _OPENED, _DELETED, _MOVED = 0x2, 0x4, 0x20, 0x400, 0x800
_TOUCHED = _MODIFIED | _ATTRIBUTES | _OPENED | _DELETED | _MOVED
_EVENT = struct.Struct("iIII")  # watch, what, cookie, length of the name: none where a file is watched


class Watch:
    """inotify on files, one by one. `seen` tells which were opened or changed since it was last asked."""

    def __init__(self, files: Iterable[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._files: dict[int, Path] = {}
        for file in files:
            number = libc.inotify_add_watch(self._descriptor, os.fsencode(file), _TOUCHED)
            if number < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch", str(file))
            self._files[number] = file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def seen(self) -> set[Path]:
        found: set[Path] = set()
        while True:
            try:
                data = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                return found
            found |= {self._files[number] for number, *_ in _EVENT.iter_unpack(data)}
