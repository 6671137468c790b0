"""Edit JSON settings of other programs by structure: what is there stays, and every edit can be taken back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from reflectloop.errors import InvalidInput
from reflectloop.system import beneath

_LARGEST = 4 << 20  # bytes
_INDENT = re.compile(r'\n([ \t]+)"')


class DuplicateKey(ValueError):
    """A key occurs twice in one object."""


def read(path: Path) -> tuple[bytes | None, dict[str, Any]]:
    """Return the bytes of a settings file and its object; None and an empty object if there is no file."""
    try:
        raw = beneath.read_path(path, _LARGEST)
    except FileNotFoundError:
        return None, {}
    except OSError as fault:
        raise InvalidInput(f"{path} cannot be read: {fault.strerror or fault}", next_step=f"look at {path}") from fault
    return raw, parse(path, raw)


def parse(path: Path, raw: bytes | None) -> dict[str, Any]:
    """Return the object in a settings file; an empty one if there is nothing in it."""
    if raw is None or not raw.strip():
        return {}
    try:
        document = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as fault:
        text = f"{path} is no plain JSON, so it cannot be edited safely: {fault}"
        raise InvalidInput(text, next_step="repair it, then run this again") from fault
    if not isinstance(document, dict):
        raise InvalidInput(f"{path} holds no JSON object", next_step="repair it, then run this again")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise DuplicateKey(f"the key {key!r} occurs twice")
        out[key] = value
    return out


def text(document: dict[str, Any], like: bytes | None) -> bytes:
    """Return the object as JSON with the indentation and the last line of the file it replaces."""
    old = (like or b"").decode("utf-8", "replace")
    indent = _INDENT.search(old)
    written = json.dumps(document, indent=indent[1] if indent else 2, ensure_ascii=False)
    return (written + ("" if old.strip() and not old.endswith("\n") else "\n")).encode()


def add(document: dict[str, Any], keys: tuple[str, ...], value: object) -> None:
    """Put a value at a place: into the list there, or as the value of the last key."""
    holder = _holder(document, keys)
    last = keys[-1]
    if isinstance(value, dict):
        entries = holder.setdefault(last, [])
        if not isinstance(entries, list):
            raise InvalidInput(f"{'.'.join(keys)} is no list there", next_step="repair it, then run this again")
        if value not in entries:
            entries.append(value)
    else:
        holder.setdefault(last, value)  # a value of the user's own stays


def holds(document: dict[str, Any], keys: tuple[str, ...], value: object) -> bool:
    place: Any = document
    for key in keys:
        if not isinstance(place, dict) or key not in place:
            return False
        place = place[key]
    return value in place if isinstance(place, list) else bool(place == value)


def remove(document: dict[str, Any], keys: tuple[str, ...], value: object) -> None:
    """Take a value away that stands there exactly so, and every list and object that is empty then."""
    if not holds(document, keys, value):
        return
    trail: list[dict[str, Any]] = [document]
    for key in keys[:-1]:
        trail.append(trail[-1][key])
    place = trail[-1][keys[-1]]
    if isinstance(place, list):
        place.remove(value)
    if not isinstance(place, list) or not place:
        del trail[-1][keys[-1]]
    for holder, key in zip(reversed(trail[:-1]), reversed(keys[:-1]), strict=True):
        if not holder[key]:
            del holder[key]


def _holder(document: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    place = document
    for key in keys[:-1]:
        inner = place.setdefault(key, {})
        if not isinstance(inner, dict):
            raise InvalidInput(f"{key} is no object there", next_step="repair it, then run this again")
        place = inner
    return place
