"""Paths and words that a client sends: nothing outside the project, nothing that a command line would misread."""

from __future__ import annotations

import os
from pathlib import Path

from reflectloop.errors import InvalidInput, SandboxEscape

_LONGEST = 4096


def inside(root: Path, name: str) -> str:
    """Return the absolute path of a file of the project; raise SandboxEscape if it lies outside."""
    word(name, "the path")
    path = Path(os.path.normpath(root / name))
    if not _is_below(path, root) or not _is_below(path.resolve(), root.resolve()):
        raise SandboxEscape(
            f"{name!r} leads out of the project {root}", next_step="name a file of the project, relative to its top"
        )
    return os.fspath(path)


def _is_below(path: Path, root: Path) -> bool:
    return path == root or path.is_relative_to(root)


def word(text: str, what: str) -> str:
    """Return a word for a command line; refuse one that is too long or has control characters."""
    if len(text) > _LONGEST or any(ord(char) < ord(" ") for char in text):
        raise InvalidInput(f"{what} is too long or has control characters", next_step="send a shorter, plain text")
    return text
