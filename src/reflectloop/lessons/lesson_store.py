"""Save, find, merge and retire lessons, whatever the state of the index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from reflectloop.errors import Fault, InvalidInput, NothingToDo
from reflectloop.lessons import lesson_files as shelves
from reflectloop.lessons import lesson_page
from reflectloop.lessons.jsonl import LessonExport, LessonUpload
from reflectloop.lessons.lesson import KINDS, STATUSES, Lesson, Occurrence, Page
from reflectloop.lessons.lesson_files import LessonDir

LIVING = tuple(status for status in STATUSES if status != "retired")


class Library(NamedTuple):
    """All lessons of a scope, and the faults of its files."""

    lessons: tuple[Lesson, ...]
    faults: tuple[Fault, ...]  # of damaged files; the others are usable


class NewLesson(NamedTuple):
    """A new lesson with the sighting it comes from."""

    page: Page
    sighting: Occurrence


class LessonWrite(NamedTuple):
    """The id of a saved lesson, and whether it is new."""

    id: str
    is_new: bool


# Finding ----------------------------------------------------------------------------------------------------------


def read(shelf: LessonDir) -> Library:
    if not shelf.folder.is_dir():
        return Library((), ())
    from reflectloop.lessons import index  # noqa: PLC0415 - it brings sqlite3

    def load(opened: index.Index) -> Library:
        opened.refresh(shelf)
        return Library(tuple(opened.lessons()), tuple(opened.faults()))

    return index.ask(shelf, load)


def stock(shelf: LessonDir) -> LessonExport:
    from reflectloop.lessons import index  # noqa: PLC0415

    def load(opened: index.Index) -> LessonExport:
        opened.refresh(shelf)
        return opened.stock()

    return index.ask(shelf, load)


def search(
    shelf: LessonDir, query: str, *, kinds: Sequence[str] = KINDS, statuses: Sequence[str] = LIVING, limit: int = 20
) -> list[Lesson]:
    """Return the best matches first, as their files are now."""
    from reflectloop.lessons import index  # noqa: PLC0415

    wanted = index.LessonQuery(query, kinds, statuses, limit)

    def query_index(opened: index.Index) -> list[Lesson]:
        if not opened.is_current(shelf):
            opened.refresh(shelf)
        hits = opened.search(wanted)
        if opened.unchanged(shelf, hits):
            return hits
        opened.refresh(shelf)
        return opened.search(wanted)

    return index.ask(shelf, query_index)


def by_mark(shelf: LessonDir, mark: str) -> list[Lesson]:
    """Return the lessons with this id or signature."""
    from reflectloop.lessons import index  # noqa: PLC0415

    def query_index(opened: index.Index) -> list[Lesson]:
        if not opened.is_current(shelf):
            opened.refresh(shelf)
        return opened.named(mark)

    return index.ask(shelf, query_index)


def pick(lessons: Iterable[Lesson], name: str) -> Lesson:
    """Return the lesson with this id, the beginning of its id, or its full title."""
    wanted = name if name.startswith("L-") else f"L-{name}"
    usable = len(wanted) > len("L-")
    every = list(lessons)
    exact = [lesson for lesson in every if name in (lesson.id, lesson.title, *lesson.aliases)]
    matches = exact or [lesson for lesson in every if usable and lesson.id.startswith(wanted)]
    if len({lesson.id for lesson in matches}) > 1:  # if it exists in both scopes, the project's is used
        raise InvalidInput(f"{name!r} matches {len(matches)} lessons", next_step="use its full id")
    if not matches:
        raise NothingToDo(f"there is no lesson {name!r}", next_step="reflectloop lessons list --all")
    return matches[0]


# Saving -----------------------------------------------------------------------------------------------------------


def keep(shelf: LessonDir, drafts: Sequence[NewLesson], sitting: str) -> list[LessonWrite]:
    """Save new lessons and count known ones; everything is checked for secrets before anything is written."""
    _check_session_id(sitting)
    for page, sighting in drafts:
        shelves.refuse_secret(page.words, f"the lesson {page.title!r}")
        shelves.refuse_secret(sighting.words, f"a sighting of {page.title!r}")
    with shelves.writing(shelf, "lessons"):
        known = _known(shelf, [page for page, _ in drafts])
        saved: list[LessonWrite] = []
        sightings: list[Occurrence] = []
        for page, sighting in drafts:
            old = known.get(page.id) or known.get(page.heading)
            if old is None:
                shelves.put(shelf, page)
            note = page.body if old and page.body not in ("", old.body, *old.notes) and not sighting.note else ""
            changes = {"lesson": old.id if old else page.id, **({"note": note} if note else {})}
            sightings.append(sighting.model_copy(update=changes))
            saved.append(
                LessonWrite(str(changes["lesson"]), old is None and page.id not in {item.id for item in saved})
            )
        shelves.note(shelf, sitting, sightings)
    return saved


def _known(shelf: LessonDir, drafts: Sequence[Page]) -> dict[object, Lesson]:
    """Return the lessons that these pages already belong to, by id and heading."""
    if not shelf.folder.is_dir():
        return {}
    from reflectloop.lessons import index  # noqa: PLC0415

    def look_up(opened: index.Index) -> dict[object, Lesson]:
        opened.refresh(shelf)
        matches = [(page, opened.same(page)) for page in drafts]
        return {key: lesson for page, lesson in matches if lesson for key in (page.id, page.heading)}

    return index.ask(shelf, look_up)


def _check_session_id(sitting: str) -> None:
    if not re.fullmatch(r"[\w][\w.-]{0,99}", sitting):
        raise InvalidInput(f"{sitting!r} is not a valid session id")


def take_in(shelf: LessonDir, incoming: LessonUpload, sitting: str) -> int:
    """Import pages and sightings unchanged; they combine with existing ones as after a git merge."""
    _check_session_id(sitting)
    for page in incoming.pages:
        shelves.refuse_secret(page.words, f"the lesson {page.title!r}")
    for sighting in incoming.sightings:
        shelves.refuse_secret(sighting.words, f"a sighting of {sighting.lesson}")
    with shelves.writing(shelf, "lessons import"):
        existing = stock(shelf)
        before, known = {lesson_page.name(page) for page in existing.pages.values()}, set(existing.sightings)
        new = {lesson_page.name(page): page for page in incoming.pages}
        fresh = dict.fromkeys(sighting for sighting in incoming.sightings if sighting not in known)
        shelves.note(shelf, sitting, list(fresh))
        for name in new.keys() - before:
            shelves.put(shelf, new[name])
    return len(new.keys() - before)


def merge(shelf: LessonDir, into: Lesson, others: Sequence[Lesson]) -> None:
    """Make these lessons other wordings of one: their sightings count for it, and their text becomes notes."""
    with shelves.writing(shelf, "lessons merge"):
        for other in others:
            if other.kind != into.kind:
                raise InvalidInput(f"{other.id} is a {other.kind} and {into.id} a {into.kind}: they are not the same")
        for name in (name for other in others for name in other.files):
            shelves.amend(shelf, name, "same_as", into.id)


def settle(
    shelf: LessonDir, lesson: Lesson, status: Literal["active", "retired"], why: Occurrence, sitting: str
) -> None:
    """Set the status decided by a person. A retired lesson is found with --all, but no longer advises."""
    _check_session_id(sitting)
    shelves.refuse_secret(why.note, "the reason")
    with shelves.writing(shelf, "lessons"):
        for name in lesson.files:
            shelves.amend(shelf, name, "status", status)
        shelves.note(shelf, sitting, [why])
