"""The ledger of entries that `install` wrote into settings of other programs; it lies in the user's state folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from reflectloop.system import beneath
from reflectloop.trust import private_file

_NAME = "installed.json"
_LARGEST = 64 << 20


def path() -> Path:
    return private_file.state_folder() / _NAME


def digest(data: bytes | None) -> str:
    return "none" if data is None else hashlib.sha256(data).hexdigest()


def wrote(file: Path, data: bytes | None) -> bool:
    """Return True if this user let `install` write exactly this content to this file."""
    try:
        ledger: Any = json.loads(beneath.read_path(path(), _LARGEST))
    except (OSError, ValueError):
        return False
    if not isinstance(ledger, dict) or data is None:
        return False
    return any(
        key.partition(" ")[2] == str(file) and isinstance(entry, dict) and entry.get("after") == digest(data)
        for key, entry in ledger.items()
    )
