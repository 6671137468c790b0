"""The only importer of sqlite3: an index of the lessons, made from the files, never the truth, always expendable."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from reflectloop.errors import Fault
from reflectloop.knowledge import shelf as shelves
from reflectloop.knowledge import words
from reflectloop.knowledge.exchange import Stock
from reflectloop.knowledge.fold import fold
from reflectloop.knowledge.lesson import Lesson, Page, Sighting, of_record
from reflectloop.knowledge.shelf import Content, Shelf
from reflectloop.world import clock, files

T = TypeVar("T")
NAME = "index.sqlite"
_VERSION = 2  # of the tables and of what `fold` and `words` put into them
_WAIT_S = 1.0
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_TABLES = """
    CREATE TABLE folder (name TEXT PRIMARY KEY, stamp TEXT NOT NULL);
    CREATE TABLE file (name TEXT PRIMARY KEY, stamp TEXT NOT NULL, content TEXT NOT NULL, faults TEXT NOT NULL);
    CREATE TABLE lesson (
        number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL,
        record TEXT NOT NULL
    );
    CREATE TABLE alias (alias TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (alias, number)) WITHOUT ROWID;
    CREATE VIRTUAL TABLE words USING fts5 (
        title, keywords, body, tokenize = "porter unicode61 remove_diacritics 2"
    );
"""
_FOUND = """
    SELECT record FROM words JOIN lesson ON lesson.number = words.rowid
    WHERE words MATCH ? AND kind IN (SELECT value FROM json_each(?)) AND status IN (SELECT value FROM json_each(?))
    ORDER BY bm25(words, 8, 5, 1), id LIMIT ?
