"""One engine at a time in a project. The kernel drops the lock when its owner dies, however it dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from reflectloop.errors import Locked, StateDamaged
from reflectloop.system import clock, files


@contextlib.contextmanager
def hold(folder: Path, purpose: str, *, wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """LOCKED says who holds it; with `wait`, that is told who holds it, and we wait until it is free."""
    path = folder / "lock"
    with files.room_for("the lock", folder):
        folder.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path) and not path.is_file():
            raise StateDamaged(f"{path} is no file", next_step=f"look at it and remove {path}")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        # Whoever removes the file lets nobody in: the folder is held too.
        around = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _locks_needed(path):
            _take(descriptor, path, wait)
        with contextlib.suppress(OSError):  # some network file systems lock files only
            _take(around, path, wait)
        _sign(descriptor, purpose)
        yield
    finally:
        os.close(around)
        os.close(descriptor)


def _take(descriptor: int, path: Path, wait: Callable[[str], None] | None) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as fault:
        who = f"another engine works here: {owner(path)}"
        if wait is None:
            raise Locked(
                who, next_step="wait for it (run, resume and verify take --wait), or stop it; reflectloop status"
            ) from fault
        wait(who)
        fcntl.flock(descriptor, fcntl.LOCK_EX)


@contextlib.contextmanager
def _locks_needed(path: Path) -> Iterator[None]:
    """Turn "this file system has no locks" into LOCKED, which says so: nobody knows whether another engine works."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
        raise Locked(
            f"{path} cannot be locked: {os.strerror(fault.errno).lower()}; another engine would not be kept out",
            next_step="move the project to a file system that has locks (flock)",
        ) from fault


def _sign(descriptor: int, purpose: str) -> None:
    entry = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "purpose": purpose,
        "since": clock.stamp(clock.now()),
    }
    with files.room_for("the lock", Path("lock")):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(entry).encode() + b"\n", 0)


def owner_pid(path: Path) -> int | None:
    """Whoever signed last, if that is a process of this machine."""
    entry = _signed(path)
    pid = entry.get("pid")
    # 0 and below are groups of processes, and 1 is never an engine.
    return pid if isinstance(pid, int) and pid > 1 and entry.get("host") == socket.gethostname() else None


def owner(path: Path) -> str:
    entry = _signed(path)
    if not {"pid", "host", "purpose", "since"} <= entry.keys():
        return "its owner did not sign the lock"
    return f"pid {entry['pid']} on {entry['host']}, {entry['purpose']}, since {entry['since']}"


def _signed(path: Path) -> dict[str, object]:
    """What the file says; nothing where it says nothing that can be read."""
    try:
        entry = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}
