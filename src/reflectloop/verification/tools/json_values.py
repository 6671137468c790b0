"""Read values of a JSON report that may be of any type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reflectloop.verification.result import Outcome

_OUTCOMES: dict[str, Outcome] = {
    **dict.fromkeys(("passed", "pass", "ok", "expected", "success", "completed", "flaky"), "passed"),
    **dict.fromkeys(("failed", "fail", "unexpected", "timedout", "interrupted", "failure", "undefined"), "failed"),
    **dict.fromkeys(("error", "broken"), "error"),
    **dict.fromkeys(("skipped", "pending", "todo", "disabled", "ignored", "skip", "suppressed"), "skipped"),
    **dict.fromkeys(("xfailed",), "xfailed"),
    **dict.fromkeys(("xpassed",), "xpassed"),
}


def outcome_of(word: str) -> Outcome:
    """Return the outcome for a tool's word; an unknown word counts as an error, never as a pass."""
    return _OUTCOMES.get(word.lower(), "error")


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


def dicts(value: object) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list, or nothing if the value is no list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def table(value: object) -> dict[str, Any]:
    """Return an object, or an empty one if the value is none."""
    return value if isinstance(value, dict) else {}
