"""Lesson types: a page with its text, the occurrences that support it, and the record made from both."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from reflectloop.lessons import lesson_words

Kind = Literal[
    "decision",
    "constraint",
    "interface",
    "problem",
    "pattern",
    "preference",
    "antipattern",
    "failfix",
    "rule_patch",
]
Status = Literal["candidate", "active", "retired", "conflict"]
Scope = Literal["project", "user"]
Level = Literal["L0", "L1", "L2", "L3"]
What = Literal["seen", "worked", "failed", "retired", "accepted", "rejected"]
RULINGS: frozenset[What] = frozenset(("retired", "accepted", "rejected"))  # decisions of a person, not occurrences
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]
STATUSES: tuple[Status, ...] = Status.__args__  # type: ignore[attr-defined]

_LONGEST_TITLE, _LONGEST_BODY, _MOST_WORDS = 300, 100_000, 64


def _valid_unicode(value: object) -> object:
    """Replace unpaired surrogates, which cannot be written to a file."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-8", "replace").decode()


def _one_line(value: object) -> object:
    """Return one line of printable characters."""
    if isinstance(value, str) and value.isascii() and value.isprintable():
        return value.strip()
    text = _valid_unicode(value)
    if not isinstance(text, str):
        return text
    return (text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)).strip()


Line = Annotated[str, BeforeValidator(_one_line), Field(max_length=_LONGEST_TITLE)]
Words = Annotated[str, BeforeValidator(_valid_unicode), Field(max_length=_LONGEST_BODY)]


class Page(BaseModel):
    """The text of a lesson, without what changes per occurrence, so that two branches write the same file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    title: Annotated[Line, Field(min_length=1)]
    signature: Line = ""
    keywords: Annotated[tuple[Line, ...], Field(max_length=_MOST_WORDS)] = ()
    fix: Words = ""  # of a failfix, as text
    commands: Annotated[tuple[Words, ...], Field(max_length=_MOST_WORDS)] = ()  # of a failfix, as commands
    impact: bool = False  # on architecture, security, performance or several modules
    reusable: bool = False  # in other projects too
    status: Literal["active", "retired"] | None = None  # set by a person; otherwise computed
    same_as: Line = ""  # id of the lesson that this page rephrases
    contradicts: Annotated[tuple[Line, ...], Field(max_length=_MOST_WORDS)] = ()  # ids
    body: Words = ""

    @cached_property
    def mark(self) -> str:
        """The signature by which the same failure or idea is recognised."""
        return self.signature or lesson_words.signature(f"{self.kind} {self.title}")

    @property
    def words(self) -> str:
        """All text that somebody wrote in the page."""
        marks = (self.signature, self.same_as, *self.contradicts)
        return "\n".join((self.title, *marks, *self.keywords, self.fix, *self.commands, self.body))

    @property
    def remedy(self) -> str:
        """The part that keeps several fixes or rules for one failure apart."""
        if self.kind == "rule_patch":
            return self.body.strip()
        return json.dumps([self.fix, *self.commands]) if self.kind == "failfix" else ""

    @cached_property
    def id(self) -> str:
        return "L-" + lesson_words.digest(f"{self.kind}\n{self.mark}\n{self.remedy}")[:10]

    @cached_property
    def heading(self) -> tuple[str, str, str]:
        return (self.kind, lesson_words.signature(self.title), self.remedy)


class Occurrence(BaseModel):
    """One occurrence of a lesson, or one trial of its fix. Never changed once written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lesson: str
    what: What = "seen"
    at: str = ""
    run: str = ""
    step: str = ""
    ticket: str = ""
    level: Level = "L0"
    refs: tuple[str, ...] = ()
    note: Words = ""
    name: str = ""  # its name on a page of the gates, such as D001
    times: Annotated[int, Field(ge=1, le=1_000_000)] = 1

    @property
    def words(self) -> str:
        return "\n".join((self.note, self.run, self.step, self.ticket, self.name, self.lesson, *self.refs))


class Evidence(NamedTuple):
    """The strength of the evidence, and references to it."""

    level: Level = "L0"
    refs: tuple[str, ...] = ()


class Source(NamedTuple):
    """The run, step and ticket a lesson comes from."""

    run: str = ""
    step: str = ""
    ticket: str = ""


@dataclass(frozen=True, slots=True)
class Lesson:
    """Everything known about a lesson, as it is displayed, searched and exported."""

    id: str
    kind: Kind
    title: str
    body: str
    signature: str
    keywords: tuple[str, ...]
    evidence: Evidence
    count: int
    first_seen: str
    last_seen: str
    status: Status
    source: Source
    scope: Scope
    fix: str
    commands: tuple[str, ...]
    worked: int
    failed: int
    impact: bool
    reusable: bool
    name: str
    aliases: tuple[str, ...]  # further ids and signatures
    contradicts: tuple[str, ...]
    notes: tuple[str, ...]  # other wordings, reasons
    runs: tuple[str, ...]
    files: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**plain, "evidence": self.evidence._asdict(), "source": self.source._asdict()}


def of_record(record: dict[str, Any]) -> Lesson:
    """Build a Lesson from the JSON form of `record`."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in record.items()
    }
    values["evidence"] = Evidence(record["evidence"]["level"], tuple(record["evidence"]["refs"]))
    values["source"] = Source(**record["source"])
    return Lesson(**values)
