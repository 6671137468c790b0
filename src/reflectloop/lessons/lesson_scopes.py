"""The lessons of a project and of its user: list, search, add, merge, retire, export and import them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from reflectloop import config, secrets
from reflectloop.errors import Fault, InvalidInput, NothingToDo
from reflectloop.lessons import jsonl, lesson_recall, lesson_store
from reflectloop.lessons.lesson import Kind, Lesson, Level, Occurrence, Page, Scope, Status
from reflectloop.lessons.lesson_files import LessonDir
from reflectloop.lessons.lesson_recall import Advice, Moment
from reflectloop.lessons.lesson_store import LessonWrite, Library, NewLesson
from reflectloop.settings_files import ACCEPTED_RULES
from reflectloop.system import clock
from reflectloop.terms import wrong_shape
from reflectloop.workspace.folders import Folders, open_project_dirs, user_knowledge


def project_dir(folders: Folders) -> LessonDir:
    return LessonDir(folders.knowledge, folders.own / "cache" / "lessons")


def user_dir() -> LessonDir:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return LessonDir(user_knowledge(), cache / "reflectloop" / "lessons", "user")


def lesson_dirs(folders: Folders) -> tuple[LessonDir, LessonDir]:
    """Return the lesson folders that apply to a project: its own first, then the user's."""
    return project_dir(folders), user_dir()


class LessonScopes(NamedTuple):
    """The lesson folders that a command works on, the project's first."""

    folders: Folders
    dirs: tuple[LessonDir, ...]

    def writable(self, scope: Scope) -> LessonDir:
        """Return the folder of a scope, ready to be written to."""
        if scope == "project":
            self.folders.ensure_owned()
        return next(place for place in self.dirs if place.scope == scope)

    def read(self) -> Library:
        libraries = [lesson_store.read(place) for place in self.dirs]
        faults = [
            fault._replace(path=os.fspath(place.folder / fault.path))
            for place, library in zip(self.dirs, libraries, strict=True)
            for fault in library.faults
        ]
        return Library(tuple(lesson for library in libraries for lesson in library.lessons), tuple(faults))


def open_scopes(start: Path, scope: Scope | None = None) -> LessonScopes:
    """Return the lesson folders of one scope, or of both, and apply the project's secret settings to this process."""
    folders = open_project_dirs(start)
    secrets.use_detector(secrets.detector_for(config.load(folders.root).secrets, folders.root))
    dirs = tuple(place for place in lesson_dirs(folders) if scope in (None, place.scope))
    return LessonScopes(folders, dirs)


# Reading ----------------------------------------------------------------------------------------------------------


def list_lessons(scopes: LessonScopes, kinds: Sequence[Kind], statuses: Sequence[Status]) -> Library:
    """Return the lessons of these kinds and statuses, those seen most often first."""
    library = scopes.read()
    chosen = [lesson for lesson in library.lessons if lesson.kind in kinds and lesson.status in statuses]
    ordered = sorted(chosen, key=lambda lesson: (-lesson.count, lesson.kind, lesson.id))
    return library._replace(lessons=tuple(ordered))


def find_lesson(scopes: LessonScopes, name: str) -> Lesson:
    return lesson_store.pick(scopes.read().lessons, name)


def search(
    scopes: LessonScopes, query: str, kinds: Sequence[Kind], statuses: Sequence[Status], limit: int
) -> list[Lesson]:
    """Return the lessons that match a query, the project's before the user's."""
    matches = (lesson_store.search(place, query, kinds=kinds, statuses=statuses, limit=limit) for place in scopes.dirs)
    return [lesson for lessons in matches for lesson in lessons][:limit]


def recall(
    scopes: LessonScopes, moment: Moment, query: str, *, signature: str = "", budget: int = lesson_recall.BUDGET
) -> Advice:
    """Return the lessons for a moment of work as redacted text within a budget of characters."""
    advice = lesson_recall.recall(scopes.dirs, moment, query, signature=signature, budget=budget)
    return advice._replace(text=secrets.current_detector().redact(advice.text))


# Writing ----------------------------------------------------------------------------------------------------------


