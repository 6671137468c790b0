"""Waits for and tells what changes in folders, by the kernel's inotify: a few folders, or a whole project."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from reflectloop.system import clock

_WRITTEN, _MODE, _CLOSED, _MOVED_FROM, _MOVED_TO, _CREATE = 0x2, 0x4, 0x8, 0x40, 0x80, 0x100
_DELETE, _DELETE_SELF, _MOVE_SELF = 0x200, 0x400, 0x800
_OVERFLOW = 0x4000
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_FOLDERS = _ONLY_FOLDERS | _NO_LINKS
_MADE = _CREATE | _MOVED_TO | _DELETE_SELF | _MOVE_SELF | _FOLDERS
_CHANGED = _MADE | _WRITTEN | _CLOSED | _MOVED_FROM | _DELETE
_READ_SIZE = 1 << 16


def _open_inotify() -> tuple[ctypes.CDLL | None, int]:
    """Return the C library and a descriptor of inotify; -1 where the kernel has none."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        return libc, libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    return None, -1


# Names made in folders ----------------------------------------------------------------------------------------------

_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name
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
        libc, self._fd = _open_inotify()
        if libc is None or self._fd < 0:
            return
        for folder in folders:
            watch = libc.inotify_add_watch(self._fd, os.fsencode(top / folder), _MADE)
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


# Any change in a project --------------------------------------------------------------------------------------------

# Folders that hold no sources, and change often.
_LEFT_OUT = frozenset((".git", ".reflectloop", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox"))
_MOST_FOLDERS = 20_000
_QUIET_S = 0.3  # without a change, before a burst of changes counts as over
_LONGEST_BURST_S = 3.0


class TreeWatch:
    """Watches the folders of a project. Where the kernel cannot, every wait ends with a possible change."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._libc, self._fd = _open_inotify()
        self.watches = self._fd >= 0 and self._add_source_folders()

    def _add_source_folders(self) -> bool:
        """Watch every folder that there is now; watching one again changes nothing. Return False if one is not."""
        if self._libc is None:
            return False
        for count, folder in enumerate(_source_folders(self._root)):
            watch = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _CHANGED | _MODE)
            if count >= _MOST_FOLDERS or (watch < 0 and os.path.isdir(folder)):
                return False
        return True

    def wait(self, seconds: float) -> bool:
        """Wait for a change, and for the end of its burst; return False if there was none in this time."""
        if not self.watches:
            time.sleep(seconds)
            return True
        if not self._changed_within(seconds):
            return False
        until = time.monotonic() + _LONGEST_BURST_S
        while self._changed_within(_QUIET_S) and time.monotonic() < until:
            pass
        self.watches = self._add_source_folders()  # folders may be new
        return True

    def _changed_within(self, seconds: float) -> bool:
        readable, _, _ = select.select([self._fd], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            while readable and os.read(self._fd, _READ_SIZE):
                pass
        return bool(readable)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self.watches = False


def _source_folders(root: Path) -> Iterator[str]:
    """Yield the folders with sources, and those in which git notes the current commit."""
    yield from (os.path.join(root, ".git"), os.path.join(root, ".git", "logs"))
    for folder, names, _ in os.walk(root):
        names[:] = [name for name in names if name not in _LEFT_OUT]
        yield folder


# Waiting for folders, processes and signals -------------------------------------------------------------------------

_BURST_S = 0.05  # several writes of one change are seen as one


class FolderWait:
    """Waits by the kernel's inotify; where there is none, each wait ends after the poll time at the latest."""

    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s
        self._watches: dict[str, int] = {}
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._libc, self._fd = _open_inotify()

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
            watch = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _CHANGED)
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
