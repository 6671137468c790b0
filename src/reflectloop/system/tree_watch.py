"""Waits until a file of a project may have changed: by the kernel's inotify, else by waiting for a while."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import time
from collections.abc import Iterator
from pathlib import Path

# Folders that hold no sources, and change often.
_LEFT_OUT = frozenset((".git", ".reflectloop", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox"))
_CHANGED = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800  # written, moved, made, removed, another mode
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_MOST_FOLDERS = 20_000
_READ_SIZE = 1 << 16
_QUIET_S = 0.3  # without a change, before a burst of changes counts as over
_LONGEST_BURST_S = 3.0


class TreeWatch:
    """Watches the folders of a project. Where the kernel cannot, every wait ends with a possible change."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._fd = -1
        self._libc: ctypes.CDLL | None = None
        with contextlib.suppress(OSError, AttributeError):
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.watches = self._fd >= 0 and self._add_folders()

    def _add_folders(self) -> bool:
        """Watch every folder that there is now; watching one again changes nothing. Return False if one is not."""
        if self._libc is None:
            return False
        for count, folder in enumerate(_folders(self._root)):
            watch = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _CHANGED | _ONLY_FOLDERS | _NO_LINKS)
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
        self.watches = self._add_folders()  # folders may be new
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


def _folders(root: Path) -> Iterator[str]:
    """Yield the folders with sources, and those in which git notes the current commit."""
    yield from (os.path.join(root, ".git"), os.path.join(root, ".git", "logs"))
    for folder, names, _ in os.walk(root):
        names[:] = [name for name in names if name not in _LEFT_OUT]
        yield folder