def add_lesson(
    scopes: LessonScopes, fields: dict[str, Any], *, level: Level = "L0", refs: Iterable[str] = ()
) -> LessonWrite:
    """Write a lesson that a person states; stating it again counts one more occurrence."""
    page = _page(fields)
    known = {name for lesson in scopes.read().lessons for name in (lesson.id, *lesson.aliases)}
    unknown = [name for name in page.contradicts if name not in known]
    if unknown:
        raise NothingToDo(f"there is no lesson {unknown[0]!r}", next_step="reflectloop lessons list --all")
    place = scopes.writable(scopes.dirs[0].scope)
    # To the microsecond: two statements of one lesson at the same time are two occurrences.
    occurrence = Occurrence(lesson=page.id, at=clock.exact_stamp(clock.now()), level=level, refs=tuple(refs))
    (written,) = lesson_store.add_lessons(place, [NewLesson(page, occurrence)], new_session_id())
    return written


def _page(fields: dict[str, Any]) -> Page:
    try:
        return Page.model_validate(fields)
    except ValidationError as fault:
        faults = tuple(_fault(dict(error)) for error in fault.errors())
        raise InvalidInput("this is not a lesson", faults=faults, next_step="reflectloop lessons add --help") from fault


def _fault(error: dict[str, Any]) -> Fault:
    default = "is too long" if error["type"] in ("string_too_long", "too_long") else error["msg"]
    message = wrong_shape(error["type"], error.get("ctx", {}), default)
    return Fault(".".join(map(str, error["loc"])), None, message, InvalidInput.code)


def new_session_id() -> str:
    """Return a file name part that no other branch or machine uses, so that lesson files never conflict."""
    return clock.run_id(clock.now()).replace("RLOP", "S")


def merge_lessons(scopes: LessonScopes, into: str, others: Sequence[str]) -> Lesson:
    """Merge lessons into one and return it."""
    lessons = scopes.read().lessons
    target = lesson_store.pick(lessons, into)
    merged = [lesson_store.pick(lessons, name) for name in others]
    for lesson in merged:
        if lesson.id == target.id:
            raise InvalidInput(f"{lesson.id} is {target.id}", next_step="name two lessons")
        if lesson.scope != target.scope:
            raise InvalidInput(
                f"{lesson.id} lies in scope {lesson.scope}, {target.id} in {target.scope}",
                next_step="reflectloop lessons export --scope user | reflectloop lessons import -",
            )
    place = scopes.writable(target.scope)
    lesson_store.merge(place, target, merged)
    return lesson_store.pick(lesson_store.read(place).lessons, target.id)


def retire_lesson(scopes: LessonScopes, name: str, reason: str) -> Lesson:
    """Retire a lesson with a reason; an accepted rule of it is no longer active."""
    lesson = lesson_store.pick(scopes.read().lessons, name)
    place = scopes.writable(lesson.scope)
    occurrence = Occurrence(lesson=lesson.id, what="retired", at=clock.stamp(clock.now()), note=reason)
    if lesson.kind == "rule_patch":
        rule_file(scopes.folders, lesson).unlink(missing_ok=True)
    lesson_store.settle(place, lesson, "retired", occurrence, new_session_id())
    return lesson_store.pick(lesson_store.read(place).lessons, lesson.id)


def rule_file(folders: Folders, lesson: Lesson) -> Path:
    """Return the path of the rule of an accepted proposal; rules in that folder are active."""
    return folders.root / ACCEPTED_RULES / f"{lesson.id}.yaml"


# Export and import ------------------------------------------------------------------------------------------------


class LessonImport(NamedTuple):
    lines: int
    new: int


def export_lessons(scopes: LessonScopes) -> Iterator[str]:
    for place in scopes.dirs:
        yield from jsonl.lines(lesson_store.stock(place))


def import_lessons(scopes: LessonScopes, lines: Iterable[bytes], name: str) -> LessonImport:
    """Import every lesson of a file, or none if a line is faulty."""
    incoming = jsonl.read(lines)
    if incoming.faults:
        count = f"{len(incoming.faults)} fault(s)"
        raise InvalidInput(f"{name} has {count}; nothing was imported", faults=tuple(incoming.faults))
    if not incoming.pages:
        raise NothingToDo(f"{name} contains no lesson", next_step="reflectloop lessons export")
    place = scopes.writable(scopes.dirs[0].scope)
    return LessonImport(len(incoming.pages), lesson_store.import_lessons(place, incoming, new_session_id()))
