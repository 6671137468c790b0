"""The last answer of `watch`, as a file: its writer holds a lock, so a reader knows whether it still watches.

It is for people to look at. An agent can write it, so nothing believes it: what counts is the signed receipt.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import NamedTuple

from reflectloop.system import beneath, files

VERIFYING, UNCHANGED, LOCKED, ENDED = "verifying", "unchanged", "locked", "ended"
_FILE = "status.json"
_LOCK = "lock"
_LARGEST = 1 << 20


class WatchStatus(NamedTuple):
    """The knowledge about the working tree."""

    state: str  # PASS, REVIEW, REFUSED, NOT JUDGED, or one of the words above
    tree: str = ""
    base: str = ""
    changed: int = 0  # files
    reasons: tuple[str, ...] = ()
    run_id: str = ""
    next: str = ""
    at: str = ""
    old: str = ""  # the outcome of an earlier tree, which says nothing about this one


def folder_of(own: Path) -> Path:
    return own / "watch"


def write(own: Path, status: WatchStatus) -> None:
    files.write_atomic(folder_of(own) / _FILE, json.dumps(status._asdict(), ensure_ascii=False) + "\n")


def read(own: Path) -> WatchStatus | None:
    """Return the last status; None if there is none that can be read."""
    try:
        fields = json.loads(beneath.read_path(folder_of(own) / _FILE, _LARGEST, within=own))
        return WatchStatus(**{**fields, "reasons": tuple(map(str, fields["reasons"]))})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def lead(own: Path) -> int | None:
    """Return a descriptor that makes this process the one that verifies; None if another one does."""
    folder = folder_of(own)
    with files.room_for("the status of watch", folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def is_watched(own: Path) -> bool:
    """Return True if a process watches the project now."""
    try:
        descriptor = os.open(folder_of(own) / _LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
