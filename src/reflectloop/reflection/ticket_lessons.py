"""What a reflection takes from the project's lessons, and what it leaves among them."""

from __future__ import annotations

from typing import NamedTuple

from reflectloop import secrets
from reflectloop.errors import ReflectloopError
from reflectloop.lessons import lesson_recall, lesson_scopes, lesson_store
from reflectloop.lessons.lesson import Level, Occurrence, Page
from reflectloop.lessons.lesson_store import NewLesson
from reflectloop.reflection.reflection_report import AntiPattern
from reflectloop.reflection.ticket import Ticket
from reflectloop.system import clock
from reflectloop.workspace.folders import Folders

_LONGEST = 300  # of a title


def fixes(folders: Folders, signature: str) -> tuple[str, ...]:
    """What helped against this failure before, as commands where there are any; the luckiest first."""
    found = lesson_recall.known_fixes([lesson_scopes.project_shelf(folders), lesson_scopes.user_shelf()], signature)
    return tuple(dict.fromkeys("; ".join(one.commands) or one.fix or one.title for one in found))


def commands(folders: Folders, signature: str) -> tuple[str, ...]:
    """Those of them that can be typed as they are."""
    found = lesson_recall.known_fixes([lesson_scopes.project_shelf(folders), lesson_scopes.user_shelf()], signature)
    return tuple(dict.fromkeys("; ".join(one.commands) for one in found if one.commands))


class RecordedLesson(NamedTuple):
    lesson: str
    warnings: list[str]


def keep(folders: Folders, ticket: Ticket, signature: str, pattern: AntiPattern) -> list[str]:
    """The anti-pattern as a lesson, seen once more; what stands in the way is said, and changes nothing else."""
    return _kept(folders, ticket, _pattern(signature, pattern)).warnings


def pattern_id(signature: str, pattern: AntiPattern) -> str:
    return _pattern(signature, pattern).id


def _pattern(signature: str, pattern: AntiPattern) -> Page:
    redact = secrets.current().redact
    symptoms = "\n".join(f"- {one}" for one in pattern.symptoms)
    return Page(
        kind="antipattern",
        title=redact(pattern.pattern_name)[:_LONGEST],
        signature=signature,
        keywords=(str(pattern.error_type),),
        body=redact(f"{pattern.prevention}\n\nSymptoms:\n{symptoms}"),
    )


def constraint(folders: Folders, ticket: Ticket, text: str) -> RecordedLesson:
    """What must be met at the least, for whoever does it next."""
    where = [word for word in (ticket.target, ticket.target_step) if word]
    title = secrets.current().redact(text)[:_LONGEST]
    page = Page(kind="constraint", title=title, keywords=tuple(word[:_LONGEST] for word in where), impact=True)
    return _kept(folders, ticket, page)


def answer(folders: Folders, ticket: Ticket, signature: str, what: str, said: str) -> str:
    """What was not known, once somebody says it: met with it the next time. A secret in it is refused."""
    page = Page(kind="failfix", title=secrets.current().redact(what)[:_LONGEST], signature=signature, fix=said)
    shelf = lesson_scopes.project_shelf(folders)
    (kept,) = lesson_store.keep(shelf, [NewLesson(page, _sighting(page, ticket, "L0"))], lesson_scopes.sitting())
    return kept.id


def _kept(folders: Folders, ticket: Ticket, page: Page) -> RecordedLesson:
    try:
        (kept,) = lesson_store.keep(
            lesson_scopes.project_shelf(folders),
            [NewLesson(page, _sighting(page, ticket, "L2"))],
            lesson_scopes.sitting(),
        )
    except ReflectloopError as fault:
        return RecordedLesson("", [f"the {page.kind} {page.title!r} was not kept: {fault.message}"])
    return RecordedLesson(kept.id, [])


def _sighting(page: Page, ticket: Ticket, level: Level) -> Occurrence:
    """L2 where the engine saw it, L0 where somebody says it."""
    return Occurrence(
        lesson=page.id,
        at=clock.stamp(clock.now()),
        run=ticket.target or "" if ticket.quality_score is None else "",
        step=ticket.target_step or "",
        ticket=ticket.ticket_id,
        level=level,
    )
