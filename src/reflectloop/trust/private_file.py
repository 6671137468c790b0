"""Reads and writes files that only the user can have written: not in the project, not a link, closed to others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from reflectloop.errors import ReflectloopError
from reflectloop.system import beneath, files

Refuse = Callable[[str], ReflectloopError]  # makes the error from the reason
LARGEST = 8 << 20


def state_folder() -> Path:
    """Return the user's state folder. A relative XDG_STATE_HOME is ignored: it could be in a project."""
    value = os.environ.get("XDG_STATE_HOME", "")
    base = Path(value) if Path(value).is_absolute() else Path.home() / ".local" / "state"
    return base / "reflectloop"


def read(place: Path, root: Path | None, refuse: Refuse) -> bytes | None:
    """Return the content, or None if there is no file; raise if another user or the project could have written it."""
    if root is not None and place.resolve().is_relative_to(root.resolve()):
        raise refuse("it is inside the project, which may have come with it")
    try:
        opened = beneath.open_path(place, follow=False)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise refuse("it is a link" if place.is_symlink() else f"it cannot be read: {fault.strerror}") from fault
    with opened as file:
        _refuse_unsound(os.fstat(file.fileno()), refuse)
        _refuse_unsound_folder(place.parent, refuse)
        raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise refuse(f"it is larger than {LARGEST >> 20} MB")
    return raw


def write(place: Path, text: str, what: str, refuse: Refuse) -> None:
    with files.room_for(what, place):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_unsound_folder(place.parent, refuse)
    files.write_atomic(place, text, mode=0o600)


def _refuse_unsound(status: os.stat_result, refuse: Refuse) -> None:
    if status.st_uid != os.geteuid():
        raise refuse("it belongs to another user")
    if status.st_mode & 0o077:
        raise refuse("other users may open it")


def _refuse_unsound_folder(folder: Path, refuse: Refuse) -> None:
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise refuse("its folder belongs to another user, or others may write to it")
