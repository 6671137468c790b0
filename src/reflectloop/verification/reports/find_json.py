"""Find JSON in a text: one document, one object per line, or a document after other lines."""

from __future__ import annotations

import json
from typing import Any

_MOST_LINES = 2_000_000
_STARTS = 40  # positions at which a document may begin


def document(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON document in the text, or None."""
    stripped = text.strip()
    if stripped[:1] in {"{", "["}:
        try:
            return json.loads(stripped)
        except (ValueError, RecursionError):
            return None
    return _embedded(text)


def _embedded(text: str) -> Any:  # noqa: ANN401
    decoder = json.JSONDecoder()
    at = -1
    for _ in range(_STARTS):
        starts = [spot for mark in ("\n{", "\n[") if (spot := text.find(mark, at + 1)) >= 0]
        if not starts:
            return None
        at = min(starts)
        try:
            document, end = decoder.raw_decode(text, at + 1)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict | list) and "\n" in text[at + 1 : end] and document:
            return document
    return None


def lines(text: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the objects that each stand on one line, and whether the last such line is incomplete."""
    objects: list[dict[str, Any]] = []
    cut = False
    for line in text.split("\n", _MOST_LINES):
        stripped = line.strip()
        if not stripped.startswith("{"):
            stripped = (
                stripped[1:].strip() if stripped.startswith("[{") else ""
            )  # dart starts its list of events on one line
        if not stripped:
            continue
        if not stripped.endswith("}"):
            cut = cut or stripped.startswith('{"')
            continue
        try:
            parsed = json.loads(stripped)
        except (ValueError, RecursionError):
            cut = True
            continue
        cut = False
        if isinstance(parsed, dict):
            objects.append(parsed)
    return objects, cut


def text_of(value: object) -> str:
    """Return a string value, or the text inside an object or list that stands for one."""
    if isinstance(value, dict):
        return next((text_of(value[key]) for key in ("text", "message", "body", "markdown") if key in value), "")
    if isinstance(value, list):
        return "\n".join(item for item in value[:50] if isinstance(item, str))
    return value if isinstance(value, str) else ""


def number_of(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 8:  # noqa: PLR2004
        return int(value)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**7 else None
