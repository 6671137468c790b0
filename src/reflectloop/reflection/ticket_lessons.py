"""The lessons that a reflection reads and writes: known fixes, anti-patterns, constraints and answers."""

from __future__ import annotations

from typing import NamedTuple

from reflectloop import secrets
from reflectloop.errors import ReflectloopError
from reflectloop.lessons import lesson_recall, lesson_scopes, lesson_store
from reflectloop.lessons.lesson import Lesson, Level, Occurrence, Page
from reflectloop.lessons.lesson_store import NewLesson
from reflectloop.reflection.reflection_report import AntiPattern
from reflectloop.reflection.ticket import Ticket
from reflectloop.system import clock
from reflectloop.workspace.folders import Folders

_LONGEST = 300  # of a title


def fixes(folders: Folders, signature: str) -> tuple[str, ...]:
    """Return what helped against this failure before, most successful first: commands, or else a description."""
    lessons = _known_fixes(folders, signature)
    return tuple(dict.fromkeys("; ".join(lesson.commands) or lesson.fix or lesson.title for lesson in lessons))


def commands(folders: Folders, signature: str) -> tuple[str, ...]:
    """Return the known fixes that are commands."""
    lessons = _known_fixes(folders, signature)
    return tuple(dict.fromkeys("; ".join(lesson.commands) for lesson in lessons if lesson.commands))


def _known_fixes(folders: Folders, signature: str) -> list[Lesson]:
    return list(lesson_recall.known_fixes(lesson_scopes.lesson_dirs(folders), signature))


class RecordedLesson(NamedTuple):
    lesson: str
    warnings: list[str]


def keep(folders: Folders, ticket: Ticket, signature: str, pattern: AntiPattern) -> list[str]:
    """Write an anti-pattern as a lesson; faults are returned as warnings."""
    return _write(folders, ticket, _pattern_page(signature, pattern)).warnings


def keep_pattern(folders: Folders, pattern: AntiPattern, ticket_id: str, signature: str) -> list[str]:
    """Write the anti-pattern of a report that somebody else wrote; nobody has seen it but its author."""
    page = _pattern_page(signature, pattern)
    occurrence = Occurrence(lesson=page.id, at=clock.stamp(clock.now()), ticket=ticket_id, level="L0")
    try:
        _keep(folders, page, occurrence)
    except ReflectloopError as fault:
        return [f"the {page.kind} {page.title!r} was not written: {fault.message}"]
    return []


def pattern_id(signature: str, pattern: AntiPattern) -> str:
    return _pattern_page(signature, pattern).id


def _pattern_page(signature: str, pattern: AntiPattern) -> Page:
    redact = secrets.current_detector().redact
    symptoms = "\n".join(f"- {symptom}" for symptom in pattern.symptoms)
    return Page(
        kind="antipattern",
        title=redact(pattern.pattern_name)[:_LONGEST],
        signature=signature,
        keywords=(str(pattern.error_type),),
        body=redact(f"{pattern.prevention}\n\nSymptoms:\n{symptoms}"),
    )


def constraint(folders: Folders, ticket: Ticket, text: str) -> RecordedLesson:
    """Write a minimum requirement as a lesson, for the next agent that does this work."""
    where = [word for word in (ticket.target, ticket.target_step) if word]
    title = secrets.current_detector().redact(text)[:_LONGEST]
    page = Page(kind="constraint", title=title, keywords=tuple(word[:_LONGEST] for word in where), impact=True)
    return _write(folders, ticket, page)


def answer(folders: Folders, ticket: Ticket, signature: str, what: str, fix: str) -> str:
    """Write a person's answer to an open question as a lesson and return its id; a secret in it is refused."""
    page = Page(kind="failfix", title=secrets.current_detector().redact(what)[:_LONGEST], signature=signature, fix=fix)
    return _keep(folders, page, _occurrence(page, ticket, "L0"))


def _write(folders: Folders, ticket: Ticket, page: Page) -> RecordedLesson:
    try:
        return RecordedLesson(_keep(folders, page, _occurrence(page, ticket, "L2")), [])
    except ReflectloopError as fault:
        return RecordedLesson("", [f"the {page.kind} {page.title!r} was not written: {fault.message}"])


def _keep(folders: Folders, page: Page, occurrence: Occurrence) -> str:
    place = lesson_scopes.project_dir(folders)
    (written,) = lesson_store.add_lessons(place, [NewLesson(page, occurrence)], lesson_scopes.new_session_id())
    return written.id


def _occurrence(page: Page, ticket: Ticket, level: Level) -> Occurrence:
    """Return one occurrence: L2 if the engine saw it, L0 if a person says it."""
    return Occurrence(
        lesson=page.id,
        at=clock.stamp(clock.now()),
        run=ticket.target or "" if ticket.quality_score is None else "",
        step=ticket.target_step or "",
        ticket=ticket.ticket_id,
        level=level,
    )
