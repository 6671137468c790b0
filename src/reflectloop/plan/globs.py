"""Matches paths against the patterns of a plan or the settings."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|[^*?\[]+|\[")
_MEANING = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def matches_any(path: str, patterns: Iterable[str]) -> bool:
    """Return True if a pattern matches: `*` stays within a folder, `**` does not; a folder includes its content."""
    return any(_compiled(pattern).fullmatch(path) for pattern in patterns)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    plain = pattern.removeprefix("./").rstrip("/")
    expression = "".join(_MEANING.get(part) or _literal(part) for part in _PARTS.findall(plain))
    return re.compile(f"{expression}(?:/.*)?", re.DOTALL)


def _literal(part: str) -> str:
    if part.startswith("[") and part.endswith("]"):
        return "[" + part[1:-1].replace("\\", "\\\\").replace("!", "^", 1) + "]"
    return re.escape(part)
