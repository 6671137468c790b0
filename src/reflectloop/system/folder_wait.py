"""Waits until something in one of a few folders changes, a process ends, or a signal arrives; with a time limit."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
from collections.abc import Iterable
from types import FrameType

from reflectloop.system import clock

_CHANGED = 0x2 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800  # written, closed, moved, made, removed
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_READ_SIZE = 1 << 16
_BURST_S = 0.05  # several writes of one change are seen as one


class FolderWait:
    """Waits by the kernel's inotify; where there is none, each wait ends after the poll time at the latest."""

    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s
        self._libc: ctypes.CDLL | None = None
        self._fd = -1
        self._watches: dict[str, int] = {}
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError, AttributeError):
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def on_signals(self) -> None:
        """Let TERM, INT and HUP end a wait; `signalled` is then True, and nothing else happens."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note_signal)

    signalled = False

    def _note_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.signalled = True
        with contextlib.suppress(OSError):
            os.write(self._writer, b"x")

    def watch(self, folders: Iterable[str]) -> bool:
        """Watch exactly these folders; return False if one of them cannot be watched, so that it must be polled."""
        wanted = set(folders)
        if self._fd < 0 or self._libc is None:
            return False
        for folder in [name for name in self._watches if name not in wanted]:
            self._libc.inotify_rm_watch(self._fd, self._watches.pop(folder))
        whole = True
        for folder in wanted:  # a folder that was removed and made again is a new one
            watch = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _CHANGED | _ONLY_FOLDERS | _NO_LINKS)
            if watch >= 0:
                self._watches[folder] = watch
            else:
                self._watches.pop(folder, None)
                whole = False
        return whole

    def wait(self, seconds: float, pids: Iterable[int] = (), *, whole: bool = True) -> bool:
        """Wait; return True if something changed, ended or arrived before the time was over."""
        limit = seconds if whole else min(seconds, self._poll_s)
        ends = [self._open(pid) for pid in pids]
        if -1 in ends:
            limit = min(limit, self._poll_s)
        reading = [fd for fd in (self._fd, self._reader, *ends) if fd >= 0]
        try:
            ready, _, _ = select.select(reading, [], [], max(0.0, limit))
            if self._fd in ready:
                clock.wait(_BURST_S)
            self._drain()
            return bool(ready)
        finally:
            for fd in ends:
                if fd >= 0:
                    os.close(fd)

    @staticmethod
    def _open(pid: int) -> int:
        try:
            return os.pidfd_open(pid)
        except OSError:
            return -1

    def _drain(self) -> None:
        for fd in (self._fd, self._reader):
            with contextlib.suppress(OSError):
                while fd >= 0 and os.read(fd, _READ_SIZE):
                    pass

    def close(self) -> None:
        for fd in (self._fd, self._reader, self._writer):
            if fd >= 0:
                os.close(fd)
        self._fd = -1
