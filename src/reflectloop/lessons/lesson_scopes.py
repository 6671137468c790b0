"""Lessons of a project and of its user: kept, found, read back, merged, retired, carried elsewhere."""

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
from reflectloop.policy.active_rules import ACCEPTED
from reflectloop.system import clock
from reflectloop.terms import wrong_shape
from reflectloop.workspace.folders import Folders, folders_at, user_knowledge


def project_shelf(folders: Folders) -> LessonDir:
    return LessonDir(folders.knowledge, folders.own / "cache" / "lessons")


def user_shelf() -> LessonDir:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return LessonDir(user_knowledge(), cache / "reflectloop" / "lessons", "user")


def lesson_dirs(folders: Folders) -> tuple[LessonDir, LessonDir]:
    """Return the lesson folders that apply to a project: its own first, then the user's."""
    return project_shelf(folders), user_shelf()


class LessonScopes(NamedTuple):
    """The shelves that a command is about, the project's first."""

    folders: Folders
    shelves: tuple[LessonDir, ...]

    def writable(self, scope: Scope) -> LessonDir:
        if scope == "project":
            self.folders.claim()
        return next(one for one in self.shelves if one.scope == scope)

    def read(self) -> Library:
        found = [lesson_store.read(shelf) for shelf in self.shelves]
        faults = [
            fault._replace(path=os.fspath(shelf.folder / fault.path))
            for shelf, one in zip(self.shelves, found, strict=True)
            for fault in one.faults
        ]
        return Library(tuple(lesson for one in found for lesson in one.lessons), tuple(faults))


def room_at(start: Path, scope: Scope | None = None) -> LessonScopes:
    """From here on a secret is what the project's settings call one, too."""
    folders = folders_at(start)
    secrets.use(secrets.of(config.load(folders.root).secrets, folders.root))
    every = (project_shelf(folders), user_shelf())
    return LessonScopes(folders, tuple(one for one in every if scope in (None, one.scope)))


# Looking ----------------------------------------------------------------------------------------------------------


def listed(room: LessonScopes, kinds: Sequence[Kind], statuses: Sequence[Status]) -> Library:
    """What is seen most comes first."""
    found = room.read()
    chosen = [one for one in found.lessons if one.kind in kinds and one.status in statuses]
    return found._replace(lessons=tuple(sorted(chosen, key=lambda one: (-one.count, one.kind, one.id))))


def shown(room: LessonScopes, name: str) -> Lesson:
    return lesson_store.pick(room.read().lessons, name)


def searched(
    room: LessonScopes, query: str, kinds: Sequence[Kind], statuses: Sequence[Status], limit: int
) -> list[Lesson]:
    """The project's own before the user's."""
    found = (lesson_store.search(one, query, kinds=kinds, statuses=statuses, limit=limit) for one in room.shelves)
    return [one for some in found for one in some][:limit]


def recalled(
    room: LessonScopes, moment: Moment, query: str, *, signature: str = "", budget: int = lesson_recall.BUDGET
) -> Advice:
    made = lesson_recall.recall(room.shelves, moment, query, signature=signature, budget=budget)
    return made._replace(text=secrets.current().redact(made.text))


# Keeping ----------------------------------------------------------------------------------------------------------


def added(room: LessonScopes, fields: dict[str, Any], *, level: Level = "L0", refs: Iterable[str] = ()) -> LessonWrite:
    """What a person says; the same said again is counted."""
    page = _page(fields)
    known = {name for one in room.read().lessons for name in (one.id, *one.aliases)}
    unknown = [one for one in page.contradicts if one not in known]
    if unknown:
        raise NothingToDo(f"there is no lesson {unknown[0]!r}", next_step="reflectloop lessons list --all")
    shelf = room.writable(room.shelves[0].scope)
    sighting = Occurrence(lesson=page.id, at=clock.stamp(clock.now()), level=level, refs=tuple(refs))
    (kept,) = lesson_store.keep(shelf, [NewLesson(page, sighting)], sitting())
    return kept


def _page(fields: dict[str, Any]) -> Page:
    try:
        return Page.model_validate(fields)
    except ValidationError as fault:
        faults = tuple(_fault(dict(error)) for error in fault.errors())
        raise InvalidInput("this is no lesson", faults=faults, next_step="reflectloop lessons add --help") from fault


def _fault(error: dict[str, Any]) -> Fault:
    said = "may be shorter" if error["type"] in ("string_too_long", "too_long") else error["msg"]
    words = wrong_shape(error["type"], error.get("ctx", {}), said)
    return Fault(".".join(map(str, error["loc"])), None, words, InvalidInput.code)


def sitting() -> str:
    """A name that no other branch or machine gives to a file of its own."""
    return clock.run_id(clock.now()).replace("RLOP", "S")


def merged(room: LessonScopes, into: str, others: Sequence[str]) -> Lesson:
    every = room.read().lessons
    target = lesson_store.pick(every, into)
    same = [lesson_store.pick(every, name) for name in others]
    for one in same:
        if one.id == target.id:
            raise InvalidInput(f"{one.id} is {target.id}", next_step="name two lessons")
        if one.scope != target.scope:
            raise InvalidInput(
                f"{one.id} lies in scope {one.scope}, {target.id} in {target.scope}",
                next_step="reflectloop lessons export --scope user | reflectloop lessons import -",
            )
    shelf = room.writable(target.scope)
    lesson_store.merge(shelf, target, same)
    return lesson_store.pick(lesson_store.read(shelf).lessons, target.id)


def retired(room: LessonScopes, name: str, reason: str) -> Lesson:
    one = lesson_store.pick(room.read().lessons, name)
    shelf = room.writable(one.scope)
    why = Occurrence(lesson=one.id, what="retired", at=clock.stamp(clock.now()), note=reason)
    if one.kind == "rule_patch":
        rule_file(room.folders, one).unlink(missing_ok=True)
    lesson_store.settle(shelf, one, "retired", why, sitting())
    return lesson_store.pick(lesson_store.read(shelf).lessons, one.id)


def rule_file(folders: Folders, one: Lesson) -> Path:
    """Where the rule of an accepted proposal lies, and acts."""
    return folders.root / ACCEPTED / f"{one.id}.yaml"


# Carrying ---------------------------------------------------------------------------------------------------------


class LessonImport(NamedTuple):
    lines: int
    new: int


def exported(room: LessonScopes) -> Iterator[str]:
    for shelf in room.shelves:
        yield from jsonl.lines(lesson_store.stock(shelf))


def imported(room: LessonScopes, lines: Iterable[bytes], name: str) -> LessonImport:
    """All of a file or nothing of it."""
    incoming = jsonl.read(lines)
    if incoming.faults:
        count = f"{len(incoming.faults)} fault(s)"
        raise InvalidInput(f"{name} has {count}; nothing was taken", faults=tuple(incoming.faults))
    if not incoming.pages:
        raise NothingToDo(f"{name} holds no lesson", next_step="reflectloop lessons export")
    shelf = room.writable(room.shelves[0].scope)
    return LessonImport(len(incoming.pages), lesson_store.take_in(shelf, incoming, sitting()))
