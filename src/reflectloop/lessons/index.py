"""The search index of the lessons in SQLite: built from the files and safe to delete. The only importer of sqlite3."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from reflectloop.errors import Fault
from reflectloop.lessons import lesson_files, lesson_words, merge
from reflectloop.lessons.jsonl import LessonExport
from reflectloop.lessons.lesson import Lesson, Occurrence, Page, of_record
from reflectloop.lessons.lesson_files import LessonDir
from reflectloop.system import clock, files

VERSION = 3  # of the tables and of the data that `fold` and `words` produce
TABLES = """
    CREATE TABLE folder (name TEXT PRIMARY KEY, stamp TEXT NOT NULL);
    CREATE TABLE file (name TEXT PRIMARY KEY, stamp TEXT NOT NULL, page TEXT NOT NULL, faults TEXT NOT NULL);
    CREATE TABLE key (key TEXT NOT NULL, file TEXT NOT NULL, PRIMARY KEY (key, file)) WITHOUT ROWID;
    CREATE INDEX key_file ON key (file);
    CREATE TABLE seen (file TEXT NOT NULL, lesson TEXT NOT NULL, sighting TEXT NOT NULL);
    CREATE INDEX seen_file ON seen (file);
    CREATE INDEX seen_lesson ON seen (lesson);
    CREATE TABLE lesson (
        number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL,
        record TEXT NOT NULL, against TEXT NOT NULL DEFAULT '', topic TEXT NOT NULL
    );
    CREATE INDEX lesson_topic ON lesson (topic);
    CREATE TABLE part (file TEXT PRIMARY KEY, number INTEGER NOT NULL);
    CREATE INDEX part_number ON part (number);
    CREATE TABLE alias (alias TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (alias, number)) WITHOUT ROWID;
    CREATE INDEX alias_number ON alias (number);
    CREATE TABLE contradicts (other TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (other, number)) WITHOUT ROWID;
    CREATE INDEX contradicts_number ON contradicts (number);
"""
WORDS = (
    'CREATE VIRTUAL TABLE words USING fts5 (title, keywords, body, tokenize = "porter unicode61 remove_diacritics 2");'
)
NO_FTS5 = "CREATE TABLE words (title TEXT, keywords TEXT, body TEXT);"  # every row is then scanned
CHOSEN = "kind IN (SELECT value FROM json_each(?)) AND status IN (SELECT value FROM json_each(?))"
FOUND = f"""
    SELECT record, status, against FROM words JOIN lesson ON lesson.number = words.rowid
    WHERE words MATCH ? AND {CHOSEN} ORDER BY bm25(words, 8, 5, 1), id LIMIT ?
"""  # noqa: S608 - no outside text is inserted
ALL_WORDS = f"""
    SELECT words.rowid, title, keywords, body FROM words JOIN lesson ON lesson.number = words.rowid
    WHERE {CHOSEN} ORDER BY id
