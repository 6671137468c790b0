"""Find values that are equal to what they should not be equal to.

The project's Python runs this file: standard library of 3.8 only.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Any, Callable  # noqa: UP035 - as in 3.8

_PLAIN = (int, float, str, bytes, list, tuple, dict, set, frozenset, bool, type(None), complex)
_CONTAINERS: tuple[Any, ...] = (list, tuple, set, frozenset)
_MOST = 200  # values that are looked at
# Values that differ as data, some of them as long as the value when they are shown.
_CHANGED: dict[Any, Callable[[Any], list[Any]]] = {
    int: lambda value: [int.__add__(value, 1), int.__add__(value, -1), int.__add__(int.__mul__(value, 2), 1)],
    float: lambda value: [float.__add__(value, 1.5), float.__add__(float.__mul__(value, 2.0), 1.0)],
    str: lambda value: [str.__add__(value, "~"), "~" * max(1, str.__len__(value))],
    bytes: lambda value: [bytes.__add__(value, b"~"), b"~" * max(1, bytes.__len__(value))],
    list: lambda value: [list.__add__(value, [None]), [None] * (list.__len__(value) or 1)],
    tuple: lambda value: [tuple.__add__(value, (None,)), (None,) * (tuple.__len__(value) or 1)],
    dict: lambda value: [{**dict(dict.items(value)), Sentinel(): 1}],
    set: lambda value: [set.__or__(value, {Sentinel()})],
    frozenset: lambda value: [frozenset.__or__(value, {Sentinel()})],
}


class Sentinel:
    """A value that no other value is equal to."""


def faults(value: Any, changed_files: tuple[str, ...]) -> list[list[str]]:
    """Return what is wrong with the equality of a value and of what it contains: [[kind, type name], ...]."""
    out: list[list[str]] = []
    waiting, seen = [value], 0
    while waiting and seen < _MOST:
        item = waiting.pop()
        seen += 1
        if type(item) not in _PLAIN:
            kind = _fault(item, changed_files)
            if kind and [kind, type(item).__name__] not in out:
                out.append([kind, type(item).__name__])
        if isinstance(item, dict):
            waiting.extend(dict.values(item))
            waiting.extend(dict.keys(item))
        waiting.extend(_fields(item))
        for container in _CONTAINERS:
            if isinstance(item, container):
                waiting.extend(list(container.__iter__(item))[:_MOST])
    return out


def _fields(item: Any) -> list[Any]:
    """Return what an object of the project has as attributes."""
    fields = None if callable(item) or isinstance(item, type(sys)) else getattr(item, "__dict__", None)
    return list(fields.values())[:_MOST] if type(fields) is dict else []


def _fault(item: Any, changed_files: tuple[str, ...]) -> str | None:
    kind: Any = type(item)
    if kind.__eq__ is object.__eq__ and kind.__ne__ is object.__ne__:
        return None
    # What tests compare with comes first: a value may be equal to the first one only.
    others = [
        other
        for base, change in _CHANGED.items()
        if isinstance(item, base) and not isinstance(item, bool)
        for other in change(item)
        if base.__eq__(item, other) is False
    ]
    while others:
        if _is_taken(item, others.pop(0)):
            return "changed copy"
    if _is_taken(item, Sentinel()) or type(item) is not kind:
        return "sentinel"
    for name in ("__eq__", "__ne__"):
        method = getattr(type(item), name, None)
        code = getattr(method, "__code__", None)
        if code is not None and os.path.realpath(code.co_filename) in changed_files:
            return "own equality"
    return None


def _is_taken(item: Any, other: Any) -> bool:
    """Return True if a value is equal to another one, or keeps it after they were compared."""
    before = sys.getrefcount(other)
    if _equal(item, other):
        return True
    if sys.getrefcount(other) > before:
        gc.collect()
    return sys.getrefcount(other) > before


def _equal(item: Any, other: Any) -> bool:
    try:
        return bool(item == other) or bool(other == item) or not bool(item != other)
    except Exception:  # the value's own code
        return False
