"""A page as a file: front matter for review, and a quoted body, since it is data and not an instruction."""

from __future__ import annotations

import json
from typing import NamedTuple

from pydantic import ValidationError

from reflectloop.errors import Fault, InvalidInput
from reflectloop.lessons import lesson_words
from reflectloop.lessons.lesson import Page
from reflectloop.plan import strict_yaml
from reflectloop.system import files
from reflectloop.system.patterns import lazy
from reflectloop.terms import dotted, wrong_shape

_FENCE = "---"
_FIELDS = tuple(name for name in Page.model_fields if name != "body")
_LONGEST = 1 << 20
_PLAIN = lazy(r"[a-z_]+\Z")


class DamagedPage(Exception):
    """Raised for a file that is not a valid page, with every fault and its line."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(map(str, faults)))


# Writing ----------------------------------------------------------------------------------------------------------


def text(page: Page) -> str:
    """Return the file content of a page; the same page always gives the same bytes."""
    filled = page.model_dump(mode="json", exclude_defaults=True)
    head = [f"{name}: {_value(filled[name])}" for name in _FIELDS if name in filled]
    body = [f"> {line}".rstrip() for line in page.body.splitlines()]
    return "\n".join([_FENCE, *head, _FENCE, *(["", *body] if body else []), ""])


def _value(value: object) -> str:
    """Return a value as JSON, which is valid YAML; a plain word needs no quotes."""
    if isinstance(value, str) and _PLAIN.match(value) and value not in ("true", "false", "null"):
        return value
    return files.json_text(value, indent=None)


def name(page: Page) -> str:
    """Return a file name that depends on the content, so that different pages never conflict in a git merge."""
    return f"{page.kind}/{lesson_words.slug(page.title)}-{lesson_words.digest(text(page))[:8]}.md"


def with_field(old: str, field: str, value: str) -> str:
    """Return the file with one field set, keeping everything else a person wrote."""
    head, *lines = old.splitlines(keepends=True)
    end = next(at for at, line in enumerate(lines) if line.rstrip() == _FENCE)
    others = [line for line in lines[:end] if not line.startswith(f"{field}:")]
    return "".join([head, *others, f"{field}: {_value(value)}\n", *lines[end:]])


# Reading ----------------------------------------------------------------------------------------------------------


class _Parts(NamedTuple):
    head: list[str]
    body: list[str]


def read(raw: bytes) -> Page:
    """Parse a page, or raise Damaged."""
    parts = _split(raw)
    quick = _quick(parts.head)
    document = strict_yaml.YamlDocument(quick) if quick is not None else _parsed(parts.head)
    if document.faults:
        raise DamagedPage(*(_moved(fault) for fault in document.faults))
    if not isinstance(document.value, dict):
        raise DamagedPage(_fault("", 2, "the front matter must be a mapping"))
    if "body" in document.value:
        raise DamagedPage(_fault("body", _line(document, ("body",)), "the body belongs below the front matter"))
    try:
        return Page.model_validate({**document.value, "body": _unquoted(parts.body)})
    except ValidationError as fault:
        located = document if quick is None else _parsed(parts.head)
        raise DamagedPage(*_wrong(fault, located)) from fault


def _split(raw: bytes) -> _Parts:
    if len(raw) > _LONGEST:
        raise DamagedPage(_fault("", None, "a lesson may have at most 1 MB, and this file is larger"))
    try:
        lines = raw.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as fault:
        raise DamagedPage(_fault("", raw.count(b"\n", 0, fault.start) + 1, "this is not UTF-8 text")) from fault
    if not lines or lines[0].rstrip() != _FENCE:
        raise DamagedPage(_fault("", 1, "a lesson begins with '---' and its front matter"))
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() == _FENCE), None)
    if end is None:
        raise DamagedPage(_fault("", len(lines), "the front matter has no end: a line '---' is missing"))
    return _Parts(lines[1:end], lines[end + 1 :])


def _quick(head: list[str]) -> strict_yaml.Value:
    """Parse the form the engine writes, a JSON value or a word per line; return None for any other YAML."""
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


def _parsed(head: list[str]) -> strict_yaml.YamlDocument:
    try:
        return strict_yaml.parse("\n".join(head).encode())
    except strict_yaml.UnreadableYaml as refused:
        last = min(refused.fault.line or 1, len(head))  # an unterminated value is reported on the following line
        raise DamagedPage(_moved(refused.fault._replace(line=last))) from refused


def _unquoted(lines: list[str]) -> str:
    filled = [line for line in lines if line.strip()]
    if filled and all(line.startswith(">") for line in filled):
        lines = [line.removeprefix(">").removeprefix(" ") for line in lines]
    return "\n".join(lines).strip("\n")


def _wrong(fault: ValidationError, document: strict_yaml.YamlDocument) -> list[Fault]:
    out = []
    for error in fault.errors():
        place = tuple(error["loc"])
        known = f"unknown field; known are {', '.join(_FIELDS)}"
        unknown = error["type"] == "extra_forbidden"
        message = known if unknown else wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
        out.append(_fault(dotted(place), _line(document, place), message))
    return out


def _line(document: strict_yaml.YamlDocument, place: strict_yaml.Path) -> int:
    return (document.line(place) or 1) + 1  # plus the line of '---'


def _moved(fault: Fault) -> Fault:
    return _fault(fault.path, (fault.line or 1) + 1, fault.message)


def _fault(place: str, line: int | None, message: str) -> Fault:
    return Fault(place, line, message, InvalidInput.code)
