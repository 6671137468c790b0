"""Save, find, merge and retire lessons, whatever the state of the index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from reflectloop.errors import Fault, InvalidInput, NothingToDo
from reflectloop.lessons import lesson_files, lesson_page
from reflectloop.lessons.jsonl import LessonExport, LessonUpload
from reflectloop.lessons.lesson import KINDS, STATUSES, Lesson, Occurrence, Page
from reflectloop.lessons.lesson_files import LessonDir

LIVING = tuple(status for status in STATUSES if status != "retired")


class Library(NamedTuple):
    """All lessons of a scope, and the faults of its files."""

    lessons: tuple[Lesson, ...]
    faults: tuple[Fault, ...]  # of damaged files; the others are usable


class NewLesson(NamedTuple):
    """A new lesson with the occurrence it comes from."""

    page: Page
    occurrence: Occurrence


class LessonWrite(NamedTuple):
    """The id of a saved lesson, and whether it is new."""

    id: str
    is_new: bool


# Finding ----------------------------------------------------------------------------------------------------------


def read(lesson_dir: LessonDir) -> Library:
    if not lesson_dir.folder.is_dir():
        return Library((), ())
    from reflectloop.lessons import index  # noqa: PLC0415 - it brings sqlite3

    def load(opened: index.Index) -> Library:
        opened.refresh(lesson_dir)
        return Library(tuple(opened.lessons()), tuple(opened.faults()))

    return index.ask(lesson_dir, load)


def stock(lesson_dir: LessonDir) -> LessonExport:
    from reflectloop.lessons import index  # noqa: PLC0415

    def load(opened: index.Index) -> LessonExport:
        opened.refresh(lesson_dir)
        return opened.stock()

    return index.ask(lesson_dir, load)


def search(
    lesson_dir: LessonDir,
    query: str,
    *,
    kinds: Sequence[str] = KINDS,
    statuses: Sequence[str] = LIVING,
    limit: int = 20,
) -> list[Lesson]:
    """Return the best matches first, as their files are now."""
    from reflectloop.lessons import index  # noqa: PLC0415

    wanted = index.LessonQuery(query, kinds, statuses, limit)

    def query_index(opened: index.Index) -> list[Lesson]:
        if not opened.is_current(lesson_dir):
            opened.refresh(lesson_dir)
        hits = opened.search(wanted)
        if opened.unchanged(lesson_dir, hits):
            return hits
        opened.refresh(lesson_dir)
        return opened.search(wanted)

    return index.ask(lesson_dir, query_index)


def by_mark(lesson_dir: LessonDir, mark: str) -> list[Lesson]:
    """Return the lessons with this id or signature."""
    from reflectloop.lessons import index  # noqa: PLC0415

    def query_index(opened: index.Index) -> list[Lesson]:
        if not opened.is_current(lesson_dir):
            opened.refresh(lesson_dir)
        return opened.named(mark)

    return index.ask(lesson_dir, query_index)


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


def add_lessons(lesson_dir: LessonDir, drafts: Sequence[NewLesson], session_id: str) -> list[LessonWrite]:
    """Save new lessons and count known ones; everything is checked for secrets before anything is written."""
    _check_session_id(session_id)
    for page, occurrence in drafts:
        lesson_files.refuse_secret(page.words, f"the lesson {page.title!r}")
        lesson_files.refuse_secret(occurrence.words, f"an occurrence of {page.title!r}")
    with lesson_files.writing(lesson_dir, "lessons"):
        known = _known(lesson_dir, [page for page, _ in drafts])
        saved: list[LessonWrite] = []
        occurrences: list[Occurrence] = []
        for page, occurrence in drafts:
            old = known.get(page.id) or known.get(page.heading)
            if old is None:
                lesson_files.put(lesson_dir, page)
            note = page.body if old and page.body not in ("", old.body, *old.notes) and not occurrence.note else ""
            changes = {"lesson": old.id if old else page.id, **({"note": note} if note else {})}
            occurrences.append(occurrence.model_copy(update=changes))
            saved.append(
                LessonWrite(str(changes["lesson"]), old is None and page.id not in {item.id for item in saved})
            )
        lesson_files.note(lesson_dir, session_id, occurrences)
    return saved


def _known(lesson_dir: LessonDir, drafts: Sequence[Page]) -> dict[object, Lesson]:
    """Return the lessons that these pages already belong to, by id and heading."""
    if not lesson_dir.folder.is_dir():
        return {}
    from reflectloop.lessons import index  # noqa: PLC0415

    def look_up(opened: index.Index) -> dict[object, Lesson]:
        opened.refresh(lesson_dir)
        matches = [(page, opened.same(page)) for page in drafts]
        return {key: lesson for page, lesson in matches if lesson for key in (page.id, page.heading)}

    return index.ask(lesson_dir, look_up)


def _check_session_id(session_id: str) -> None:
    if not re.fullmatch(r"[\w][\w.-]{0,99}", session_id):
        raise InvalidInput(f"{session_id!r} is not a valid session id")


def import_lessons(lesson_dir: LessonDir, incoming: LessonUpload, session_id: str) -> int:
    """Import pages and occurrences unchanged; they combine with existing ones as after a git merge."""
    _check_session_id(session_id)
    for page in incoming.pages:
        lesson_files.refuse_secret(page.words, f"the lesson {page.title!r}")
    for occurrence in incoming.occurrences:
        lesson_files.refuse_secret(occurrence.words, f"an occurrence of {occurrence.lesson}")
    with lesson_files.writing(lesson_dir, "lessons import"):
        existing = stock(lesson_dir)
        before, known = {lesson_page.name(page) for page in existing.pages.values()}, set(existing.occurrences)
        new = {lesson_page.name(page): page for page in incoming.pages}
        fresh = dict.fromkeys(occurrence for occurrence in incoming.occurrences if occurrence not in known)
        lesson_files.note(lesson_dir, session_id, list(fresh))
        for name in new.keys() - before:
            lesson_files.put(lesson_dir, new[name])
    return len(new.keys() - before)


def merge(lesson_dir: LessonDir, into: Lesson, others: Sequence[Lesson]) -> None:
    """Make these lessons other wordings of one: their occurrences count for it, and their text becomes notes."""
    with lesson_files.writing(lesson_dir, "lessons merge"):
        for other in others:
            if other.kind != into.kind:
                raise InvalidInput(f"{other.id} is a {other.kind} and {into.id} a {into.kind}: they are not the same")
        for name in (name for other in others for name in other.files):
            lesson_files.amend(lesson_dir, name, "same_as", into.id)


def settle(
    lesson_dir: LessonDir, lesson: Lesson, status: Literal["active", "retired"], why: Occurrence, session_id: str
) -> None:
    """Set the status decided by a person. A retired lesson is found with --all, but no longer advises."""
    _check_session_id(session_id)
    lesson_files.refuse_secret(why.note, "the reason")
    with lesson_files.writing(lesson_dir, "lessons"):
        for name in lesson.files:
            lesson_files.amend(lesson_dir, name, "status", status)
        lesson_files.note(lesson_dir, session_id, [why])
