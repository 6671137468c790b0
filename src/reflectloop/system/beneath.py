"""Opens, reads, finds and copies files beneath a folder, by descriptor and never through a link.

Everything that a command or a repository may have created is accessed this way: a path that is checked first and
used afterwards may point elsewhere by then. Only regular files are read, up to a maximum size.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import functools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from reflectloop.system import tree_walk

LARGEST_SETTINGS = 16 << 20  # bytes of a settings file in a project
_SYS_OPENAT2 = 437  # on every architecture
_NO_MAGIC_LINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_REFUSED_BY_FILTERS = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG)
_TRIES = 16  # openat2 must be repeated if something was renamed meanwhile
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_SEEN = 1_000_000  # entries visited in one search
_DEEPEST = 128  # nested folders that are searched or copied
_PIECE = 1 << 30
_KINDS = {
    stat.S_IFLNK: "a link, and links are not followed",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotPlain(OSError):
    """The path is not a regular file or folder, passes through a link, or the file is too large."""


def kind_of(status: os.stat_result) -> str:
    """Return the kind of a file as text."""
    return _KINDS.get(stat.S_IFMT(status.st_mode), "no file")


# Opening -----------------------------------------------------------------------------------------------------------


def open_beneath(top: int, path: str, flags: int) -> int:
    """Open a path relative to the folder `top`; no part of it may be a link or `..`."""
    parts = _parts(path)
    if len(parts) > 1 and _has_openat2():
        return _openat2(top, path, flags | os.O_CLOEXEC)
    with open_folder(top, parts[:-1]) as folder, _links_named(path):
        return os.open(parts[-1] if parts else ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


@contextlib.contextmanager
def open_folder(top: int, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """Open a folder beneath `top`; with `make`, create missing folders."""
    folder = os.dup(top)
    try:
        for number, name in enumerate(parts):
            below = _enter(folder, name, "/".join(parts[: number + 1]), make=make)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _enter(folder: int, name: str, path: str, *, make: bool) -> int:
    with _links_named(path):
        try:
            return os.open(name, _FOLDER, dir_fd=folder)
        except FileNotFoundError:
            if not make:
                raise
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            return os.open(name, _FOLDER, dir_fd=folder)
        except NotADirectoryError as fault:
            there = os.lstat(name, dir_fd=folder)
            number = errno.ELOOP if stat.S_ISLNK(there.st_mode) else errno.ENOTDIR
            raise NotPlain(number, f"is {kind_of(there)}", path) from fault


@contextlib.contextmanager
def _links_named(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        if fault.errno == errno.ELOOP and not isinstance(fault, NotPlain):
            raise NotPlain(errno.ELOOP, "is reached through a link, and links are not followed", path) from fault
        raise


def _parts(path: str) -> tuple[str, ...]:
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/") or ".." in parts:
        raise NotPlain(errno.EXDEV, "leads out of its folder", path)
    return parts


@functools.cache
def _has_openat2() -> bool:
    try:
        root = os.open("/", _FOLDER)
    except OSError:
        return False
    try:
        os.close(_openat2(root, ".", _FOLDER))
    except OSError as fault:
        if fault.errno in _REFUSED_BY_FILTERS:  # an old kernel, or a container that blocks the call
            return False
        raise
    finally:
        os.close(root)
    return True


@functools.cache
def _system_call() -> Callable[..., int]:
    """Return the C library's `syscall`; to look it up for each file would cost more than the call itself."""
    import ctypes  # noqa: PLC0415

    return ctypes.CDLL(None, use_errno=True).syscall


def _openat2(top: int, path: str, flags: int) -> int:
    import ctypes  # noqa: PLC0415 - most commands do not need it

    how = (ctypes.c_uint64 * 3)(flags, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGIC_LINKS)
    call = _system_call()
    name = os.fsencode(path)
    for _ in range(_TRIES):
        number: int = call(
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_int(top),
            ctypes.c_char_p(name),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if number >= 0:
            return number
        if ctypes.get_errno() != errno.EAGAIN:
            break
    with _links_named(path):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)


# Finding -----------------------------------------------------------------------------------------------------------


def status(top: int, path: str) -> os.stat_result | None:
    """Return the status of a path without following a link, or None if it cannot be reached."""
    try:
        place = open_beneath(top, path, _PLACE)
    except (FileNotFoundError, NotADirectoryError, NotPlain):
        return None
    try:
        return os.fstat(place)
    finally:
        os.close(place)


def is_file(top: int, path: str) -> bool:
    entry = status(top, path)
    return entry is not None and stat.S_ISREG(entry.st_mode)


def is_folder(top: int, path: str) -> bool:
    entry = status(top, path)
    return entry is not None and stat.S_ISDIR(entry.st_mode)


def find_files(top: int, pattern: str, most: int) -> list[str]:
    """Return the regular files that match a glob (`**`: any folders), sorted; raise NotPlain if there are too many."""
    patterns = pattern.split("/")
    matches: list[str] = []
    count = 0
    for folder in tree_walk.walk(top, passing=(OSError,)):
        count += len(folder.entries)
        for entry in folder.entries:
            if entry.is_file(follow_symlinks=False):
                path = folder.within(entry.name)
                if _matches(path.split("/"), patterns):
                    matches.append(path)
        if folder.depth >= _DEEPEST:
            folder.entries = []
        if len(matches) > most or count > _MOST_SEEN:
            raise NotPlain(errno.E2BIG, f"more than {most} files, or more than {_MOST_SEEN} entries to search", pattern)
    return sorted(matches)


