"""The project's lock: one engine at a time. The kernel releases it when its owner dies."""

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
def hold_lock(folder: Path, purpose: str, *, wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock. If another process has it, raise LOCKED, or call `wait` with its owner and wait for it."""
    path = folder / "lock"
    with files.room_for("the lock", folder):
        folder.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path) and not path.is_file():
            raise StateDamaged(f"{path} is not a file", next_step=f"check it and remove {path}")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        # The folder is locked too, in case somebody removes the file.
        around = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _locks_needed(path):
            _take(descriptor, path, wait)
        with contextlib.suppress(OSError):  # some network file systems cannot lock folders
            _take(around, path, wait)
        _sign(descriptor, purpose)
        yield
    finally:
        for held in (around, descriptor):
            with contextlib.suppress(OSError):  # a process that is just being started may have a copy of it
                fcntl.flock(held, fcntl.LOCK_UN)
            os.close(held)


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
    """Raise LOCKED if the file system has no locks: another engine could not be detected."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
        raise Locked(
            f"{path} cannot be locked: {os.strerror(fault.errno).lower()}; another engine could not be detected",
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


def is_held(folder: Path) -> bool:
    """Return True if a process holds the lock. It is read from the kernel's list, so nobody is disturbed."""
    try:
        inode = (folder / "lock").stat().st_ino
    except OSError:
        return False
    lines = _listed_locks()
    if lines is None:  # hidden: believe the signature of a process that is alive
        pid = owner_pid(folder / "lock")
        return pid is not None and Path(f"/proc/{pid}").exists()
    words = (line.split() for line in lines)
    return any(line[1] == "FLOCK" and line[-3].endswith(f":{inode}") for line in words if "->" not in line)


def _listed_locks() -> list[str] | None:
    """Return the kernel's list of locks, or None where it is hidden: a lock of our own must be in it."""
    own = os.memfd_create("list", os.MFD_CLOEXEC)
    try:
        fcntl.flock(own, fcntl.LOCK_SH)
        lines = Path("/proc/locks").read_text().splitlines()
        mine = f":{os.fstat(own).st_ino} "
    except OSError:
        return None
    finally:
        os.close(own)
    others = [line for line in lines if not (mine in line and f" {os.getpid()} " in line)]
    return others if len(others) < len(lines) else None


def owner_pid(path: Path) -> int | None:
    """Return the pid of the last owner, if it is a process of this machine."""
    entry = _signed(path)
    pid = entry.get("pid")
    # 0 and negative numbers are process groups, and 1 is never an engine.
    return pid if isinstance(pid, int) and pid > 1 and entry.get("host") == socket.gethostname() else None


def owner(path: Path) -> str:
    entry = _signed(path)
    if not {"pid", "host", "purpose", "since"} <= entry.keys():
        return "its owner did not sign the lock"
    return f"pid {entry['pid']} on {entry['host']}, {entry['purpose']}, since {entry['since']}"


def _signed(path: Path) -> dict[str, object]:
    """Return the owner's record, or {} if it cannot be read."""
    try:
        entry = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}
