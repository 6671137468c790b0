"""Writes files atomically, reads records, reports a full disk as NO_SPACE, and makes file names printable."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from reflectloop.errors import NoSpace, StateDamaged
from reflectloop.system import tree_walk
from reflectloop.system.undo import on_failure

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
_NO_ROOM = {
    *_FULL,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EISDIR,
}

_LAYOUT = frozenset("\n\u3000\u00a0")  # not printable by their category, and yet part of a text


_LEAST_ROOM = 1 << 16  # bytes


@contextlib.contextmanager
def room_for(what: str, path: Path) -> Iterator[None]:
    """Turn a write error into NO_SPACE with the path."""
    try:
        yield
    except OSError as fault:
        if fault.errno in _NO_ROOM:
            reason = os.strerror(fault.errno or 0).lower()
            raise NoSpace(f"cannot write {what} at {path}: {reason}") from fault
        raise


@contextlib.contextmanager
def room_left(path: Path) -> Iterator[None]:
    """Turn a full disk into NO_SPACE, for work that writes to many places."""
    try:
        yield
    except OSError as fault:
        if fault.errno in _FULL:
            where = fault.filename or path
            raise NoSpace(f"cannot write {where}: {os.strerror(fault.errno or 0).lower()}") from fault
        raise


def read_record(path: Path) -> dict[str, Any]:
    """Return a JSON object that the engine wrote; empty if there is no such file. A damaged one raises."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as fault:
        raise StateDamaged(
            f"{path} cannot be read: {fault}", next_step=f"look at {path}, or remove its folder"
        ) from fault
    return content if isinstance(content, dict) else {}


def is_full(path: Path) -> bool:
    """Return True if the disk has almost no free space."""
    room = os.statvfs(path)
    return room.f_bavail * room.f_frsize < _LEAST_ROOM


def write_atomic(path: Path, content: bytes | str, *, mode: int = 0o666) -> None:
    """Replace a file so that readers, even after a power loss, see the old or the new content, never a mixture."""
    raw = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    _replace(path, lambda file: file.write(raw), mode)


def copy_atomic(source: Path, path: Path) -> None:
    """Replace a file atomically with the content of another file of any size."""
    with source.open("rb") as origin:
        _replace(path, lambda file: _copy(origin, file))


def _copy(origin: BinaryIO, file: BinaryIO) -> None:
    while piece := origin.read(1 << 20):
        file.write(piece)


def _replace(path: Path, fill: Callable[[BinaryIO], object], mode: int = 0o666) -> None:
    with room_for(path.name, path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        with on_failure(lambda: part.unlink(missing_ok=True)):
            with open(part, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made if there is none; a file system without locks lets everybody in."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def identity_of(folder: Path) -> list[int]:
    """Return the identity of a folder and its user: different after a copy, equal after a reboot."""
    # Not the device number, which can change at a reboot.
    return [os.statvfs(folder).f_fsid, folder.stat().st_ino, os.geteuid()]


def sync_folder(path: Path) -> None:
    """Flush a folder, so that created and renamed entries survive a power loss."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_private(path: Path) -> None:
    """Create a folder that only its owner may enter; refuse one that belongs to another user."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as fault:
        raise NoSpace(
            f"cannot create the folder {path}: {fault.strerror}", next_step="reflectloop run --sandbox-root DIR"
        ) from fault
    status = path.lstat()
    if status.st_uid != os.geteuid() or not path.is_dir() or path.is_symlink():
        raise NoSpace(f"{path} is not a folder of this user", next_step="reflectloop run --sandbox-root DIR")


def remove_tree(path: Path) -> None:
    """Delete a file or a folder tree, whatever a command left in it."""
    if path.is_dir() and not path.is_symlink():
        tree_walk.remove(path)
    else:
        path.unlink(missing_ok=True)


def size_of(path: Path) -> int:
    """Return the bytes on disk below `path`, ignoring files that disappear meanwhile."""
    total = 0
    for folder in tree_walk.walk(path, passing=(OSError,)):
        for entry in folder.entries:
            with contextlib.suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def last_lines(path: Path, count: int = 12, size: int = 1 << 14) -> str:
    """Return the last lines of a text file, of which only the last `size` bytes are read."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-count:])


def json_text(value: object, *, indent: int | None = 2) -> str:
    """Return a value as JSON that people can read: letters as themselves, everything invisible escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    return "".join(char if char in _LAYOUT or char.isprintable() else json.dumps(char)[1:-1] for char in text)


def display(name: bytes | str) -> str:
    """Return a file name as one printable line, with control characters and invalid bytes escaped."""
    text = os.fsdecode(name)
    if text.isprintable():
        return text
    out: list[str] = []
    for char in text:
        if "\udc80" <= char <= "\udcff":
            out.append(f"\\x{ord(char) - 0xDC00:02x}")
        elif char.isprintable():
            out.append(char)
        else:
            out.append(char.encode("unicode_escape").decode())
    return "".join(out)
