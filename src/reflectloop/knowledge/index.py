"""The only importer of sqlite3: an index of the lessons, made from the files, never the truth, always expendable."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from reflectloop.errors import Fault
from reflectloop.knowledge import fold, scan, schema, words
from reflectloop.knowledge import shelf as shelves
from reflectloop.knowledge.exchange import Stock
from reflectloop.knowledge.lesson import Lesson, Page, Sighting, of_record
from reflectloop.knowledge.shelf import Shelf
from reflectloop.world import clock, files

T = TypeVar("T")
NAME = "index.sqlite"
_WAIT_S = 1.0
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_MANY = 500  # files that changed at once: all is folded anew, which is quicker than to follow each


class Wanted(NamedTuple):
    query: str
    kinds: Sequence[str]
    statuses: Sequence[str]
    limit: int

    @property
    def chosen(self) -> tuple[str, str]:
        return json.dumps(list(self.kinds)), json.dumps(list(self.statuses))


class Index:
    """Up to date with the files when it was given out."""

    def __init__(self, connection: sqlite3.Connection, *, plain: bool = False) -> None:
        self._connection = connection
        self._plain = plain  # this SQLite has no full-text search

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, values).fetchall()

    def _column(self, query: str, values: Iterable[object]) -> set[Any]:
        return {row[0] for value in values for row in self._rows(query, value)}

    def lessons(self) -> list[Lesson]:
        return [_made(*row) for row in self._rows(f"{schema.ONE} ORDER BY id")]

    def faults(self) -> list[Fault]:
        rows = self._rows("SELECT faults FROM file WHERE faults != '[]' ORDER BY name")
        return [Fault(*fault) for (faults,) in rows for fault in json.loads(faults)]

    def stock(self) -> Stock:
        seen = self._rows("SELECT sighting FROM seen ORDER BY file, rowid")
        return Stock(self.lessons(), self._pages(), [Sighting.model_validate_json(one) for (one,) in seen])

    def named(self, alias: str) -> list[Lesson]:
        """By id or signature, those of lessons merged into it too."""
        return [
            _made(*row)
            for row in self._rows(f"{schema.ONE} JOIN alias USING (number) WHERE alias = ? ORDER BY id", alias)
        ]

    def same(self, page: Page) -> Lesson | None:
        """The lesson that this page would be another page of."""
        by_heading = f"{schema.ONE} JOIN part USING (number) JOIN key USING (file) WHERE key = ? ORDER BY id"
        found = self.named(page.id) or [_made(*row) for row in self._rows(by_heading, _heading(page))]
        return found[0] if found else None

    def search(self, wanted: Wanted) -> list[Lesson]:
        """Those with every word first, then those with any; in each the best first."""
        terms = words.terms(wanted.query)
        if not terms or self._plain:
            return self._scanned(terms, wanted) if terms else []
        asked = [f'"{term}"' for term in terms]
        found = self._matching(" AND ".join(asked), wanted)
        if len(found) < wanted.limit and len(asked) > 1:
            found |= {key: one for key, one in self._matching(" OR ".join(asked), wanted).items() if key not in found}
        return list(found.values())[: wanted.limit]

    def _matching(self, match: str, wanted: Wanted) -> dict[str, Lesson]:
        made = (_made(*row) for row in self._rows(schema.FOUND, match, *wanted.chosen, wanted.limit))
        return {one.id: one for one in made}

    def _scanned(self, terms: Sequence[str], wanted: Wanted) -> list[Lesson]:
        rows = (scan.Said(*row) for row in self._rows(schema.ALL_WORDS, *wanted.chosen))
        return self._numbered(scan.ranked(rows, terms)[: wanted.limit])

    def _numbered(self, numbers: Iterable[int]) -> list[Lesson]:
        return [_made(*row) for number in numbers for row in self._rows(f"{schema.ONE} WHERE number = ?", number)]

    # Keeping up with the files ------------------------------------------------------------------------------------

    def is_current(self, shelf: Shelf) -> bool:
        """Whether no name came or went: cheap. Who edits a file in place is noticed by `refresh`."""
        kept = dict(self._connection.execute("SELECT name, stamp FROM folder"))
        return "" not in kept.values() and kept == shelves.folder_stamps(shelf, _now())

    def unchanged(self, shelf: Shelf, lessons: Sequence[Lesson]) -> bool:
        """Whether the files of these are as they were read."""
        names = [name for one in lessons for name in one.files]
        stamps = [self._rows("SELECT stamp FROM file WHERE name = ?", name) for name in names]
        return all(kept == [(shelves.stamp(shelf, name),)] for name, kept in zip(names, stamps, strict=True))

    def refresh(self, shelf: Shelf) -> None:
        """Read what changed, fold what that bears on, and nothing else."""
        stamps = shelves.folder_stamps(shelf, _now())  # before the names are read: what comes later is seen next time
        there = {entry.name: entry.stamp for entry in shelves.entries(shelf)}
        kept = dict(self._connection.execute("SELECT name, stamp FROM file"))
        changed = [name for name, stamp in there.items() if kept.get(name) != stamp]
        gone = list(kept.keys() - there.keys())
        with self._connection as inside:
            if len(changed) + len(gone) > _MANY:
                self._fold_all(shelf, self._replace(shelf, [*gone, *changed], there))
            elif changed or gone:
                self._follow(shelf, [*gone, *changed], there)
            inside.execute("DELETE FROM folder")
            inside.executemany("INSERT INTO folder VALUES (?, ?)", stamps.items())

    def _replace(self, shelf: Shelf, names: Sequence[str], there: dict[str, str]) -> dict[str, Page]:
        """The rows of these files as they are now, and none for those that are gone; the pages among them."""
        known = {name for (name,) in self._rows("SELECT name FROM file")}
        for table in ("file WHERE name", "key WHERE file", "seen WHERE file"):
            old = ((name,) for name in names if name in known)
            self._connection.executemany(f"DELETE FROM {table} = ?", old)  # noqa: S608 - one of these
        read = {name: shelves.content(shelf, name) for name in names if name in there}
        pages = {name: one.page for name, one in read.items() if one.page}
        rows = [(name, there[name], _text(one.page), json.dumps(one.faults)) for name, one in read.items()]
        keys = [(key, name) for name, page in pages.items() for key in _keys(page)]
        seen = [(name, one.lesson, _text(one)) for name, content in read.items() for one in content.sightings]
        self._connection.executemany("INSERT INTO file VALUES (?, ?, ?, ?)", rows)
        self._connection.executemany("INSERT INTO key VALUES (?, ?)", keys)
        self._connection.executemany("INSERT INTO seen VALUES (?, ?, ?)", seen)
        return pages

    def _fold_all(self, shelf: Shelf, read: dict[str, Page]) -> None:
        for table in ("lesson", "part", "alias", "contradicts", "words"):
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - one of these
        names = [name for (name,) in self._rows("SELECT name FROM file WHERE page != '' ORDER BY name")]
        known = self._pages([name for name in names if name not in read])
        pages = {name: read.get(name) or known[name] for name in names}
        seen = self._rows("SELECT sighting FROM seen ORDER BY file, rowid")
        made = fold.folded(pages, [Sighting.model_validate_json(one) for (one,) in seen], shelf.scope)
        self._enter(made)
        self._settle(fold.disputed(made))

    def _follow(self, shelf: Shelf, names: Sequence[str], there: dict[str, str]) -> None:
        """Only the lessons that these files are about are made anew, and only what they dispute is settled again."""
        before = self._touched(names)
        self._replace(shelf, names, there)
        about = self._joined(before | self._touched(names))
        numbers = self._column("SELECT number FROM part WHERE file = ?", {*about, *names})
        old = [_plain(record) for (record, *_) in self._records(numbers)]
        nearby = self._partners(old) - numbers
        for number in numbers:
            self._drop(number)
        pages = self._pages(about)
        seen = [row for page in pages.values() for row in self._rows(schema.SEEN, page.id)]
        made = fold.folded(pages, [Sighting.model_validate_json(one) for _, _, one in sorted(set(seen))], shelf.scope)
        unsettled = self._enter(made) | nearby | self._partners(made)
        around = unsettled | self._partners([_plain(record) for (record, *_) in self._records(unsettled)])
        told = fold.disputed(sorted((_plain(record) for (record, *_) in self._records(around)), key=lambda one: one.id))
        ids = {_plain(record).id for (record, *_) in self._records(unsettled)}
        self._settle(one for one in told if one.id in ids)

    def _touched(self, names: Sequence[str]) -> set[str]:
        """By what these files are known to belong together with others."""
        keys = self._column("SELECT key FROM key WHERE file = ?", names)
        return keys | self._column("SELECT lesson FROM seen WHERE file = ?", names)

    def _joined(self, keys: set[str]) -> set[str]:
        """Every page that has one of these keys, and those that have a key of such a page, and so on."""
        found: set[str] = set()
        known: set[str] = set()
        while keys:
            known |= keys
            new = self._column("SELECT file FROM key WHERE key = ?", keys) - found
            found |= new
            keys = self._column("SELECT key FROM key WHERE file = ?", new) - known
        return found

    def _partners(self, lessons: Iterable[Lesson]) -> set[int]:
        """The lessons that these could contradict, or that name them."""
        every = list(lessons)
        topics = {fold.topic(one) for one in every} - {""}
        said = {other for one in every for other in one.contradicts}
        names = {name for one in every for name in (one.id, *one.aliases)}
        return (
            self._column("SELECT number FROM lesson WHERE topic = ?", topics)
            | self._column("SELECT number FROM alias WHERE alias = ?", said)
            | self._column("SELECT number FROM contradicts WHERE other = ?", names)
        )

    def _records(self, numbers: Iterable[int]) -> list[tuple[Any, ...]]:
        return [row for number in numbers for row in self._rows(f"{schema.ONE} WHERE number = ?", number)]

    def _pages(self, names: Iterable[str] | None = None) -> dict[str, Page]:
        query = "SELECT name, page FROM file WHERE page != ''"
        if names is None:
            rows = self._rows(f"{query} ORDER BY name")
        else:
            rows = [row for name in sorted(names) for row in self._rows(f"{query} AND name = ?", name)]
        return {name: Page.model_validate_json(page) for name, page in rows}

    def _drop(self, number: int) -> None:
        self._connection.execute("DELETE FROM words WHERE rowid = ?", (number,))
        for table in ("lesson", "part", "alias", "contradicts"):
            self._connection.execute(f"DELETE FROM {table} WHERE number = ?", (number,))  # noqa: S608 - one of these

    def _enter(self, lessons: Sequence[Lesson]) -> set[int]:
        """Each as it is by itself."""
        add = self._connection.executemany
        ((last,),) = self._rows("SELECT coalesce(max(number), 0) FROM lesson")
        numbered = list(enumerate(lessons, last + 1))
        add(
            "INSERT INTO lesson (number, id, kind, status, record, topic) VALUES (?, ?, ?, ?, ?, ?)",
            ((number, one.id, one.kind, one.status, _record(one), fold.topic(one)) for number, one in numbered),
        )
        add("INSERT INTO part VALUES (?, ?)", ((name, number) for number, one in numbered for name in one.files))
        marks = ((mark, number) for number, one in numbered for mark in {one.id, one.signature, *one.aliases})
        add("INSERT INTO alias VALUES (?, ?)", marks)
        said = ((other, number) for number, one in numbered for other in set(one.contradicts))
        add("INSERT INTO contradicts VALUES (?, ?)", said)
        told = ((number, *map(words.searchable, _said(one))) for number, one in numbered)
        add("INSERT INTO words (rowid, title, keywords, body) VALUES (?, ?, ?, ?)", told)
        return {number for number, _ in numbered}

    def _settle(self, lessons: Iterable[Lesson]) -> None:
        """What they are among the others."""
        rows = [
            (one.status, json.dumps(one.contradicts) if one.status == "conflict" else "", one.id) for one in lessons
        ]
        query = "UPDATE lesson SET status = ?, against = ? WHERE id = ? AND (status, against) IS NOT (?, ?)"
        self._connection.executemany(query, [(*row, *row[:2]) for row in rows])


def _text(value: Page | Sighting | None) -> str:
    return value.model_dump_json(exclude_defaults=True) if value else ""


def _record(one: Lesson) -> str:
    return json.dumps(one.record(), ensure_ascii=False)


def _said(one: Lesson) -> tuple[str, str, str]:
    return one.title, " ".join(one.keywords), "\n".join((one.body, one.fix, *one.commands))


def _plain(record: str) -> Lesson:
    return of_record(json.loads(record))


def _made(record: str, status: str, against: str) -> Lesson:
    one = _plain(record)
    return replace(one, status="conflict", contradicts=tuple(json.loads(against))) if status == "conflict" else one


def _keys(page: Page) -> set[str]:
    """What `fold` takes pages for the same by."""
    return {page.id, _heading(page), *([page.same_as] if page.same_as else [])}


def _heading(page: Page) -> str:
    return "heading " + words.digest("\n".join(page.heading))


def _now() -> int:
    return int(clock.now().timestamp() * 1e9)


# Opening ----------------------------------------------------------------------------------------------------------


def ask(shelf: Shelf, question: Callable[[Index], T]) -> T:
    """The answer of an index that is good: a damaged one is made anew, a locked one is done without."""
    path = shelf.desk / NAME
    for _ in range(2 if shelf.folder.is_dir() else 0):  # who only looks leaves nothing behind
        try:
            with _opened(path) as index:
                return question(index)
        except sqlite3.Error as fault:
            if getattr(fault, "sqlite_errorcode", 0) & 0xFF in _BUSY or not _removed(path):
                break
        except OSError:
            break
    with _opened(Path(":memory:")) as index:
        index.refresh(shelf)
        return question(index)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Index]:
    if path.parent != Path():
        path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(path, timeout=_WAIT_S)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # what a power cut spoils is made anew
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, schema.VERSION):
            raise sqlite3.DatabaseError("made by another version")
        if version == 0:
            form = schema.WORDS if _has_fts5() else schema.NO_FTS5
            connection.executescript(f"BEGIN; {schema.TABLES} {form} PRAGMA user_version = {schema.VERSION}; COMMIT;")
        (form,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'words'").fetchone()
        plain = "VIRTUAL" not in form
        if plain and _has_fts5():
            raise sqlite3.DatabaseError("made by a poorer SQLite")
        yield Index(connection, plain=plain)


def _has_fts5() -> bool:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute(schema.WORDS)
        except sqlite3.OperationalError:
            return False
        return True


def _removed(path: Path) -> bool:
    try:
        for part in (path, path.with_name(f"{NAME}-journal")):
            files.remove_tree(part)
    except OSError:
        return False
    return True
