"""Reads one JSON object out of an agent's reply: fences and prose around it are passed over, faults in it are not."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

LARGEST = 32 << 20  # bytes of a request
DEEPEST = 64
_TRIES = 200
_MOST, _FREE = 20_000, ("value",)  # values, but for those that are only written to a file
_BEGINS = re.compile(r"\{\s*[\"}]")
_LONE = re.compile("[\ud800-\udfff]")

Place = tuple[str | int, ...]


class JsonFault(NamedTuple):
    """One thing wrong: the place from the top of the object, and what to do about it."""

    place: Place
    words: str


class NoJsonObject(Exception):
    """There is no object to look at."""

    def __init__(self, words: str, place: Place = ()) -> None:
        self.words, self.place = words, place
        super().__init__(words)


class _Doubled(dict[str, Any]):
    """An object that names a key more than once."""

    twice: tuple[str, ...] = ()


def dotted(place: Place) -> str:
    """`("ops", 0, "path")` as `ops[0].path`."""
    out = ""
    for part in place:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out


def read(raw: bytes, marks: frozenset[str]) -> tuple[dict[str, Any], list[JsonFault]]:
    """The one object in a text that has a key among `marks`, and what is wrong with it as JSON."""
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
    found = [value for value in _objects(text) if marks & value.keys()]
    if not found:
        raise NoJsonObject("holds no JSON object with " + " or ".join(f"'{mark}'" for mark in sorted(marks)))
    if any(other != found[0] for other in found[1:]):
        raise NoJsonObject(f"holds {len(found)} requests; one is read at a time")
    return found[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Objects that stand side by side in a text. A broken one ends the search: what follows may be a part of it."""
    position = 0
    for _ in range(_TRIES):
        begin = _BEGINS.search(text, position)
        if begin is None:
            return
        value, position = _decoded(text, begin.start())
        yield value
    raise NoJsonObject("holds too many objects to tell which one is meant")


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
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)


def _faults(top: dict[str, Any]) -> Iterator[JsonFault]:
    """Keys that stand twice, text that no file can hold, depth and number; without recursion."""
    waiting: list[tuple[Place, Any]] = [((), top)]
    count = 0
    while waiting:
        place, value = waiting.pop()
        count += place[2:3] != _FREE
        if count > _MOST:
            raise NoJsonObject(f"holds more than {_MOST} values")
        if isinstance(value, str):
            if _LONE.search(value):
                yield JsonFault(place, "holds half of a surrogate pair, which is no text")
        elif len(place) > DEEPEST:
            raise NoJsonObject(f"is nested deeper than {DEEPEST} levels", place[:3])
        elif isinstance(value, dict):
            yield from (JsonFault((*place, key), "stands twice in one object") for key in getattr(value, "twice", ()))
            yield from (JsonFault(place, "has a key that is no text") for key in value if _LONE.search(key))
            waiting += [((*place, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [((*place, number), item) for number, item in enumerate(value)]
