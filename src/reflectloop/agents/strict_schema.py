"""Converts a JSON Schema to the strict form that some servers enforce: every key required, no other allowed."""

from __future__ import annotations

from typing import Any

_DROPPED = frozenset(("default", "title"))


def strict_form(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the strict form, or None if the schema allows arbitrary keys."""
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
    properties = value.get("properties")
    made = {
        key: {name: _strict(item) for name, item in entry.items()} if key in ("properties", "$defs") else _strict(entry)
        for key, entry in value.items()
        if key not in _DROPPED
    }
    if isinstance(properties, dict):
        made |= {"required": list(properties), "additionalProperties": False}
    return made
