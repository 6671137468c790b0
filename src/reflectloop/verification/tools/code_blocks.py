"""Cut blocks out of build files that are code, by text."""

from __future__ import annotations

import re
from collections.abc import Iterable

_COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|//[^\n]*|/\*.*?\*/""", re.DOTALL)


def without_comments(text: str) -> str:
    return _COMMENT.sub(lambda match: match[1] or " ", text)


def closing(text: str, start: int) -> int:
    """Return the index after the brace that closes the block, or the end of the text."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.end()
    return len(text)


def numbered(kind: str, items: Iterable[str]) -> dict[str, object]:
    """Count equal items, under keys that begin with their kind."""
    counted: dict[str, object] = {}
    for item in items:
        key = f"{kind} {' '.join(item.split())}"
        counted[key] = int(str(counted.get(key, 0))) + 1
    return counted