"""


class Wanted(NamedTuple):
    query: str
    kinds: Sequence[str]
    statuses: Sequence[str]
    limit: int


class Index:
    """Up to date with the files when it was given out."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def lessons(self) -> list[Lesson]:
        rows = self._connection.execute("SELECT record FROM lesson ORDER BY id")
        return [of_record(json.loads(record)) for (record,) in rows]

    def faults(self) -> list[Fault]:
        rows = self._connection.execute("SELECT faults FROM file WHERE faults != '[]' ORDER BY name")
        return [Fault(*fault) for (faults,) in rows for fault in json.loads(faults)]

    def stock(self) -> Stock:
        pages, sightings = self._contents()
        return Stock(self.lessons(), pages, sightings)

    def named(self, alias: str) -> list[Lesson]:
        """By id or signature, those of lessons merged into it too."""
        rows = self._connection.execute(
            "SELECT record FROM alias JOIN lesson USING (number) WHERE alias = ? ORDER BY id", (alias,)
        )
        return [of_record(json.loads(record)) for (record,) in rows]

    def search(self, wanted: Wanted) -> list[Lesson]:
        """Those with every word first, then those with any; in each the best first."""
        asked = [f'"{term}"' for term in words.terms(wanted.query)]
        if not asked:
            return []
        found = self._matching(" AND ".join(asked), wanted)
        if len(found) < wanted.limit and len(asked) > 1:
            found |= {key: one for key, one in self._matching(" OR ".join(asked), wanted).items() if key not in found}
        return list(found.values())[: wanted.limit]

    def _matching(self, match: str, wanted: Wanted) -> dict[str, Lesson]:
        kinds, statuses = json.dumps(list(wanted.kinds)), json.dumps(list(wanted.statuses))
        rows = self._connection.execute(_FOUND, (match, kinds, statuses, wanted.limit))
        made = (of_record(json.loads(record)) for (record,) in rows)
        return {one.id: one for one in made}

    # Keeping up with the files ------------------------------------------------------------------------------------

    def is_current(self, shelf: Shelf) -> bool:
        """Whether no name came or went: cheap. Who edits a file in place is noticed by `refresh`."""
        kept = dict(self._connection.execute("SELECT name, stamp FROM folder"))
        return "" not in kept.values() and kept == shelves.folder_stamps(shelf, _now())

    def unchanged(self, shelf: Shelf, lessons: Sequence[Lesson]) -> bool:
        """Whether the files of these are as they were read."""
        query = "SELECT stamp FROM file WHERE name = ?"
        names = [name for one in lessons for name in one.files]
        stamps = [self._connection.execute(query, (name,)).fetchone() for name in names]
        return all(kept == (shelves.stamp(shelf, name),) for name, kept in zip(names, stamps, strict=True))

    def refresh(self, shelf: Shelf) -> None:
        """Read what changed, and nothing else."""
        stamps = shelves.folder_stamps(shelf, _now())  # before the names are read: what comes later is seen next time
        there = {entry.name: entry.stamp for entry in shelves.entries(shelf)}
        kept = dict(self._connection.execute("SELECT name, stamp FROM file"))
        changed = [name for name, stamp in there.items() if kept.get(name) != stamp]
        gone = kept.keys() - there.keys()
        with self._connection as inside:
            if changed or gone:
                inside.executemany("DELETE FROM file WHERE name = ?", ((name,) for name in gone))
                rows = ((name, there[name], *_packed(shelves.content(shelf, name))) for name in changed)
                inside.executemany("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?)", rows)
                self._fold(shelf)
            inside.execute("DELETE FROM folder")
            inside.executemany("INSERT INTO folder VALUES (?, ?)", stamps.items())

    def _contents(self) -> tuple[dict[str, Page], list[Sighting]]:
        pages: dict[str, Page] = {}
        sightings: list[Sighting] = []
        for name, packed in self._connection.execute(
            "SELECT name, content FROM file WHERE content != '' ORDER BY name"
        ):
            if name.startswith(shelves.SIGHTINGS):
                sightings += [Sighting.model_validate(one) for one in json.loads(packed)]
            else:
                pages[name] = Page.model_validate_json(packed)
        return pages, sightings

    def _fold(self, shelf: Shelf) -> None:
        pages, sightings = self._contents()
        old = dict(self._connection.execute("SELECT id, record FROM lesson"))
        new = {one.id: one for one in fold(pages, sightings, shelf.scope)}
        records = {id_: json.dumps(one.record(), ensure_ascii=False) for id_, one in new.items()}
        for id_ in [id_ for id_, record in old.items() if records.get(id_) != record]:
            self._drop(id_)
        for id_, record in records.items():
            if old.get(id_) != record:
                self._enter(new[id_], record)

    def _drop(self, id_: str) -> None:
        (number,) = self._connection.execute("SELECT number FROM lesson WHERE id = ?", (id_,)).fetchone()
        self._connection.execute("DELETE FROM words WHERE rowid = ?", (number,))
        self._connection.execute("DELETE FROM alias WHERE number = ?", (number,))
        self._connection.execute("DELETE FROM lesson WHERE number = ?", (number,))

    def _enter(self, one: Lesson, record: str) -> None:
        row = (one.id, one.kind, one.status, record)
        entered = self._connection.execute("INSERT INTO lesson (id, kind, status, record) VALUES (?, ?, ?, ?)", row)
        number = entered.lastrowid
        aliases = {one.id, one.signature, *one.aliases}
        self._connection.executemany("INSERT INTO alias VALUES (?, ?)", ((alias, number) for alias in aliases))
        said = (one.title, " ".join(one.keywords), "\n".join((one.body, one.fix, *one.commands)))
        row_ = (number, *map(words.searchable, said))
        self._connection.execute("INSERT INTO words (rowid, title, keywords, body) VALUES (?, ?, ?, ?)", row_)


def _packed(content: Content) -> tuple[str, str]:
    faults = json.dumps(content.faults)
    if content.page:
        return content.page.model_dump_json(exclude_defaults=True), faults
    seen = [one.model_dump(mode="json", exclude_defaults=True) for one in content.sightings]
    return json.dumps(seen) if seen else "", faults


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
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError("made by another version")
        if version == 0:
            connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {_VERSION}; COMMIT;")
        yield Index(connection)


def _removed(path: Path) -> bool:
    try:
        for part in (path, path.with_name(f"{NAME}-journal")):
            files.remove_tree(part)
    except OSError:
        return False
    return True
