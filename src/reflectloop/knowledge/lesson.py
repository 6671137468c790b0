"""What a lesson is: a page that says it, the sightings that bear it out, and the record made of both."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from reflectloop.knowledge import words

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
RULINGS: frozenset[What] = frozenset(("retired", "accepted", "rejected"))  # a person's; nothing was met by them
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]
STATUSES: tuple[Status, ...] = Status.__args__  # type: ignore[attr-defined]

_LONGEST_TITLE, _LONGEST_BODY, _MOST_WORDS = 300, 100_000, 64


def _whole(value: object) -> object:
    """Half a character is none: it could be written nowhere."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-8", "replace").decode()


def _one_line(value: object) -> object:
    """One line of printable characters."""
    if isinstance(value, str) and value.isascii() and value.isprintable():
        return value.strip()
    text = _whole(value)
    if not isinstance(text, str):
        return text
    return (text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)).strip()


Line = Annotated[str, BeforeValidator(_one_line), Field(max_length=_LONGEST_TITLE)]
Words = Annotated[str, BeforeValidator(_whole), Field(max_length=_LONGEST_BODY)]


class Page(BaseModel):
    """What a lesson says, and nothing that changes each time it is seen: two branches write the same."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    title: Annotated[Line, Field(min_length=1)]
    signature: Line = ""
    keywords: Annotated[tuple[Line, ...], Field(max_length=_MOST_WORDS)] = ()
    fix: Words = ""  # of a failfix, in words
    commands: Annotated[tuple[Words, ...], Field(max_length=_MOST_WORDS)] = ()  # or as what can be run
    impact: bool = False  # on architecture, security, performance or several modules
    reusable: bool = False  # elsewhere too
    status: Literal["active", "retired"] | None = None  # a person's word; computed where there is none
    same_as: Line = ""  # the id of the lesson that this is another wording of
    contradicts: Annotated[tuple[Line, ...], Field(max_length=_MOST_WORDS)] = ()  # ids
    body: Words = ""

    @cached_property
    def mark(self) -> str:
        """By which the same failure or thought is known again."""
        return self.signature or words.signature(f"{self.kind} {self.title}")

    @property
    def words(self) -> str:
        """All that somebody said in it."""
        marks = (self.signature, self.same_as, *self.contradicts)
        return "\n".join((self.title, *marks, *self.keywords, self.fix, *self.commands, self.body))

    @property
    def remedy(self) -> str:
        """One failure can have several fixes, each with its own luck, and several rules, each judged by itself."""
        if self.kind == "rule_patch":
            return self.body.strip()
        return json.dumps([self.fix, *self.commands]) if self.kind == "failfix" else ""

    @cached_property
    def id(self) -> str:
        return "L-" + words.digest(f"{self.kind}\n{self.mark}\n{self.remedy}")[:10]

    @cached_property
    def heading(self) -> tuple[str, str, str]:
        return (self.kind, words.signature(self.title), self.remedy)


class Sighting(BaseModel):
    """One time that a lesson was met, or its fix tried. Never changed once it is written."""

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
    name: str = ""  # what a page of the gates calls it: D001
    times: Annotated[int, Field(ge=1, le=1_000_000)] = 1

    @property
    def words(self) -> str:
        return "\n".join((self.note, self.run, self.step, self.ticket, self.name, self.lesson, *self.refs))


class Evidence(NamedTuple):
    level: Level = "L0"
    refs: tuple[str, ...] = ()


class Source(NamedTuple):
    run: str = ""
    step: str = ""
    ticket: str = ""


@dataclass(frozen=True, slots=True)
class Lesson:
    """All that is known of it, as it is shown, searched and exported."""

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
    aliases: tuple[str, ...]  # ids and signatures it is known by as well
    contradicts: tuple[str, ...]
    notes: tuple[str, ...]  # other wordings, reasons
    runs: tuple[str, ...]
    files: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**plain, "evidence": self.evidence._asdict(), "source": self.source._asdict()}


def of_record(record: dict[str, Any]) -> Lesson:
    """Back from what `record` gave, by way of JSON."""
    given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in record.items()}
    given["evidence"] = Evidence(record["evidence"]["level"], tuple(record["evidence"]["refs"]))
    given["source"] = Source(**record["source"])
    return Lesson(**given)