"""  # noqa: S608
ONE = "SELECT record, status, against FROM lesson"
SEEN = "SELECT file, rowid, sighting FROM seen WHERE lesson = ?"


T = TypeVar("T")
NAME = "index.sqlite"
_WAIT_S = 1.0
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_MANY = 500  # changed files from which a complete rebuild is faster than an incremental update


class LessonQuery(NamedTuple):
    """A search query with its filters."""

    query: str
    kinds: Sequence[str]
    statuses: Sequence[str]
    limit: int

    @property
    def chosen(self) -> tuple[str, str]:
        return json.dumps(list(self.kinds)), json.dumps(list(self.statuses))


class Index:
    """An index that was up to date with the files when it was opened."""

    def __init__(self, connection: sqlite3.Connection, *, plain: bool = False) -> None:
        self._connection = connection
        self._plain = plain  # this SQLite has no full-text search

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, values).fetchall()

    def _column(self, query: str, values: Iterable[object]) -> set[Any]:
        return {row[0] for value in values for row in self._rows(query, value)}

    def lessons(self) -> list[Lesson]:
        return [_made(*row) for row in self._rows(f"{ONE} ORDER BY id")]

    def faults(self) -> list[Fault]:
        rows = self._rows("SELECT faults FROM file WHERE faults != '[]' ORDER BY name")
        return [Fault(*fault) for (faults,) in rows for fault in json.loads(faults)]

    def stock(self) -> LessonExport:
        rows = self._rows("SELECT sighting FROM seen ORDER BY file, rowid")
        return LessonExport(self.lessons(), self._pages(), [Occurrence.model_validate_json(text) for (text,) in rows])

    def named(self, alias: str) -> list[Lesson]:
        """Return the lessons with this id or signature, or with that of a lesson merged into them."""
        return [
            _made(*row) for row in self._rows(f"{ONE} JOIN alias USING (number) WHERE alias = ? ORDER BY id", alias)
        ]

    def same(self, page: Page) -> Lesson | None:
        """Return the lesson that this page belongs to, or None."""
        by_heading = f"{ONE} JOIN part USING (number) JOIN key USING (file) WHERE key = ? ORDER BY id"
        matches = self.named(page.id) or [_made(*row) for row in self._rows(by_heading, _heading(page))]
        return matches[0] if matches else None

    def search(self, wanted: LessonQuery) -> list[Lesson]:
        """Return lessons with every word first, then those with any word, each best first."""
        terms = lesson_words.terms(wanted.query)
        if not terms or self._plain:
            return self._scanned(terms, wanted) if terms else []
        quoted_terms = [f'"{term}"' for term in terms]
        matches = self._matching(" AND ".join(quoted_terms), wanted)
        if len(matches) < wanted.limit and len(quoted_terms) > 1:
            matches |= {
                key: lesson
                for key, lesson in self._matching(" OR ".join(quoted_terms), wanted).items()
                if key not in matches
            }
        return list(matches.values())[: wanted.limit]

    def _matching(self, match: str, wanted: LessonQuery) -> dict[str, Lesson]:
        lessons = (_made(*row) for row in self._rows(FOUND, match, *wanted.chosen, wanted.limit))
        return {lesson.id: lesson for lesson in lessons}

    def _scanned(self, terms: Sequence[str], wanted: LessonQuery) -> list[Lesson]:
        rows = (LessonText(*row) for row in self._rows(ALL_WORDS, *wanted.chosen))
        return self._numbered(ranked(rows, terms)[: wanted.limit])

    def _numbered(self, numbers: Iterable[int]) -> list[Lesson]:
        return [_made(*row) for number in numbers for row in self._rows(f"{ONE} WHERE number = ?", number)]

    # Following the files ------------------------------------------------------------------------------------------

    def is_current(self, lesson_dir: LessonDir) -> bool:
        """Return True if no file was added or removed, which is cheap; edits in place are noticed by `refresh`."""
        stored = dict(self._connection.execute("SELECT name, stamp FROM folder"))
        return "" not in stored.values() and stored == lesson_files.folder_stamps(lesson_dir, _now())

    def unchanged(self, lesson_dir: LessonDir, lessons: Sequence[Lesson]) -> bool:
        """Return True if the files of these lessons are as they were read."""
        names = [name for lesson in lessons for name in lesson.files]
        stamps = [self._rows("SELECT stamp FROM file WHERE name = ?", name) for name in names]
        return all(
            stored == [(lesson_files.stamp(lesson_dir, name),)] for name, stored in zip(names, stamps, strict=True)
        )

    def refresh(self, lesson_dir: LessonDir) -> None:
        """Read the changed files, and rebuild only the lessons they affect."""
        # Taken before the names are read, so that later changes are noticed next time.
        stamps = lesson_files.folder_stamps(lesson_dir, _now())
        present = {entry.name: entry.stamp for entry in lesson_files.entries(lesson_dir)}
        stored = dict(self._connection.execute("SELECT name, stamp FROM file"))
        changed = [name for name, stamp in present.items() if stored.get(name) != stamp]
        removed = list(stored.keys() - present.keys())
        with self._connection as transaction:
            if len(changed) + len(removed) > _MANY:
                self._fold_all(lesson_dir, self._replace(lesson_dir, [*removed, *changed], present))
            elif changed or removed:
                self._follow(lesson_dir, [*removed, *changed], present)
            transaction.execute("DELETE FROM folder")
            transaction.executemany("INSERT INTO folder VALUES (?, ?)", stamps.items())

    def _replace(self, lesson_dir: LessonDir, names: Sequence[str], present: dict[str, str]) -> dict[str, Page]:
        """Replace the rows of these files, and return the pages among them."""
        known = {name for (name,) in self._rows("SELECT name FROM file")}
        for table in ("file WHERE name", "key WHERE file", "seen WHERE file"):
            old = ((name,) for name in names if name in known)
            self._connection.executemany(f"DELETE FROM {table} = ?", old)  # noqa: S608 - a fixed table name
        read = {name: lesson_files.content(lesson_dir, name) for name in names if name in present}
        pages = {name: content.page for name, content in read.items() if content.page}
        rows = [
            (name, present[name], _text(content.page), json.dumps(content.faults)) for name, content in read.items()
        ]
        keys = [(key, name) for name, page in pages.items() for key in _keys(page)]
        occurrences = [
            (name, occurrence.lesson, _text(occurrence))
            for name, content in read.items()
            for occurrence in content.occurrences
        ]
        self._connection.executemany("INSERT INTO file VALUES (?, ?, ?, ?)", rows)
        self._connection.executemany("INSERT INTO key VALUES (?, ?)", keys)
        self._connection.executemany("INSERT INTO seen VALUES (?, ?, ?)", occurrences)
        return pages

    def _fold_all(self, lesson_dir: LessonDir, read: dict[str, Page]) -> None:
        for table in ("lesson", "part", "alias", "contradicts", "words"):
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a fixed table name
        names = [name for (name,) in self._rows("SELECT name FROM file WHERE page != '' ORDER BY name")]
        known = self._pages([name for name in names if name not in read])
        pages = {name: read.get(name) or known[name] for name in names}
        rows = self._rows("SELECT sighting FROM seen ORDER BY file, rowid")
        lessons = merge.folded(pages, [Occurrence.model_validate_json(text) for (text,) in rows], lesson_dir.scope)
        self._enter(lessons)
        self._settle(merge.disputed(lessons))

    def _follow(self, lesson_dir: LessonDir, names: Sequence[str], present: dict[str, str]) -> None:
        """Rebuild only the lessons these files are about, and the contradictions they are part of."""
        before = self._touched(names)
        self._replace(lesson_dir, names, present)
        about = self._joined(before | self._touched(names))
        numbers = self._column("SELECT number FROM part WHERE file = ?", {*about, *names})
        old = [_plain(record) for (record, *_) in self._records(numbers)]
        nearby = self._partners(old) - numbers
        for number in numbers:
            self._drop(number)
        pages = self._pages(about)
        rows = [row for page in pages.values() for row in self._rows(SEEN, page.id)]
        lessons = merge.folded(
            pages, [Occurrence.model_validate_json(text) for _, _, text in sorted(set(rows))], lesson_dir.scope
        )
        unsettled = self._enter(lessons) | nearby | self._partners(lessons)
        around = unsettled | self._partners([_plain(record) for (record, *_) in self._records(unsettled)])
        judged = merge.disputed(
            sorted((_plain(record) for (record, *_) in self._records(around)), key=lambda lesson: lesson.id)
        )
        ids = {_plain(record).id for (record, *_) in self._records(unsettled)}
        self._settle(lesson for lesson in judged if lesson.id in ids)

    def _touched(self, names: Sequence[str]) -> set[str]:
        """Return the keys by which these files belong to lessons."""
        keys = self._column("SELECT key FROM key WHERE file = ?", names)
        return keys | self._column("SELECT lesson FROM seen WHERE file = ?", names)

    def _joined(self, keys: set[str]) -> set[str]:
        """Return every page that has one of these keys, and transitively those that share a key with it."""
        pages: set[str] = set()
        known: set[str] = set()
        while keys:
            known |= keys
            new = self._column("SELECT file FROM key WHERE key = ?", keys) - pages
            pages |= new
            keys = self._column("SELECT key FROM key WHERE file = ?", new) - known
        return pages

    def _partners(self, lessons: Iterable[Lesson]) -> set[int]:
        """Return the numbers of lessons that these could contradict, or that name them."""
        every = list(lessons)
        topics = {merge.topic(lesson) for lesson in every} - {""}
        named = {other for lesson in every for other in lesson.contradicts}
        names = {name for lesson in every for name in (lesson.id, *lesson.aliases)}
        return (
            self._column("SELECT number FROM lesson WHERE topic = ?", topics)
            | self._column("SELECT number FROM alias WHERE alias = ?", named)
            | self._column("SELECT number FROM contradicts WHERE other = ?", names)
        )

    def _records(self, numbers: Iterable[int]) -> list[tuple[Any, ...]]:
        return [row for number in numbers for row in self._rows(f"{ONE} WHERE number = ?", number)]

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
            self._connection.execute(f"DELETE FROM {table} WHERE number = ?", (number,))  # noqa: S608 - a fixed table name

    def _enter(self, lessons: Sequence[Lesson]) -> set[int]:
        """Insert lessons without their contradictions, and return their numbers."""
        add = self._connection.executemany
        ((last,),) = self._rows("SELECT coalesce(max(number), 0) FROM lesson")
        numbered = list(enumerate(lessons, last + 1))
        add(
            "INSERT INTO lesson (number, id, kind, status, record, topic) VALUES (?, ?, ?, ?, ?, ?)",
            (
                (number, lesson.id, lesson.kind, lesson.status, _record(lesson), merge.topic(lesson))
                for number, lesson in numbered
            ),
        )
        add("INSERT INTO part VALUES (?, ?)", ((name, number) for number, lesson in numbered for name in lesson.files))
        marks = (
            (mark, number) for number, lesson in numbered for mark in {lesson.id, lesson.signature, *lesson.aliases}
        )
        add("INSERT INTO alias VALUES (?, ?)", marks)
        contradictions = ((other, number) for number, lesson in numbered for other in set(lesson.contradicts))
        add("INSERT INTO contradicts VALUES (?, ?)", contradictions)
        texts = ((number, *map(lesson_words.searchable, _texts(lesson))) for number, lesson in numbered)
        add("INSERT INTO words (rowid, title, keywords, body) VALUES (?, ?, ?, ?)", texts)
        return {number for number, _ in numbered}

    def _settle(self, lessons: Iterable[Lesson]) -> None:
        """Store the status of lessons with regard to contradictions."""
        rows = [
            (lesson.status, json.dumps(lesson.contradicts) if lesson.status == "conflict" else "", lesson.id)
            for lesson in lessons
        ]
        query = "UPDATE lesson SET status = ?, against = ? WHERE id = ? AND (status, against) IS NOT (?, ?)"
        self._connection.executemany(query, [(*row, *row[:2]) for row in rows])


def _text(value: Page | Occurrence | None) -> str:
    return value.model_dump_json(exclude_defaults=True) if value else ""


def _record(lesson: Lesson) -> str:
    return json.dumps(lesson.record(), ensure_ascii=False)


def _texts(lesson: Lesson) -> tuple[str, str, str]:
    return lesson.title, " ".join(lesson.keywords), "\n".join((lesson.body, lesson.fix, *lesson.commands))


def _plain(record: str) -> Lesson:
    return of_record(json.loads(record))


def _made(record: str, status: str, against: str) -> Lesson:
    lesson = _plain(record)
    return (
        replace(lesson, status="conflict", contradicts=tuple(json.loads(against))) if status == "conflict" else lesson
    )


def _keys(page: Page) -> set[str]:
    """Return the keys by which `fold` recognises pages of the same lesson."""
    return {page.id, _heading(page), *([page.same_as] if page.same_as else [])}


def _heading(page: Page) -> str:
    return "heading " + lesson_words.digest("\n".join(page.heading))


def _now() -> int:
    return int(clock.now().timestamp() * 1e9)


# Opening ----------------------------------------------------------------------------------------------------------


def ask(lesson_dir: LessonDir, question: Callable[[Index], T]) -> T:
    """Answer a question with a valid index: rebuild a damaged one, and use one in memory if it is locked."""
    path = lesson_dir.cache / NAME
    for _ in range(2 if lesson_dir.folder.is_dir() else 0):  # reading must not create the folder
        try:
            with _opened(path) as index:
                return question(index)
        except sqlite3.Error as fault:
            if getattr(fault, "sqlite_errorcode", 0) & 0xFF in _BUSY or not _removed(path):
                break
        except OSError:
            break
    with _opened(Path(":memory:")) as index:
        index.refresh(lesson_dir)
        return question(index)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Index]:
    if path.parent != Path():
        path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(path, timeout=_WAIT_S)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # an index damaged by a power cut is rebuilt
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError("created by another version")
        if version == 0:
            form = WORDS if _has_fts5() else NO_FTS5
            connection.executescript(f"BEGIN; {TABLES} {form} PRAGMA user_version = {VERSION}; COMMIT;")
        (form,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'words'").fetchone()
        plain = "VIRTUAL" not in form
        if plain and _has_fts5():
            raise sqlite3.DatabaseError("created by an SQLite without FTS5")
        yield Index(connection, plain=plain)


def _has_fts5() -> bool:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute(WORDS)
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


# Search without FTS5 ------------------------------------------------------------------------------------------------
# It reads every lesson: slow, but without requirements.

_WEIGHTS = (8, 5, 1)  # for title, keywords and body
_ENDINGS = ("ations", "ation", "ings", "ing", "ions", "ion", "ers", "ies", "er", "ed", "es", "ly", "s", "e", "y")
_SHORTEST = 3  # letters of a stem


class LessonText(NamedTuple):
    """The searchable text of one lesson."""

    number: int
    title: str
    keywords: str
    body: str


def ranked(rows: Iterable[LessonText], terms: Sequence[str]) -> list[int]:
    """Return lessons with every word first, then those with any word, each best first."""
    wanted = {stem(term) for term in terms}
    rated = [(*_rate(row, wanted), row.number) for row in rows]
    rated = [rating for rating in rated if rating[0]]
    return [number for *_, number in sorted(rated, key=lambda rating: (-rating[0], -rating[1], rating[2]))]


def _rate(row: LessonText, wanted: set[str]) -> tuple[int, int]:
    """Return how many of the words the lesson has, and their weight."""
    hits = [wanted & {stem(word) for word in lesson_words.terms_of(text)} for text in row[1:]]
    return len(set().union(*hits)), sum(weight * len(hit) for weight, hit in zip(_WEIGHTS, hits, strict=True))


def stem(word: str) -> str:
    """Remove the endings of a word repeatedly: "retries" and "retrying" have the same stem."""
    low = word.lower()
    while ending := next(
        (suffix for suffix in _ENDINGS if low.endswith(suffix) and len(low) - len(suffix) >= _SHORTEST), ""
    ):
        low = low[: -len(ending)]
    return low
