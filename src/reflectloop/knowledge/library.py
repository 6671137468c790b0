"""The room's front: lessons kept, found, merged and retired on a shelf, whatever the index is up to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from reflectloop.errors import Fault, InvalidInput, NothingToDo
from reflectloop.knowledge import pages
from reflectloop.knowledge import shelf as shelves
from reflectloop.knowledge.exchange import Incoming, Stock
from reflectloop.knowledge.lesson import KINDS, STATUSES, Lesson, Page, Sighting
from reflectloop.knowledge.shelf import Shelf

LIVING = tuple(status for status in STATUSES if status != "retired")


class Library(NamedTuple):
    lessons: tuple[Lesson, ...]
    faults: tuple[Fault, ...]  # of files that are damaged; the others work


class Draft(NamedTuple):
    """A lesson as somebody brings it, with the sighting that it comes from."""

    page: Page
    sighting: Sighting


class Kept(NamedTuple):
    id: str
    is_new: bool


# Finding ----------------------------------------------------------------------------------------------------------


def read(shelf: Shelf) -> Library:
    if not shelf.folder.is_dir():
        return Library((), ())
    from reflectloop.knowledge import index  # noqa: PLC0415 - it brings sqlite3

    def all_of_it(found: index.Index) -> Library:
        found.refresh(shelf)
        return Library(tuple(found.lessons()), tuple(found.faults()))

    return index.ask(shelf, all_of_it)


def stock(shelf: Shelf) -> Stock:
    from reflectloop.knowledge import index  # noqa: PLC0415

    def everything(found: index.Index) -> Stock:
        found.refresh(shelf)
        return found.stock()

    return index.ask(shelf, everything)


def search(
    shelf: Shelf, query: str, *, kinds: Sequence[str] = KINDS, statuses: Sequence[str] = LIVING, limit: int = 20
) -> list[Lesson]:
    """The best first. What is found is as its file says now."""
    from reflectloop.knowledge import index  # noqa: PLC0415

    wanted = index.Wanted(query, kinds, statuses, limit)

    def best(found: index.Index) -> list[Lesson]:
        if not found.is_current(shelf):
            found.refresh(shelf)
        hits = found.search(wanted)
        if found.unchanged(shelf, hits):
            return hits
        found.refresh(shelf)
        return found.search(wanted)

    return index.ask(shelf, best)


def by_mark(shelf: Shelf, mark: str) -> list[Lesson]:
    """Those known by this id or signature."""
    from reflectloop.knowledge import index  # noqa: PLC0415

    def named(found: index.Index) -> list[Lesson]:
        if not found.is_current(shelf):
            found.refresh(shelf)
        return found.named(mark)

    return index.ask(shelf, named)


def pick(lessons: Iterable[Lesson], name: str) -> Lesson:
    """By its id or the beginning of it, or its whole title."""
    wanted = name if name.startswith("L-") else f"L-{name}"
    usable = len(wanted) > len("L-")
    every = list(lessons)
    whole = [one for one in every if name in (one.id, one.title, *one.aliases)]
    found = whole or [one for one in every if usable and one.id.startswith(wanted)]
    if len({one.id for one in found}) > 1:  # the same in two scopes is the project's
        raise InvalidInput(f"{name!r} fits {len(found)} lessons", next_step="name it by its whole id")
    if not found:
        raise NothingToDo(f"there is no lesson {name!r}", next_step="reflectloop lessons list --all")
    return found[0]


# Keeping ----------------------------------------------------------------------------------------------------------


def keep(shelf: Shelf, drafts: Sequence[Draft], sitting: str) -> list[Kept]:
    """Write down what is new, and count what was known. All of it is looked at for secrets before any is written."""
    _refuse_odd(sitting)
    for page, sighting in drafts:
        shelves.refuse_secret(page.words, f"the lesson {page.title!r}")
        shelves.refuse_secret(sighting.words, f"what was seen of {page.title!r}")
    with shelves.writing(shelf, "lessons"):
        known = _known(shelf, [page for page, _ in drafts])
        kept: list[Kept] = []
        seen: list[Sighting] = []
        for page, sighting in drafts:
            old = known.get(page.id) or known.get(page.heading)
            if old is None:
                shelves.put(shelf, page)
            note = page.body if old and page.body not in ("", old.body, *old.notes) and not sighting.note else ""
            changes = {"lesson": old.id if old else page.id, **({"note": note} if note else {})}
            seen.append(sighting.model_copy(update=changes))
            kept.append(Kept(str(changes["lesson"]), old is None and page.id not in {one.id for one in kept}))
        shelves.note(shelf, sitting, seen)
    return kept


def _known(shelf: Shelf, drafts: Sequence[Page]) -> dict[object, Lesson]:
    """Which of these are known already, by what tells that a page is one of a lesson's."""
    if not shelf.folder.is_dir():
        return {}
    from reflectloop.knowledge import index  # noqa: PLC0415

    def those(found: index.Index) -> dict[object, Lesson]:
        found.refresh(shelf)
        met = [(page, found.same(page)) for page in drafts]
        return {key: one for page, one in met if one for key in (page.id, page.heading)}

    return index.ask(shelf, those)


def _refuse_odd(sitting: str) -> None:
    if not re.fullmatch(r"[\w][\w.-]{0,99}", sitting):
        raise InvalidInput(f"{sitting!r} cannot be the name of a sitting")


def take_in(shelf: Shelf, incoming: Incoming, sitting: str) -> int:
    """Pages and sightings as they are: they become one with those here as they do after a merge of git."""
    _refuse_odd(sitting)
    for page in incoming.pages:
        shelves.refuse_secret(page.words, f"the lesson {page.title!r}")
    for one in incoming.sightings:
        shelves.refuse_secret(one.words, f"what was seen of {one.lesson}")
    with shelves.writing(shelf, "lessons import"):
        held = stock(shelf)
        before, seen = {pages.name(page) for page in held.pages.values()}, set(held.sightings)
        new = {pages.name(page): page for page in incoming.pages}
        fresh = dict.fromkeys(one for one in incoming.sightings if one not in seen)
        shelves.note(shelf, sitting, list(fresh))
        for name in new.keys() - before:
            shelves.put(shelf, new[name])
    return len(new.keys() - before)


def merge(shelf: Shelf, into: Lesson, others: Sequence[Lesson]) -> None:
    """From now on these are other wordings of one: their sightings count for it, their words stay as notes."""
    with shelves.writing(shelf, "lessons merge"):
        for other in others:
            if other.kind != into.kind:
                raise InvalidInput(f"{other.id} is a {other.kind} and {into.id} a {into.kind}: they are not the same")
        for name in (name for other in others for name in other.files):
            shelves.amend(shelf, name, "same_as", into.id)


def settle(shelf: Shelf, lesson: Lesson, status: Literal["active", "retired"], why: Sighting, sitting: str) -> None:
    """A person's word on it. What is retired is kept and found with --all, and advises nobody any more."""
    _refuse_odd(sitting)
    shelves.refuse_secret(why.note, "the reason")
    with shelves.writing(shelf, "lessons"):
        for name in lesson.files:
            shelves.amend(shelf, name, "status", status)
        shelves.note(shelf, sitting, [why])
