"""Export lessons to JSON lines and import them again; importing twice changes nothing. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from pydantic import ValidationError

from reflectloop.errors import Fault, InvalidInput
from reflectloop.lessons.lesson import Lesson, Occurrence, Page
from reflectloop.system import files
from reflectloop.terms import wrong_shape

_PAGE_FIELDS = ("kind", "title", "signature", "keywords", "fix", "commands", "impact", "reusable", "body")
_OTHER_FIELDS = frozenset((*(field.name for field in fields(Lesson)), "pages", "sightings")) - frozenset(_PAGE_FIELDS)


class LessonExport(NamedTuple):
    """Everything in a lesson folder, in the form it is written."""

    lessons: Sequence[Lesson]
    pages: Mapping[str, Page]
    occurrences: Sequence[Occurrence]


class LessonUpload(NamedTuple):
    """Imported pages and occurrences, and the faults of the import."""

    pages: list[Page]
    occurrences: list[Occurrence]
    faults: list[Fault]


def lines(stock: LessonExport) -> Iterator[str]:
    """Yield each lesson as a JSON line, with the pages and occurrences it was made from."""
    for lesson in stock.lessons:
        ids = {lesson.id, *lesson.aliases}
        more = {
            "pages": [_filled(stock.pages[name]) for name in lesson.files],
            "sightings": [_filled(occurrence) for occurrence in stock.occurrences if occurrence.lesson in ids],
        }
        yield files.json_text({**lesson.record(), **more}, indent=None)


def _filled(value: Page | Occurrence) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_defaults=True)


def read(raw: Iterable[bytes]) -> LessonUpload:
    """Read every lesson, and every fault with its line."""
    incoming = LessonUpload([], [], [])
    for number, line in enumerate(raw, 1):
        if not line.strip():
            continue
        try:
            pages, occurrences = _parsed(json.loads(line))
        except ValidationError as fault:
            incoming.faults.extend(_fault(number, dict(error)) for error in fault.errors())
        except (ValueError, TypeError, RecursionError) as fault:
            incoming.faults.append(Fault("", number, f"not a lesson: {fault}", InvalidInput.code))
        else:
            incoming.pages.extend(pages)
            incoming.occurrences.extend(occurrences)
    return incoming


def _parsed(record: object) -> tuple[list[Page], list[Occurrence]]:
    """Return the pages and occurrences of an exported line, or of a handwritten one with only a kind and a title."""
    if not isinstance(record, dict):
        raise TypeError("it is not a JSON object")
    page_fields = {name: value for name, value in record.items() if name not in _OTHER_FIELDS}
    retired = {"status": "retired"} if record.get("status") == "retired" else {}
    pages = [Page.model_validate(entry) for entry in record.get("pages") or ({**page_fields, **retired},)]
    occurrences = [
        Occurrence.model_validate(entry)
        for entry in record.get("sightings") or (_default_occurrence(record, pages[0]),)
    ]
    return pages, occurrences


def _default_occurrence(record: dict[str, Any], page: Page) -> dict[str, Any]:
    evidence, source = (record.get(name) or {} for name in ("evidence", "source"))
    if not isinstance(evidence, dict) or not isinstance(source, dict):
        raise TypeError("evidence and source must be objects")
    times = {"times": record["count"]} if "count" in record else {}
    return {"lesson": page.id, "at": record.get("last_seen", ""), **source, **evidence, **times}


def _fault(number: int, error: dict[str, Any]) -> Fault:
    unknown = error["type"] == "extra_forbidden"
    message = "unknown field" if unknown else wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
    return Fault(".".join(map(str, error["loc"])), number, message, InvalidInput.code)
