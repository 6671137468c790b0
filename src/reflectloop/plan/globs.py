"""Whether a path is among those a plan or the settings name by pattern."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|[^*?\[]+|\[")
_MEANING = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def named(path: str, patterns: Iterable[str]) -> bool:
    """`*` stays within a folder, `**` does not; a folder's name means all that is in it."""
    return any(_compiled(pattern).fullmatch(path) for pattern in patterns)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    plain = pattern.removeprefix("./").rstrip("/")
    said = "".join(_MEANING.get(part) or _literal(part) for part in _PARTS.findall(plain))
    return re.compile(f"{said}(?:/.*)?", re.DOTALL)


def _literal(part: str) -> str:
    if part.startswith("[") and part.endswith("]"):
        return "[" + part[1:-1].replace("\\", "\\\\").replace("!", "^", 1) + "]"
    return re.escape(part)
