"""Reads and writes files of a workspace without ever following a link.

Each folder is opened relative to its open parent, so a path that is swapped between check and use is an error and
not an escape.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import SandboxEscape
from reflectloop.fileops.paths import is_reserved, parts_of
from reflectloop.system import beneath, files, tree_walk
from reflectloop.system.undo import on_failure

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_count = itertools.count(1)


class AccessBarred(Exception):
    """The file system, or the rule against links, prevents the access."""


class PathMissing(AccessBarred):
    """The path does not exist."""


class PathInfo(NamedTuple):
    path: str
    kind: str  # file, folder, link, other
    size: int


class SafeFiles:
    def __init__(self, top: int) -> None:
        self._top = top

    @contextlib.contextmanager
    def folder(self, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
        """Open a folder of the workspace; with `make`, create missing folders."""
        with contextlib.ExitStack() as stack:
            with _naming("/".join(parts)):
                fd = stack.enter_context(beneath.open_folder(self._top, parts, make=make))
            yield fd

    def read(self, path: str, most: int) -> bytes:
        """Return at most `most` bytes of a regular file."""
        *above, name = parts_of(path)
        with self.folder(tuple(above)) as fd:
            _expect_file(fd, name, path)
            with _naming(path), beneath.open_file(fd, name) as file:
                return file.read(most)

    def status(self, path: str) -> os.stat_result | None:
        *above, name = parts_of(path)
        try:
            with self.folder(tuple(above)) as fd:
                return _status(fd, name)
        except PathMissing:
            return None

    def write(self, path: str, content: bytes, executable: bool | None = None) -> None:
        """Write a file by replacing it: an existing file may have another hard link outside the workspace."""
        *above, name = parts_of(path)
        with self.folder(tuple(above), make=True) as fd, _naming(path):
            there = _status(fd, name)
            if there is not None and not stat.S_ISREG(there.st_mode):
                raise AccessBarred(f"{path!r} is {beneath.kind_of(there)}")
            part, created = _create(fd)
            with on_failure(lambda: _discard(part, fd)):
                with open(created, "wb") as file:  # noqa: PTH123
                    file.write(content)
                    os.fchmod(created, _mode(there, created, executable))
                os.rename(part, name, src_dir_fd=fd, dst_dir_fd=fd)

    def delete(self, path: str) -> None:
        *above, name = parts_of(path)
        with self.folder(tuple(above)) as fd, _naming(path):
            _expect_file(fd, name, path)
            os.unlink(name, dir_fd=fd)

    def move(self, source: str, target: str) -> None:
        *above, name = parts_of(source)
        *below, new_name = parts_of(target)
        with self.folder(tuple(above)) as fd:
            _expect_file(fd, name, source)
            with self.folder(tuple(below), make=True) as there, _naming(target):
                if _status(there, new_name) is not None:
                    raise AccessBarred(f"{target!r} already exists")
                os.rename(name, new_name, src_dir_fd=fd, dst_dir_fd=there)

    def walk(self, top: str, depth: int) -> Iterator[PathInfo]:
        """Yield the entries of a folder and its subfolders down to `depth`, ordered by name."""
        waiting: list[tuple[str, ...]] = [parts_of(top)]
        first = len(waiting[0])
        while waiting:
            parts = waiting.pop()
            try:
                entries = self._listed(parts)
            except AccessBarred:
                if len(parts) == first:
                    raise
                continue  # removed while we listed
            yield from entries
            if len(parts) - first + 1 < depth:
                waiting += [parts_of(entry.path) for entry in reversed(entries) if entry.kind == "folder"]

    def _listed(self, parts: tuple[str, ...]) -> list[PathInfo]:
        with self.folder(parts) as fd, _naming("/".join(parts) or "."), os.scandir(fd) as entries:
            visible = [entry for entry in entries if not is_reserved(entry.name)]
            return [_path_info(entry, parts) for entry in sorted(visible, key=lambda entry: entry.name)]


@contextlib.contextmanager
def open_folder(folder: Path, identity: tuple[int, ...] = ()) -> Iterator[SafeFiles]:
    """Open a folder; raise SandboxEscape if it is not the one with this identity."""
    with tree_walk.open_folder(folder) as top:
        status = os.fstat(top)
        if identity and identity != (status.st_dev, status.st_ino):
            raise SandboxEscape("the workspace was replaced by something else")
        yield SafeFiles(top)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Turn system errors into AccessBarred with the path."""
    try:
        yield
    except FileNotFoundError as fault:
        raise PathMissing(f"{path!r} does not exist") from fault
    except beneath.NotPlain as fault:
        raise AccessBarred(f"{fault.filename!r} {fault.strerror}") from fault
    except OSError as fault:
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise AccessBarred(f"{path!r}: {os.strerror(fault.errno or 0).lower()}") from fault


def _status(fd: int, name: str) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=fd)
    except FileNotFoundError:
        return None


def _expect_file(fd: int, name: str, path: str) -> None:
    with _naming(path):
        there = os.lstat(name, dir_fd=fd)
    if not stat.S_ISREG(there.st_mode):
        raise AccessBarred(f"{path!r} is {beneath.kind_of(there)}")


def _discard(name: str, fd: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=fd)


def _create(fd: int) -> tuple[str, int]:
    """Create a temporary file with an unused name in the same folder."""
    while True:
        part = f".reflectloop-{os.getpid()}-{next(_count)}.part"
        with contextlib.suppress(FileExistsError):
            return part, os.open(part, _CREATE, 0o666, dir_fd=fd)


def _mode(there: os.stat_result | None, created: int, executable: bool | None) -> int:
    mode = stat.S_IMODE((there or os.fstat(created)).st_mode) & 0o777
    if executable is None:
        return mode
    readable = (mode & 0o444) >> 2
    return mode | readable if executable else mode & ~0o111


def _path_info(entry: os.DirEntry[str], parts: tuple[str, ...]) -> PathInfo:
    path = "/".join((*parts, entry.name))
    if entry.is_symlink():
        return PathInfo(path, "link", 0)
    if entry.is_dir(follow_symlinks=False):
        return PathInfo(path, "folder", 0)
    if not entry.is_file(follow_symlinks=False):
        return PathInfo(path, "other", 0)
    try:
        return PathInfo(path, "file", entry.stat(follow_symlinks=False).st_size)
    except OSError:
        return PathInfo(path, "file", 0)


def display_name(path: str) -> str:
    """Return a name as one line of valid text."""
    return files.display(path)
