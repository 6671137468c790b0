"""One engine at a time in a project. The kernel drops the lock when its owner dies, however it dies."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reflectloop.errors import Locked, StateDamaged
from reflectloop.world import clock, files


@contextmanager
def hold(folder: Path, purpose: str, *, wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """LOCKED says who holds it; with `wait`, that is told who holds it, and we wait until it is free."""
    path = folder / "lock"
    with files.room_for("the lock", folder):
        folder.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path) and not path.is_file():
            raise StateDamaged(f"{path} is no file", next_step=f"look at it and remove {path}")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            who = f"another engine works here: {owner(path)}"
            if wait is None:
                raise Locked(who, next_step="wait for it (reflectloop run --wait), or stop it") from fault
            wait(who)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        _sign(descriptor, purpose)
        yield
    finally:
        os.close(descriptor)


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
    try:
        entry = json.loads(path.read_text())
        return int(entry["pid"]) if entry["host"] == socket.gethostname() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def owner(path: Path) -> str:
    try:
        entry = json.loads(path.read_text())
        return f"pid {entry['pid']} on {entry['host']}, {entry['purpose']}, since {entry['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "its owner did not sign the lock"
