"""Build lessons from pages and occurrences: merge equal ones, count them, find contradictions, set the status. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from reflectloop.lessons import lesson_words
from reflectloop.lessons.lesson import RULINGS, Evidence, Kind, Lesson, Occurrence, Page, Scope, Source, Status

OFTEN = 2
_MOST_REFS, _MOST_NOTES = 20, 20
_OPINIONS: frozenset[Kind] = frozenset(("decision", "constraint", "interface", "pattern", "preference", "antipattern"))


class LessonHistory(NamedTuple):
    """The pages of one lesson, oldest first, with all its occurrences."""

    pages: tuple[tuple[str, Page], ...]  # with the names of their files
    occurrences: tuple[Occurrence, ...]

    @property
    def page(self) -> Page:
        return self.pages[0][1]


def fold(pages: Mapping[str, Page], occurrences: Iterable[Occurrence], scope: Scope = "project") -> list[Lesson]:
    """Return the lessons ordered by id, whatever the order of the files."""
    return disputed(folded(pages, occurrences, scope))


def folded(pages: Mapping[str, Page], occurrences: Iterable[Occurrence], scope: Scope) -> list[Lesson]:
    """Return the lessons without marking contradictions between them."""
    occurrences_of: dict[str, list[Occurrence]] = defaultdict(list)
    for item in occurrences:
        occurrences_of[item.lesson].append(item)
    known = [_known(group, occurrences_of) for group in _groups(pages, occurrences_of)]
    return sorted((_lesson(item, scope) for item in known), key=lambda item: item.id)


# Merging ----------------------------------------------------------------------------------------------------------


def _groups(pages: Mapping[str, Page], occurrences_of: Mapping[str, list[Occurrence]]) -> list[list[tuple[str, Page]]]:
    """Group the pages with the same id or title, and those that a person declared to be the same."""
    oldest = {id_: min((occurrence.at for occurrence in seen), default="") for id_, seen in occurrences_of.items()}
    ordered = sorted(pages.items(), key=lambda pair: (oldest.get(pair[1].id, "~"), pair[1].id, pair[0]))
    group_of: dict[object, list[tuple[str, Page]]] = {}
    for name, page in ordered:
        groups = list({id(group): group for key in _keys(page) if (group := group_of.get(key))}.values())
        target = [member for group in groups for member in group] + [(name, page)]
        for _, member in target:
            group_of |= dict.fromkeys(_keys(member), target)
    return list({id(group): group for group in group_of.values()}.values())


def _keys(page: Page) -> list[object]:
    return [page.id, page.heading, *([page.same_as] if page.same_as else [])]


def _known(group: Sequence[tuple[str, Page]], occurrences_of: Mapping[str, list[Occurrence]]) -> LessonHistory:
    ids = {page.id for _, page in group}
    leading = [item for item in group if not item[1].same_as] or list(group)
    rest = [item for item in group if item not in leading]
    all_seen = [item for id_ in ids for item in occurrences_of.get(id_, ())]
    if len(all_seen) > 1:
        all_seen.sort(key=lambda item: (item.at, item.model_dump_json()))
    return LessonHistory((*leading, *rest), tuple(dict.fromkeys(all_seen)))


# Building a lesson ------------------------------------------------------------------------------------------------


def _lesson(known: LessonHistory, scope: Scope) -> Lesson:
    page = known.page
    met = _met(known.occurrences)
    results = {
        what: sum(item.times for item in known.occurrences if item.what == what) for what in ("worked", "failed")
    }
    times = sorted(item.at for item in known.occurrences if item.at)
    first = known.occurrences[0] if known.occurrences else Occurrence(lesson=page.id)
    impact, reusable = (any(getattr(item, name) for _, item in known.pages) for name in ("impact", "reusable"))
    count = max(1, met)
    also = [item for _, other in known.pages for item in (other.id, other.mark) if item not in (page.id, page.mark)]
    return Lesson(
        id=page.id,
        kind=page.kind,
        title=page.title,
        body=page.body,
        signature=page.mark,
        keywords=tuple(dict.fromkeys(word for _, item in known.pages for word in item.keywords)),
        evidence=_evidence(known.occurrences),
        count=count,
        first_seen=times[0] if times else "",
        last_seen=times[-1] if times else "",
        status=_status(known, count, results["worked"], results["failed"], great=impact or reusable),
        source=Source(first.run, first.step, first.ticket),
        scope=scope,
        fix=page.fix,
        commands=page.commands,
        worked=results["worked"],
        failed=results["failed"],
        impact=impact,
        reusable=reusable,
        name=next((item.name for item in known.occurrences if item.name), ""),
        aliases=tuple(dict.fromkeys(also)),
        contradicts=tuple(dict.fromkeys(other for _, item in known.pages for other in item.contradicts)),
        notes=_notes(known),
        runs=tuple(dict.fromkeys(item.run for item in known.occurrences if item.run)),
        files=tuple(name for name, _ in known.pages),
    )


def _met(occurrences: Sequence[Occurrence]) -> int:
    """Return how often the lesson occurred: once per run, however often that run was judged."""
    met = [occurrence for occurrence in occurrences if occurrence.what not in RULINGS]
    return len({occurrence.run for occurrence in met if occurrence.run}) + sum(
        occurrence.times for occurrence in met if not occurrence.run
    )


def _evidence(occurrences: Sequence[Occurrence]) -> Evidence:
    refs = dict.fromkeys(ref for occurrence in occurrences for ref in occurrence.refs)
    return Evidence(max((occurrence.level for occurrence in occurrences), default="L0"), tuple(refs)[:_MOST_REFS])


def _notes(known: LessonHistory) -> tuple[str, ...]:
    other = [page.body for _, page in known.pages[1:] if page.body and page.body != known.page.body]
    return tuple(dict.fromkeys([*other, *(occurrence.note for occurrence in known.occurrences if occurrence.note)]))[
        -_MOST_NOTES:
    ]


def _status(known: LessonHistory, count: int, worked: int, failed: int, *, great: bool) -> Status:
    declared = {page.status for _, page in known.pages if not page.same_as}
    if "retired" in declared:
        return "retired"
    if failed > worked and known.page.kind == "failfix":
        return "retired"
    if known.page.kind == "rule_patch":  # a person must accept a rule, however often it was proposed
        return "active" if "active" in declared else "candidate"
    return "active" if "active" in declared or count >= OFTEN or great or worked else "candidate"


# Contradictions ---------------------------------------------------------------------------------------------------


def disputed(lessons: Sequence[Lesson]) -> list[Lesson]:
    """Mark both sides of a contradiction as `conflict`, until one of them is retired."""
    living = {name: lesson for lesson in lessons if lesson.status != "retired" for name in (lesson.id, *lesson.aliases)}
    against: dict[str, set[str]] = defaultdict(set)
    for lesson in living.values():
        for other in filter(None, map(living.get, lesson.contradicts)):
            if other.id != lesson.id:
                against[lesson.id].add(other.id)
                against[other.id].add(lesson.id)
    for left, right in _opposed(dict.fromkeys(living.values())):
        against[left.id].add(right.id)
        against[right.id].add(left.id)
    return [
        replace(lesson, status="conflict", contradicts=tuple(sorted(against[lesson.id])))
        if lesson.id in against
        else lesson
        for lesson in lessons
    ]


def topic(lesson: Lesson) -> str:
    """Return what two lessons must share to contradict each other by their wording, or "" if they cannot."""
    return lesson_words.stance(lesson.title).topic if lesson.kind in _OPINIONS else ""


def _opposed(lessons: Iterable[Lesson]) -> Iterable[tuple[Lesson, Lesson]]:
    sides: dict[str, tuple[list[Lesson], list[Lesson]]] = defaultdict(lambda: ([], []))
    for lesson in lessons:
        if lesson.kind in _OPINIONS:
            topic, against = lesson_words.stance(lesson.title)
            sides[topic][against != (lesson.kind == "antipattern")].append(lesson)
    return [(left, right) for topic, (for_, against) in sides.items() if topic for left in for_ for right in against]
