"""A page as a file: front matter that people review, and the body quoted, since it is data and no instruction."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from pydantic import ValidationError

from reflectloop.errors import Fault, InvalidInput
from reflectloop.knowledge import words
from reflectloop.knowledge.lesson import Page
from reflectloop.plan import strict_yaml
from reflectloop.terms import wrong_shape

_FENCE = "---"
_FIELDS = tuple(name for name in Page.model_fields if name != "body")
_LONGEST = 1 << 20
_PLAIN = re.compile(r"[a-z_]+\Z")


class Damaged(Exception):
    """A file that is no page; every fault with its line."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(map(str, faults)))


# Writing ----------------------------------------------------------------------------------------------------------


def text(page: Page) -> str:
    """The same page gives the same bytes wherever it is written."""
    filled = page.model_dump(mode="json", exclude_defaults=True)
    head = [f"{name}: {_value(filled[name])}" for name in _FIELDS if name in filled]
    body = [f"> {line}".rstrip() for line in page.body.splitlines()]
    return "\n".join([_FENCE, *head, _FENCE, *(["", *body] if body else []), ""])


def _value(value: object) -> str:
    """JSON is YAML; a plain word needs no quotes."""
    if isinstance(value, str) and _PLAIN.match(value) and value not in ("true", "false", "null"):
        return value
    return json.dumps(value, ensure_ascii=True)


def name(page: Page) -> str:
    """By its content: two that differ never meet in one file, so git merges them; two that do not are one."""
    return f"{page.kind}/{words.slug(page.title)}-{words.digest(text(page))[:8]}.md"


def with_field(old: str, field: str, value: str) -> str:
    """The file with one field set; whatever else a person wrote there stays."""
    head, *lines = old.splitlines(keepends=True)
    end = next(at for at, line in enumerate(lines) if line.rstrip() == _FENCE)
    kept = [line for line in lines[:end] if not line.startswith(f"{field}:")]
    return "".join([head, *kept, f"{field}: {_value(value)}\n", *lines[end:]])


# Reading ----------------------------------------------------------------------------------------------------------


class _Parts(NamedTuple):
    head: list[str]
    body: list[str]


def read(raw: bytes) -> Page:
    parts = _split(raw)
    quick = _quick(parts.head)
    document = strict_yaml.Document(quick) if quick is not None else _parsed(parts.head)
    if document.faults:
        raise Damaged(*(_moved(fault) for fault in document.faults))
    if not isinstance(document.value, dict):
        raise Damaged(_fault("", 2, "the front matter must be a mapping"))
    if "body" in document.value:
        raise Damaged(_fault("body", _line(document, ("body",)), "the body stands below the front matter"))
    try:
        return Page.model_validate({**document.value, "body": _unquoted(parts.body)})
    except ValidationError as fault:
        located = document if quick is None else _parsed(parts.head)
        raise Damaged(*_wrong(fault, located)) from fault


def _split(raw: bytes) -> _Parts:
    if len(raw) > _LONGEST:
        raise Damaged(_fault("", None, "a lesson has at most 1 MB, and this file has more"))
    try:
        lines = raw.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as fault:
        raise Damaged(_fault("", raw.count(b"\n", 0, fault.start) + 1, "this is no UTF-8 text")) from fault
    if not lines or lines[0].rstrip() != _FENCE:
        raise Damaged(_fault("", 1, "a lesson begins with '---' and its front matter"))
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() == _FENCE), None)
    if end is None:
        raise Damaged(_fault("", len(lines), "the front matter has no end: a line '---' is missing"))
    return _Parts(lines[1:end], lines[end + 1 :])


def _quick(head: list[str]) -> strict_yaml.Value:
    """The form we write ourselves, a JSON value or a word a line; None where it is any other YAML."""
    out: dict[str, strict_yaml.Value] = {}
    for line in head:
        field, colon, value = line.partition(": ")
        if not colon or field in out or not _PLAIN.match(field):
            return None
        try:
            out[field] = value if _PLAIN.match(value) and value not in ("true", "false", "null") else json.loads(value)
        except (ValueError, RecursionError):
            return None
    return out


def _parsed(head: list[str]) -> strict_yaml.Document:
    try:
        return strict_yaml.parse("\n".join(head).encode())
    except strict_yaml.Refused as refused:
        last = min(refused.fault.line or 1, len(head))  # what has no end is missed on the line after
        raise Damaged(_moved(refused.fault._replace(line=last))) from refused


def _unquoted(lines: list[str]) -> str:
    said = [line for line in lines if line.strip()]
    if said and all(line.startswith(">") for line in said):
        lines = [line.removeprefix(">").removeprefix(" ") for line in lines]
    return "\n".join(lines).strip("\n")


def _wrong(fault: ValidationError, document: strict_yaml.Document) -> list[Fault]:
    out = []
    for error in fault.errors():
        place = tuple(error["loc"])
        known = f"unknown field; known are {', '.join(_FIELDS)}"
        unknown = error["type"] == "extra_forbidden"
        words_ = known if unknown else wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
        out.append(_fault(strict_yaml.dotted(place), _line(document, place), words_))
    return out


def _line(document: strict_yaml.Document, place: strict_yaml.Path) -> int:
    return (document.line(place) or 1) + 1  # the line of '---' comes before


def _moved(fault: Fault) -> Fault:
    return _fault(fault.path, (fault.line or 1) + 1, fault.message)


def _fault(place: str, line: int | None, message: str) -> Fault:
    return Fault(place, line, message, InvalidInput.code)
