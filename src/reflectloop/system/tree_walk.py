"""Walks untrusted folder trees of any depth, names and modes, and never follows a link.

Paths are limited to 4,096 bytes and the stack to a thousand calls; a tree can be deeper than both. So each folder is
opened relative to its parent, a bounded number stays open, and a closed ancestor is reopened through "..".
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

_MOST_OPEN = 32  # folders open at a time
_HOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Leave = Callable[[int, str], None]


class Folder:
    """One folder of a walk. Subfolders removed from `entries` are not entered."""

    def __init__(self, name: str, above: Folder | None, base: int | None = None) -> None:
        self.name, self._above = name, above
        self.depth: int = above.depth + 1 if above else 0  # folders between this one and the top
        self.fd: int = os.open(name, _HOW, dir_fd=above.fd if above else base)
        self._identity = (0, 0)
        try:
            with os.scandir(self.fd) as entries:
                self.entries = list(entries)
        except OSError:
            self.close()
            raise
        self.pending: list[str] = []

    @property
    def is_top(self) -> bool:
        return self._above is None

    def within(self, name: str) -> str:
        """Return the path of an entry of this folder, relative to the start of the walk."""
        parts, folder = [name], self
        while folder._above:
            parts.append(folder.name)
            folder = folder._above
        return "/".join(reversed(parts))

    def rest(self) -> None:
        """Close the descriptor; `wake` reopens it."""
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
    """Yield `top` and every folder below it, parents first; each is open until the next one.

    `top` is a path or the descriptor of an open folder. Folders that cannot be entered because of an error in
    `passing` are skipped. `leave` is called after a folder, with its open parent and its name.
    """
    stack: list[Folder] = []
    try:
        with contextlib.suppress(*passing):
            stack.append(Folder(".", None, top) if isinstance(top, int) else Folder(os.fspath(top), None))
        if stack:
            yield from _visit(stack[-1])
        while stack:
            if stack[-1].pending:
                with contextlib.suppress(*passing):
                    stack.append(Folder(stack[-1].pending.pop(), stack[-1]))
                    if len(stack) > _MOST_OPEN:
                        stack[-1 - _MOST_OPEN].rest()
                    yield from _visit(stack[-1])
            else:
                _go_up(stack, leave)
    finally:
        for folder in stack:
            folder.close()


def _visit(folder: Folder) -> Iterator[Folder]:
    yield folder
    folder.pending = [entry.name for entry in folder.entries if entry.is_dir(follow_symlinks=False)]
    folder.entries = []


def _go_up(stack: list[Folder], leave: Leave | None) -> None:
    left = stack.pop()
    try:
        if stack:
            stack[-1].wake(left)
    finally:
        left.close()
    if stack and leave:
        leave(stack[-1].fd, left.name)


@contextlib.contextmanager
def open_folder(top: Path) -> Iterator[int]:
    """Open a folder by its path and yield the descriptor."""
    fd = os.open(top, _HOW)
    try:
        yield fd
    finally:
        os.close(fd)


def remove(top: Path) -> None:
    """Delete a folder with its content, whatever modes a command left there."""
    open_up(os.fspath(top), os.lstat(top), None)
    for folder in walk(top, passing=(FileNotFoundError,), leave=_remove_empty):  # somebody else may remove it too
        for entry in folder.entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    open_up(entry.name, entry.stat(follow_symlinks=False), folder.fd)
                else:
                    os.unlink(entry.name, dir_fd=folder.fd)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(top)


def _remove_empty(fd: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=fd)


def open_up(name: str, status: os.stat_result, fd: int | None) -> None:
    """Let the owner read, write and enter a folder if its mode does not."""
    if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IRWXU, dir_fd=fd)
