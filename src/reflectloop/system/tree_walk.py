"""Walks folders that a command filled: however deep, with whatever names and modes, and never through a link.

Paths end at 4,096 bytes and the stack at a thousand calls; a command can go deeper than both. So a folder is opened
from the one above it, a bounded number are held open, and one further up is found again through "..".
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

_HELD = 32  # folders open at a time
_HOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Leave = Callable[[int, str], None]


class Folder:
    """One folder met on a walk. Folders taken out of `entries` are not entered."""

    def __init__(self, name: str, above: Folder | None, beside: int | None = None) -> None:
        self.name, self._above = name, above
        self.depth: int = above.depth + 1 if above else 0  # folders between this one and the top
        self.fd: int = os.open(name, _HOW, dir_fd=above.fd if above else beside)
        self._identity = (0, 0)
        try:
            with os.scandir(self.fd) as entries:
                self.entries = list(entries)
        except BaseException:
            self.close()
            raise
        self.pending: list[str] = []

    @property
    def is_top(self) -> bool:
        return self._above is None

    def within(self, name: str) -> str:
        """The path of something in this folder, from where the walk began."""
        parts, folder = [name], self
        while folder._above:
            parts.append(folder.name)
            folder = folder._above
        return "/".join(reversed(parts))

    def rest(self) -> None:
        """Let go of the descriptor; `wake` finds the folder again."""
        status = os.fstat(self.fd)
        self._identity = (status.st_dev, status.st_ino)
        self.close()

    def wake(self, below: Folder) -> None:
        if self.fd >= 0:
            return
        self.fd = os.open("..", _HOW, dir_fd=below.fd)
        status = os.fstat(self.fd)
        if self._identity != (status.st_dev, status.st_ino):
            raise OSError(errno.ESTALE, "a folder was moved while it was walked", self.name)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def walk(top: Path | int, *, passing: tuple[type[OSError], ...] = (), leave: Leave | None = None) -> Iterator[Folder]:
    """Every folder from `top` down, before what lies in it; each is open until the next is asked for.

    `top` is a path, or the descriptor of an open folder. Folders that cannot be entered for a reason named in
    `passing` are passed over. `leave` is called with the folder above, open, and the name of one that was walked to
    its end.
    """
    line: list[Folder] = []
    try:
        with contextlib.suppress(*passing):
            line.append(Folder(".", None, top) if isinstance(top, int) else Folder(os.fspath(top), None))
        if line:
            yield from _visit(line[-1])
        while line:
            if line[-1].pending:
                with contextlib.suppress(*passing):
                    line.append(Folder(line[-1].pending.pop(), line[-1]))
                    if len(line) > _HELD:
                        line[-1 - _HELD].rest()
                    yield from _visit(line[-1])
            else:
                _go_up(line, leave)
    finally:
        for folder in line:
            folder.close()


def _visit(folder: Folder) -> Iterator[Folder]:
    yield folder
    folder.pending = [entry.name for entry in folder.entries if entry.is_dir(follow_symlinks=False)]
    folder.entries = []


def _go_up(line: list[Folder], leave: Leave | None) -> None:
    done = line.pop()
    try:
        if line:
            line[-1].wake(done)
    finally:
        done.close()
    if line and leave:
        leave(line[-1].fd, done.name)


@contextlib.contextmanager
def opened(top: Path) -> Iterator[int]:
    """A folder to name things from: a path that is short enough for git, which stands there, is so for us."""
    fd = os.open(top, _HOW)
    try:
        yield fd
    finally:
        os.close(fd)


def remove(top: Path) -> None:
    """Delete a folder and all in it, whatever modes a command left there."""
    open_up(os.fspath(top), os.lstat(top), None)
    for folder in walk(top, leave=lambda fd, name: os.rmdir(name, dir_fd=fd)):
        for entry in folder.entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    open_up(entry.name, entry.stat(follow_symlinks=False), folder.fd)
                else:
                    os.unlink(entry.name, dir_fd=folder.fd)
    os.rmdir(top)


def open_up(name: str, status: os.stat_result, fd: int | None) -> None:
    """Let the owner read, write and enter a folder, where its mode does not."""
    if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IRWXU, dir_fd=fd)
