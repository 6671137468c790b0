"""Computes a digest of a grant: the setting's value, and the content of the project files that it names."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from reflectloop.errors import NotTrusted
from reflectloop.system import beneath
from reflectloop.trust.grants import Grant

LARGEST = 64 << 20  # bytes of one file
_CHUNK = 1 << 20


def digest(grant: Grant, root: Path) -> str:
    """Return the digest of a grant and the project files that it names."""
    contents = {name: _content(root, name) for name in sorted(set(grant.files)) if _can_be_path(name)}
    text = json.dumps([grant.key, grant.value, contents], sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _can_be_path(name: str) -> bool:
    return bool(name) and "\0" not in name and not name.startswith("-")


def _content(root: Path, name: str) -> str | None:
    """Return the digest of a file, or None if it is missing. Only the path of a file outside the project counts."""
    try:
        real = (root / name).resolve()
        if not real.is_relative_to(root.resolve()):
            return f"outside: {real}"
        opened = beneath.open_path(real, follow=False)
    except beneath.NotPlain:
        return "not a file"
    except (OSError, RuntimeError):  # missing, or a loop of links
        return None
    with opened as file:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise NotTrusted(
                f"{name} is larger than {LARGEST >> 20} MB, too large to be trusted by its content",
                next_step="name a smaller file in reflectloop.toml",
            )
        content_hash = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            content_hash.update(chunk)
    return content_hash.hexdigest()