def _matches(parts: list[str], patterns: list[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_matches(parts[skipped:], patterns[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], patterns[0]) and _matches(parts[1:], patterns[1:])


# Reading -----------------------------------------------------------------------------------------------------------


def open_file(top: int, path: str) -> BinaryIO:
    """Open a regular file for reading. Nothing else is opened: a pipe would block, and a device may have effects."""
    entry = status(top, path)
    if entry is not None:
        _expect_file(entry, path)
    return _opened(open_beneath(top, path, _READ), path)


def read(top: int, path: str, most: int) -> bytes:
    """Return the content of a regular file beneath `top`; raise NotPlain if it has more than `most` bytes."""
    with open_file(top, path) as file:
        return _content(file, most, path)


def read_path(path: Path, most: int = LARGEST_SETTINGS, *, within: Path | None = None) -> bytes:
    """Return the content of a regular file of bounded size.

    A path that a person gives may contain links. With `within`, a folder with a repository's files, links must end
    inside that folder: they are resolved first, and the target is opened without following links.
    """
    if within is None:
        with open_path(path) as file:
            return _content(file, most, os.fspath(path))
    real, root = _resolved(path), within.resolve()
    if not real.is_relative_to(root):
        raise NotPlain(errno.EXDEV, f"is a link that leads out of {within}", os.fspath(path))
    with tree_walk.open_folder(root) as top:
        return read(top, os.fspath(real.relative_to(root)), most)


def open_path(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file by a trusted path, following links unless `follow` is off."""
    _expect_file(path.stat(follow_symlinks=follow), os.fspath(path))
    with _links_named(os.fspath(path)):
        return _opened(os.open(path, _READ | (0 if follow else os.O_NOFOLLOW)), os.fspath(path))


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError as fault:  # a loop of links
        raise NotPlain(errno.ELOOP, "has a loop of links", os.fspath(path)) from fault


def _expect_file(entry: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(entry.st_mode):
        raise NotPlain(errno.EINVAL, f"is {kind_of(entry)}; only files are read", path)


def _opened(descriptor: int, path: str) -> BinaryIO:
    """Return an open file after checking again that it is regular; it was opened without blocking."""
    try:
        _expect_file(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return open(descriptor, "rb")


def _content(file: BinaryIO, most: int, path: str) -> bytes:
    size = os.fstat(file.fileno()).st_size
    content = file.read(most + 1) if size <= most else b""
    if size > most or len(content) > most:
        raise NotPlain(errno.EFBIG, f"has more than {most / 1e6:.0f} MB", path)
    return content


# Copying -----------------------------------------------------------------------------------------------------------


def copy(source: int, path: str, target: int, to: str) -> None:
    """Copy a file, a link or a folder with its content from beneath one folder to beneath another.

    Links are copied as links and never followed; an existing file is replaced. Pipes, sockets and devices are
    skipped: they are useless without the programs that created them.
    """
    *above, name = _parts(path)
    *into, new_name = _parts(to)
    with open_folder(source, above) as here, open_folder(target, into, make=True) as there:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=here).st_mode):
            _copy_entry(here, name, there, new_name)
            return
        with open_folder(here, [name]) as top, open_folder(there, [new_name], make=True) as folder:
            _copy_folder(top, folder, path)


def _copy_folder(source: int, target: int, path: str) -> None:
    for folder in tree_walk.walk(source):
        if folder.depth > _DEEPEST:
            raise NotPlain(errno.ENAMETOOLONG, f"has more than {_DEEPEST} nested folders", path)
        with open_folder(target, folder.within("").split("/")[:-1], make=True) as below:
            for entry in folder.entries:
                if not entry.is_dir(follow_symlinks=False):
                    _copy_entry(folder.fd, entry.name, below, entry.name)


def _copy_entry(source: int, name: str, target: int, to: str) -> None:
    kind = os.lstat(name, dir_fd=source).st_mode
    if not (stat.S_ISLNK(kind) or stat.S_ISREG(kind)):
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(to, dir_fd=target)
    if stat.S_ISLNK(kind):
        os.symlink(os.readlink(name, dir_fd=source), to, dir_fd=target)
        return
    with open_file(source, name) as file, open(os.open(to, _CREATE, 0o600, dir_fd=target), "wb") as made:
        _pour(file.fileno(), made.fileno())
        entry = os.fstat(file.fileno())
        os.fchmod(made.fileno(), entry.st_mode & 0o777 | stat.S_IRUSR)
        os.utime(made.fileno(), ns=(entry.st_atime_ns, entry.st_mtime_ns))


def _pour(source: int, target: int) -> None:
    """Copy the content of a file and keep its holes: a sparse file can be huge and still use no space."""
    for begin, end in stretches(source):
        os.lseek(target, begin, os.SEEK_SET)
        while begin < end and (moved := os.sendfile(target, source, begin, min(_PIECE, end - begin))):
            begin += moved  # noqa: PLW2901 - where the next piece begins
    os.ftruncate(target, os.fstat(source).st_size)


def stretches(file: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each data range in a file; the gaps are holes."""
    end = 0
    while True:
        try:
            begin = os.lseek(file, end, os.SEEK_DATA)
        except OSError as fault:
            if fault.errno == errno.ENXIO:  # no more data
                return
            raise
        end = os.lseek(file, begin, os.SEEK_HOLE)
        yield begin, end


def move(source: int, target: int, path: str) -> None:
    """Move a file, a link or a folder to the same path beneath another folder; copy it across disks."""
    *above, name = _parts(path)
    with open_folder(source, above) as here, open_folder(target, above, make=True) as there:
        try:
            os.rename(name, name, src_dir_fd=here, dst_dir_fd=there)
        except OSError as fault:
            if fault.errno not in (errno.EXDEV, errno.EACCES, errno.EPERM):
                raise
            copy(source, path, target, path)
