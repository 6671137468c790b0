"""A JSON Schema in the narrower form that some model servers hold answers to: every key required, no other allowed."""

from __future__ import annotations

from typing import Any

_DROPPED = frozenset(("default", "title"))


def of(schema: dict[str, Any]) -> dict[str, Any] | None:
    """None where it has no such form: a mapping with keys of any name."""
    if _is_open(schema):
        return None
    made = _strict(schema)
    return made if isinstance(made, dict) else None


def _is_open(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    if isinstance(value, list):
        return any(map(_is_open, value))
    if not isinstance(value, dict):
        return False
    if value.get("type") == "object" and not isinstance(value.get("properties"), dict):
        return True
    return any(map(_is_open, value.values()))


def _strict(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, list):
        return [_strict(item) for item in value]
    if not isinstance(value, dict):
        return value
    own = value.get("properties")
    made = {
        key: {name: _strict(item) for name, item in entry.items()} if key in ("properties", "$defs") else _strict(entry)
        for key, entry in value.items()
        if key not in _DROPPED
    }
    if isinstance(own, dict):
        made |= {"required": list(own), "additionalProperties": False}
    return made
