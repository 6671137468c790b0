"""Lessons as JSON lines, out and in again: what was imported before is the same the second time. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from pydantic import ValidationError

from reflectloop.errors import Fault, InvalidInput
from reflectloop.knowledge.lesson import Lesson, Page, Sighting
from reflectloop.terms import wrong_shape

_SAID = ("kind", "title", "signature", "keywords", "fix", "commands", "impact", "reusable", "body")
_MORE = frozenset((*(one.name for one in fields(Lesson)), "pages", "sightings")) - frozenset(_SAID)


class Stock(NamedTuple):
    """All that a shelf holds, in the form it is written down."""

    lessons: Sequence[Lesson]
    pages: Mapping[str, Page]
    sightings: Sequence[Sighting]


class Incoming(NamedTuple):
    pages: list[Page]
    sightings: list[Sighting]
    faults: list[Fault]


def lines(stock: Stock) -> Iterator[str]:
    """Each lesson with the pages and sightings it was made of: nothing is lost on the way."""
    for one in stock.lessons:
        own = {one.id, *one.aliases}
        more = {
            "pages": [_filled(stock.pages[name]) for name in one.files],
            "sightings": [_filled(seen) for seen in stock.sightings if seen.lesson in own],
        }
        yield json.dumps({**one.record(), **more}, ensure_ascii=True)


def _filled(value: Page | Sighting) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_defaults=True)


def read(raw: Iterable[bytes]) -> Incoming:
    """Every lesson, and every fault with its line."""
    incoming = Incoming([], [], [])
    for number, line in enumerate(raw, 1):
        if not line.strip():
            continue
        try:
            pages, sightings = _taken(json.loads(line))
        except ValidationError as fault:
            incoming.faults.extend(_fault(number, dict(error)) for error in fault.errors())
        except (ValueError, TypeError, RecursionError) as fault:
            incoming.faults.append(Fault("", number, f"no lesson: {fault}", InvalidInput.code))
        else:
            incoming.pages.extend(pages)
            incoming.sightings.extend(sightings)
    return incoming


def _taken(record: object) -> tuple[list[Page], list[Sighting]]:
    """A line of ours, or one that somebody wrote with no more than a kind and a title."""
    if not isinstance(record, dict):
        raise TypeError("it is no JSON object")
    said = {name: value for name, value in record.items() if name not in _MORE}
    retired = {"status": "retired"} if record.get("status") == "retired" else {}
    pages = [Page.model_validate(one) for one in record.get("pages") or ({**said, **retired},)]
    seen = [Sighting.model_validate(one) for one in record.get("sightings") or (_one_sighting(record, pages[0]),)]
    return pages, seen


def _one_sighting(record: dict[str, Any], page: Page) -> dict[str, Any]:
    evidence, source = (record.get(name) or {} for name in ("evidence", "source"))
    if not isinstance(evidence, dict) or not isinstance(source, dict):
        raise TypeError("evidence and source must be objects")
    times = {"times": record["count"]} if "count" in record else {}
    return {"lesson": page.id, "at": record.get("last_seen", ""), **source, **evidence, **times}


def _fault(number: int, error: dict[str, Any]) -> Fault:
    unknown = error["type"] == "extra_forbidden"
    said = "unknown field" if unknown else wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
    return Fault(".".join(map(str, error["loc"])), number, said, InvalidInput.code)
