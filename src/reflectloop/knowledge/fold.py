"""Lessons from pages and sightings: the same merged and counted, contradictions found, each with its status. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from reflectloop.knowledge import words
from reflectloop.knowledge.lesson import RULINGS, Evidence, Kind, Lesson, Page, Scope, Sighting, Source, Status

OFTEN = 2
_MOST_REFS, _MOST_NOTES = 20, 20
_OPINIONS: frozenset[Kind] = frozenset(("decision", "constraint", "interface", "pattern", "preference", "antipattern"))


class Known(NamedTuple):
    """One lesson's pages, the eldest first, with all that was seen of it."""

    pages: tuple[tuple[str, Page], ...]  # by the names of their files
    sightings: tuple[Sighting, ...]

    @property
    def page(self) -> Page:
        return self.pages[0][1]


def fold(pages: Mapping[str, Page], sightings: Iterable[Sighting], scope: Scope = "project") -> list[Lesson]:
    """In the order of their ids; which file was read first changes nothing."""
    return disputed(folded(pages, sightings, scope))


def folded(pages: Mapping[str, Page], sightings: Iterable[Sighting], scope: Scope) -> list[Lesson]:
    """The same, each by itself: what others say against it is left out."""
    seen: dict[str, list[Sighting]] = defaultdict(list)
    for one in sightings:
        seen[one.lesson].append(one)
    known = [_known(group, seen) for group in _groups(pages, seen)]
    return sorted((_lesson(one, scope) for one in known), key=lambda one: one.id)


# The same ---------------------------------------------------------------------------------------------------------


def _groups(pages: Mapping[str, Page], seen: Mapping[str, list[Sighting]]) -> list[list[tuple[str, Page]]]:
    """Pages of the same id, the same title, or said to be the same by a person."""
    eldest = {id_: min((one.at for one in some), default="") for id_, some in seen.items()}
    ordered = sorted(pages.items(), key=lambda pair: (eldest.get(pair[1].id, "~"), pair[1].id, pair[0]))
    group_of: dict[object, list[tuple[str, Page]]] = {}
    for name, page in ordered:
        met = list({id(found): found for key in _keys(page) if (found := group_of.get(key))}.values())
        target = [member for found in met for member in found] + [(name, page)]
        for _, member in target:
            group_of |= dict.fromkeys(_keys(member), target)
    return list({id(found): found for found in group_of.values()}.values())


def _keys(page: Page) -> list[object]:
    return [page.id, page.heading, *([page.same_as] if page.same_as else [])]


def _known(group: Sequence[tuple[str, Page]], seen: Mapping[str, list[Sighting]]) -> Known:
    own = {page.id for _, page in group}
    leading = [one for one in group if not one[1].same_as] or list(group)
    rest = [one for one in group if one not in leading]
    all_seen = [one for id_ in own for one in seen.get(id_, ())]
    if len(all_seen) > 1:
        all_seen.sort(key=lambda one: (one.at, one.model_dump_json()))
    return Known((*leading, *rest), tuple(dict.fromkeys(all_seen)))


# What is known of it ----------------------------------------------------------------------------------------------


def _lesson(known: Known, scope: Scope) -> Lesson:
    page = known.page
    met = _met(known.sightings)
    tally = {what: sum(one.times for one in known.sightings if one.what == what) for what in ("worked", "failed")}
    times = sorted(one.at for one in known.sightings if one.at)
    first = known.sightings[0] if known.sightings else Sighting(lesson=page.id)
    impact, reusable = (any(getattr(one, name) for _, one in known.pages) for name in ("impact", "reusable"))
    count = max(1, met)
    also = [one for _, other in known.pages for one in (other.id, other.mark) if one not in (page.id, page.mark)]
    return Lesson(
        id=page.id,
        kind=page.kind,
        title=page.title,
        body=page.body,
        signature=page.mark,
        keywords=tuple(dict.fromkeys(word for _, one in known.pages for word in one.keywords)),
        evidence=_evidence(known.sightings),
        count=count,
        first_seen=times[0] if times else "",
        last_seen=times[-1] if times else "",
        status=_status(known, count, tally["worked"], tally["failed"], great=impact or reusable),
        source=Source(first.run, first.step, first.ticket),
        scope=scope,
        fix=page.fix,
        commands=page.commands,
        worked=tally["worked"],
        failed=tally["failed"],
        impact=impact,
        reusable=reusable,
        name=next((one.name for one in known.sightings if one.name), ""),
        aliases=tuple(dict.fromkeys(also)),
        contradicts=tuple(dict.fromkeys(other for _, one in known.pages for other in one.contradicts)),
        notes=_notes(known),
        runs=tuple(dict.fromkeys(one.run for one in known.sightings if one.run)),
        files=tuple(name for name, _ in known.pages),
    )


def _met(sightings: Sequence[Sighting]) -> int:
    """How often it was met: once a run, however often that run was judged."""
    met = [one for one in sightings if one.what not in RULINGS]
    return len({one.run for one in met if one.run}) + sum(one.times for one in met if not one.run)


def _evidence(sightings: Sequence[Sighting]) -> Evidence:
    refs = dict.fromkeys(ref for one in sightings for ref in one.refs)
    return Evidence(max((one.level for one in sightings), default="L0"), tuple(refs)[:_MOST_REFS])


def _notes(known: Known) -> tuple[str, ...]:
    other = [page.body for _, page in known.pages[1:] if page.body and page.body != known.page.body]
    return tuple(dict.fromkeys([*other, *(one.note for one in known.sightings if one.note)]))[-_MOST_NOTES:]


def _status(known: Known, count: int, worked: int, failed: int, *, great: bool) -> Status:
    said = {page.status for _, page in known.pages if not page.same_as}
    if "retired" in said:
        return "retired"
    if failed > worked and known.page.kind == "failfix":
        return "retired"
    if known.page.kind == "rule_patch":  # how often it was proposed makes no rule of it: a person accepts it
        return "active" if "active" in said else "candidate"
    return "active" if "active" in said or count >= OFTEN or great or worked else "candidate"


# Contradicting ----------------------------------------------------------------------------------------------------


def disputed(lessons: Sequence[Lesson]) -> list[Lesson]:
    """Both sides of a contradiction stay, as `conflict`, until one of them is retired."""
    living = {name: one for one in lessons if one.status != "retired" for name in (one.id, *one.aliases)}
    against: dict[str, set[str]] = defaultdict(set)
    for one in living.values():
        for other in filter(None, map(living.get, one.contradicts)):
            if other.id != one.id:
                against[one.id].add(other.id)
                against[other.id].add(one.id)
    for left, right in _opposed(dict.fromkeys(living.values())):
        against[left.id].add(right.id)
        against[right.id].add(left.id)
    return [
        replace(one, status="conflict", contradicts=tuple(sorted(against[one.id]))) if one.id in against else one
        for one in lessons
    ]


def topic(one: Lesson) -> str:
    """What lessons must have in common to contradict each other by their words; empty where they cannot."""
    return words.stance(one.title).topic if one.kind in _OPINIONS else ""


def _opposed(lessons: Iterable[Lesson]) -> Iterable[tuple[Lesson, Lesson]]:
    sides: dict[str, tuple[list[Lesson], list[Lesson]]] = defaultdict(lambda: ([], []))
    for one in lessons:
        if one.kind in _OPINIONS:
            topic, against = words.stance(one.title)
            sides[topic][against != (one.kind == "antipattern")].append(one)
    return [(left, right) for topic, (for_, against) in sides.items() if topic for left in for_ for right in against]
