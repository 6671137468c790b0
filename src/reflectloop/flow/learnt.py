"""What a reflection takes from the project's lessons, and what it leaves among them."""

from __future__ import annotations

from reflectloop import secrets
from reflectloop.errors import ReflectloopError
from reflectloop.flow import lessons
from reflectloop.flow.folders import Folders
from reflectloop.knowledge import advice, library
from reflectloop.knowledge.lesson import Page, Sighting
from reflectloop.knowledge.library import Draft
from reflectloop.reflect.ticket import Ticket
from reflectloop.reflect.trace import AntiPattern
from reflectloop.world import clock

_LONGEST = 300  # of a title


def fixes(folders: Folders, signature: str) -> tuple[str, ...]:
    """What helped against this failure before, as commands where there are any; the luckiest first."""
    found = advice.known_fixes([lessons.project_shelf(folders), lessons.user_shelf()], signature)
    return tuple(dict.fromkeys("; ".join(one.commands) or one.fix or one.title for one in found))


def commands(folders: Folders, signature: str) -> tuple[str, ...]:
    """Those of them that can be typed as they are."""
    found = advice.known_fixes([lessons.project_shelf(folders), lessons.user_shelf()], signature)
    return tuple(dict.fromkeys("; ".join(one.commands) for one in found if one.commands))


def keep(folders: Folders, ticket: Ticket, signature: str, pattern: AntiPattern) -> list[str]:
    """The anti-pattern as a lesson, seen once more; what stands in the way is said, and changes nothing else."""
    redact = secrets.current().redact
    symptoms = "\n".join(f"- {one}" for one in pattern.symptoms)
    page = Page(
        kind="antipattern",
        title=redact(pattern.pattern_name)[:_LONGEST],
        signature=signature,
        keywords=(str(pattern.error_type),),
        body=redact(f"{pattern.prevention}\n\nSymptoms:\n{symptoms}"),
    )
    sighting = Sighting(
        lesson=page.id,
        at=clock.stamp(clock.now()),
        run=ticket.target or "" if ticket.quality_score is None else "",
        step=ticket.target_step or "",
        ticket=ticket.ticket_id,
        level="L2",  # the engine saw it
    )
    try:
        library.keep(lessons.project_shelf(folders), [Draft(page, sighting)], lessons.sitting())
    except ReflectloopError as fault:
        return [f"the anti-pattern {page.title!r} was not kept: {fault.message}"]
    return []
