"""Parses one JSON object from an agent's reply: fences and prose around it are skipped, faults in it are not."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

LARGEST = 32 << 20  # bytes of a request
DEEPEST = 64
_TRIES = 200
_MOST, _FREE = 20_000, ("value",)  # values, not counting those that are only written to a file
_BEGINS = re.compile(r"\{\s*[\"}]")
_LONE = re.compile("[\ud800-\udfff]")

Place = tuple[str | int, ...]


class JsonFault(NamedTuple):
    """One fault: its place from the top of the object, and the message."""

    place: Place
    message: str


class NoJsonObject(Exception):
    """The text contains no usable JSON object."""

    def __init__(self, message: str, place: Place = ()) -> None:
        self.message, self.place = message, place
        super().__init__(message)


class _Doubled(dict[str, Any]):
    """An object with a duplicate key."""

    twice: tuple[str, ...] = ()


def read_object(raw: bytes, marks: frozenset[str]) -> tuple[dict[str, Any], list[JsonFault]]:
    """Return the only object in a text with a key in `marks`, and its faults as JSON."""
    if len(raw) > LARGEST:
        raise NoJsonObject(f"has more than {LARGEST >> 20} MB")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise NoJsonObject(f"byte {fault.start} is not UTF-8 text") from fault
    value = _only_one(text, marks)
    return value, list(_faults(value))


def _only_one(text: str, marks: frozenset[str]) -> dict[str, Any]:
    plain = text.strip()
    if plain.startswith("{"):
        value, end = _decoded(text, text.index("{"))
        if not text[end:].strip():
            return value
    objects = [value for value in _objects(text) if marks & value.keys()]
    if not objects:
        raise NoJsonObject("contains no JSON object with " + " or ".join(f"'{mark}'" for mark in sorted(marks)))
    if any(other != objects[0] for other in objects[1:]):
        raise NoJsonObject(f"contains {len(objects)} requests; only one is allowed")
    return objects[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in a text. A broken one ends the search: the rest may be part of it."""
    position = 0
    for _ in range(_TRIES):
        begin = _BEGINS.search(text, position)
        if begin is None:
            return
        value, position = _decoded(text, begin.start())
        yield value
    raise NoJsonObject("contains too many objects")


def _decoded(text: str, begin: int) -> tuple[dict[str, Any], int]:
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except json.JSONDecodeError as fault:
        raise NoJsonObject(f"is not JSON: {fault.msg} at line {fault.lineno}, column {fault.colno}") from fault
    except RecursionError as fault:
        raise NoJsonObject(f"is nested deeper than {DEEPEST} levels") from fault
    except ValueError as fault:
        raise NoJsonObject(f"is not JSON: {str(fault)[:200]}") from fault
    return value, end


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    counts = Counter(name for name, _ in pairs)
    doubled = _Doubled(value)
    doubled.twice = tuple(name for name, count in counts.items() if count > 1)
    return doubled


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)


def _faults(top: dict[str, Any]) -> Iterator[JsonFault]:
    """Yield duplicate keys and invalid text; raise on too many or too deeply nested values. Not recursive."""
    waiting: list[tuple[Place, Any]] = [((), top)]
    count = 0
    while waiting:
        place, value = waiting.pop()
        count += place[2:3] != _FREE
        if count > _MOST:
            raise NoJsonObject(f"contains more than {_MOST} values")
        if isinstance(value, str):
            if _LONE.search(value):
                yield JsonFault(place, "contains half of a surrogate pair, which is not valid text")
        elif len(place) > DEEPEST:
            raise NoJsonObject(f"is nested deeper than {DEEPEST} levels", place[:3])
        elif isinstance(value, dict):
            yield from (JsonFault((*place, key), "occurs twice in one object") for key in getattr(value, "twice", ()))
            yield from (JsonFault(place, "has a key that is not valid text") for key in value if _LONE.search(key))
            waiting += [((*place, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [((*place, number), item) for number, item in enumerate(value)]
