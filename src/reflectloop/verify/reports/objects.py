"""Finds the JSON in a text: one document, one a line, or one after lines of other things."""

from __future__ import annotations

import json
from typing import Any

_MOST_LINES = 2_000_000
_STARTS = 40  # places at which a document may begin


def document(shown: str) -> Any:  # noqa: ANN401 - whatever it holds
    """The one document, or None."""
    text = shown.strip()
    if text[:1] in {"{", "["}:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None
    return _embedded(shown)


def _embedded(shown: str) -> Any:  # noqa: ANN401
    decoder = json.JSONDecoder()
    at = -1
    for _ in range(_STARTS):
        starts = [spot for mark in ("\n{", "\n[") if (spot := shown.find(mark, at + 1)) >= 0]
        if not starts:
            return None
        at = min(starts)
        try:
            found, end = decoder.raw_decode(shown, at + 1)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict | list) and "\n" in shown[at + 1 : end] and found:
            return found
    return None


def lines(shown: str) -> tuple[list[dict[str, Any]], bool]:
    """The objects that stand on a line of their own; and whether the last such line was cut."""
    found: list[dict[str, Any]] = []
    cut = False
    for line in shown.split("\n", _MOST_LINES):
        text = line.strip()
        if not text.startswith("{"):
            text = text[1:].strip() if text.startswith("[{") else ""  # dart writes its first event so
        if not text:
            continue
        if not text.endswith("}"):
            cut = cut or text.startswith('{"')
            continue
        try:
            one = json.loads(text)
        except (ValueError, RecursionError):
            cut = True
            continue
        cut = False
        if isinstance(one, dict):
            found.append(one)
    return found, cut


def text_of(value: object) -> str:
    """A string, or the text in what stands for one."""
    if isinstance(value, dict):
        return next((text_of(value[key]) for key in ("text", "message", "body", "markdown") if key in value), "")
    if isinstance(value, list):
        return "\n".join(one for one in value[:50] if isinstance(one, str))
    return value if isinstance(value, str) else ""


def number_of(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 8:  # noqa: PLR2004
        return int(value)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**7 else None
