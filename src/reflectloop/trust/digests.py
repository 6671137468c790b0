"""Says by a digest what was agreed to: the value of a setting, and the content of each project file that it names."""

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
    """Return a digest over a grant and the files of the project that it names."""
    contents = {word: _content(root, word) for word in sorted(set(grant.files)) if _can_be_path(word)}
    text = json.dumps([grant.key, grant.value, contents], sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _can_be_path(word: str) -> bool:
    return bool(word) and "\0" not in word and not word.startswith("-")


def _content(root: Path, word: str) -> str | None:
    """Return the digest of a file; None where there is none. A file outside of the project is the user's own matter."""
    try:
        real = (root / word).resolve()
        if not real.is_relative_to(root.resolve()):
            return f"outside: {real}"
        opened = beneath.open_path(real, follow=False)
    except beneath.NotPlain:
        return "not a file"
    except (OSError, RuntimeError):  # missing, or a link that leads in a circle
        return None
    with opened as file:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise NotTrusted(
                f"{word} is larger than {LARGEST >> 20} MB, too large to be trusted by its content",
                next_step="name a smaller file in reflectloop.toml",
            )
        found = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()
