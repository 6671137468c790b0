"""The record of a session, kept twice: in the project for people, and in the user's state folder, which decides.

An agent's shell can write the project's folder, so a record there proves nothing: it is signed, and compared with the
copy outside. A record that was edited or deleted is found, and the true start of the session stays known.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.errors import InvalidInput, ReflectloopError
from reflectloop.system import beneath, files
from reflectloop.trust import private_file, signing

FOLDER = "sessions"
NAME = "session.json"
_MAC = "mac"
_LARGEST = 1 << 20  # bytes of a record
_KEPT_S = 60 * 86400.0  # copies of sessions that nobody continued since are removed


class StoredRecord(NamedTuple):
    """The facts of a session, as stored."""

    fields: dict[str, Any] | None  # None if nothing is known that can be believed
    disturbed: bool  # the record in the project was edited or deleted


def place_of(own: Path, name: str) -> Path:
    return own / FOLDER / name / NAME


def read(own: Path, name: str) -> StoredRecord:
    """Return the record of a session by the copy outside; without one, the project's, if its signature fits."""
    inside, outside = _inside(own, name), _outside(own, name)
    if outside is not None:
        fields = _signed_fields(own, name, outside)
        if fields is not None:  # a signed record may differ by one update that was cut off or is under way
            signed = inside is not None and _signed_fields(own, name, inside) is not None
            return StoredRecord(fields, disturbed=not signed)
    if inside is None:
        return StoredRecord(None, disturbed=False)
    fields = _signed_fields(own, name, inside)
    return StoredRecord(fields, disturbed=fields is None)


def write(own: Path, name: str, fields: dict[str, Any]) -> None:
    """Write both copies; a state folder that cannot be written leaves the signed one in the project."""
    mac = _mac(own, name, fields)
    text = json.dumps({**fields, _MAC: mac} if mac else fields, indent=2) + "\n"
    files.write_atomic(place_of(own, name), text)
    copy = _copy(own, name)
    with contextlib.suppress(OSError, ReflectloopError):
        is_new = not copy.exists()
        private_file.write(copy, text, "the record of a session", _refusal)
        if is_new:
            _remove_old(copy.parent)


def _inside(own: Path, name: str) -> bytes | None:
    try:
        return beneath.read_path(place_of(own, name), _LARGEST, within=own)
    except FileNotFoundError:
        return None
    except OSError:
        return b""  # a link, a pipe or a folder in its place


def _outside(own: Path, name: str) -> bytes | None:
    try:
        return private_file.read(_copy(own, name), own.parent, _refusal)
    except ReflectloopError:
        return None


def _copy(own: Path, name: str) -> Path:
    """Return the place of the copy: by the folder of the project and the name of the session."""
    project = hashlib.sha256(os.fsencode(os.path.realpath(own))).hexdigest()[:16]
    return private_file.state_folder() / FOLDER / f"{project}-{name}.json"


def _signed_fields(own: Path, name: str, raw: bytes) -> dict[str, Any] | None:
    """Return the fields of a record, or None if it is damaged or its signature does not fit."""
    try:
        fields = json.loads(raw)
        mac = fields.pop(_MAC, "")
    except (ValueError, AttributeError):
        return None
    return fields if isinstance(fields, dict) and mac == _mac(own, name, fields) else None


def _mac(own: Path, name: str, fields: dict[str, Any]) -> str:
    """Return the signature of a record, bound to its project and session; empty if there is no key."""
    key = signing.key()
    content = json.dumps([os.path.realpath(own), name, fields], sort_keys=True)
    return key.sign("session", content.encode()) if key else ""


def _remove_old(folder: Path) -> None:
    for path in folder.iterdir():
        if path.stat().st_mtime < time.time() - _KEPT_S:
            path.unlink()


def _refusal(why: str) -> InvalidInput:
    return InvalidInput(f"the record of the session is not accepted: {why}")
