"""Keep the index in step with a tree: files and commits that it does not know yet are added, and nothing else."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

from reflectloop.context import chunks, filekinds, grammars, words
from reflectloop.context.redaction import redacted
from reflectloop.context.trees import FileStat, Tree
from reflectloop.system.git import Git, GitFailed

_SOME = 400  # files that are parsed before they are written together
COMMITS = 6000  # newest commits that are searched
_MOST_TOUCHED = 60  # files of a commit that tells something about each of them
_LONGEST_MESSAGE = 2000


class Corpus(NamedTuple):
    """The files of one tree with their numbers in the index."""

    connection: sqlite3.Connection
    blobs: dict[str, int]  # path -> number of its content
    commits: frozenset[int]  # numbers of the messages of its history
    tree: Tree
    listing: dict[str, str]  # path -> key of its content


class _Parsed(NamedTuple):
    key: str
    lines: int
    imports: str
    rows: list[tuple[chunks.Chunk, str, str]]  # chunk, words of its names, words of its text


class SeenFiles:
    """Remembers the keys of changed and new files in the index."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._known = {
            path: (FileStat(*facts), key) for path, *facts, key in connection.execute("SELECT * FROM seen_file")
        }
        self.fresh: list[tuple[str, int, int, int, str]] = []

    def key(self, path: str, facts: FileStat) -> str | None:
        known = self._known.get(path)
        return known[1] if known and known[0] == facts else None

    def remember(self, path: str, facts: FileStat, key: str) -> None:
        if path.isprintable():  # SQLite takes no name that is not text
            self.fresh.append((path, *facts, key))


def refresh(connection: sqlite3.Connection, tree: Tree, git: Git | None, most_new: int | None = None) -> Corpus:
    """Add what the index does not know of a tree and its history, and return the tree with its numbers.

    Where more than `most_new` files are not known, none is added, and the tree has those that are.
    """
    memory = SeenFiles(connection)
    listing = tree.listing(memory)
    keys = {path: f"{key}{_language(path)}" for path, key in listing.items()}
    known = _numbers(connection)
    missing = {key: path for path, key in keys.items() if key not in known}
    if missing and (most_new is None or len(missing) <= most_new):
        wanted = {path: listing[path] for path in missing.values()}
        _add_files(connection, _parse(tree, wanted))
        known |= _numbers_of(connection, missing) if len(missing) < _SOME else _numbers(connection)
    if memory.fresh:
        with _writing(connection):
            connection.executemany("INSERT OR REPLACE INTO seen_file VALUES (?, ?, ?, ?, ?)", memory.fresh)
    _add_paths(connection, keys)
    blobs = {path: known[key] for path, key in keys.items() if key in known}
    commits = _history(connection, git, tree.tip) if git and tree.tip else frozenset()
    return Corpus(connection, blobs, commits, tree, listing)


def _language(path: str) -> str:
    return _language_of_suffix(path[path.rfind(".") :])


@lru_cache(256)
def _language_of_suffix(suffix: str) -> str:
    grammar = grammars.grammar_of(suffix)
    return f":{grammar.name}" if grammar else ""


def _numbers(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT key, id FROM blob"))


def _numbers_of(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, int]:
    rows = (connection.execute("SELECT key, id FROM blob WHERE key = ?", (key,)).fetchone() for key in keys)
    return dict(filter(None, rows))


@contextlib.contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


# Files ------------------------------------------------------------------------------------------------------------


def _parse(tree: Tree, wanted: Mapping[str, str]) -> Iterator[_Parsed]:
    for path, data in tree.read(wanted):
        yield _parse_file(path, f"{wanted[path]}{_language(path)}", data)


def _parse_file(path: str, key: str, data: bytes) -> _Parsed:
    text = filekinds.readable_text(path, redacted(data) if len(data) <= filekinds.LARGEST else data)
    if text is None:
        return _Parsed(key, 0, "[]", [])
    grammar = grammars.grammar_of(path)
    lines = text.split("\n")
    rows = []
    for chunk in chunks.split(text, grammar):
        names = " ".join((*chunk.names, chunk.owner))
        body = "\n".join(lines[chunk.start - 1 : chunk.end])
        rows.append((chunk, words.index_words(names), words.index_words(body)))
    return _Parsed(key, len(lines), json.dumps(chunks.imports_of(text, grammar)), rows)


def _add_files(connection: sqlite3.Connection, parsed: Iterator[_Parsed]) -> None:
    """Write files in groups, so that other processes are not kept waiting while files are parsed."""
    while group := list(islice(parsed, _SOME)):
        with _writing(connection):
            for file in group:
                _add_file(connection, file)


def _add_file(connection: sqlite3.Connection, file: _Parsed) -> None:
    add = connection.execute
    number = add("INSERT OR IGNORE INTO blob (key, lines, imports) VALUES (?, ?, ?) RETURNING id", file[:3]).fetchone()
    if number is None:
        return  # another process was quicker
    (blob,) = number
    for chunk, names, body in file.rows:
        row = (blob, chunk.start, chunk.end, " ".join(chunk.names), chunk.owner)
        (at,) = add("INSERT INTO chunk VALUES (NULL, ?, ?, ?, ?, ?) RETURNING id", row).fetchone()
        add("INSERT INTO chunk_words (rowid, names, body) VALUES (?, ?, ?)", (at, names, body))
        for name in chunk.names:
            add("INSERT OR IGNORE INTO definition VALUES (?, ?)", (name.rpartition(".")[2].lower(), at))
    names = " ".join(row[1] for row in file.rows)
    body = " ".join(row[2] for row in file.rows)
    add("INSERT INTO blob_words (rowid, names, body) VALUES (?, ?, ?)", (blob, names, body))


def _add_paths(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    known = {name for (name,) in connection.execute("SELECT name FROM path")}
    fresh = [path for path in paths if path not in known and path.isprintable()]
    if fresh:
        with _writing(connection):
            for path in fresh:
                _path_number(connection, path)


def _path_number(connection: sqlite3.Connection, path: str) -> int:
    row = connection.execute("SELECT id FROM path WHERE name = ?", (path,)).fetchone()
    if row is None:
        row = connection.execute("INSERT INTO path (name) VALUES (?) RETURNING id", (path,)).fetchone()
        connection.execute("INSERT INTO path_words (rowid, body) VALUES (?, ?)", (*row, words.index_words(path)))
    return int(row[0])


# History ----------------------------------------------------------------------------------------------------------


def _history(connection: sqlite3.Connection, git: Git, tip: str) -> frozenset[int]:
    """Return the messages of the newest commits that a commit descends from, itself included."""
    row = connection.execute("SELECT messages FROM reach WHERE tip = ?", (tip,)).fetchone()
    if row:
        return frozenset(array("I", row[0]))
    try:
        ids = git.run("rev-list", "--no-merges", f"--max-count={COMMITS}", tip).decode().split()
    except GitFailed:
        return frozenset()  # a shallow or damaged history
    known = dict(connection.execute("SELECT commit_id, id FROM message"))
    missing = [name for name in ids if name not in known]
    if missing:
        with _writing(connection):
            _add_messages(connection, git, missing)
        known = dict(connection.execute("SELECT commit_id, id FROM message"))
    numbers = array("I", [known[name] for name in ids if name in known])
    with _writing(connection):
        connection.execute("INSERT OR REPLACE INTO reach VALUES (?, ?)", (tip, numbers.tobytes()))
    return frozenset(numbers)


_COMMIT = re.compile(rb"\x01([0-9a-f]+)\x02(.*?)\x03", re.DOTALL)


def _add_messages(connection: sqlite3.Connection, git: Git, ids: list[str]) -> None:
    arguments = ("--no-walk=unsorted", "--stdin", "--no-renames", "--name-only", "--format=%x01%H%x02%B%x03", "-z")
    listing = git.run("log", *arguments, stdin="\n".join(ids).encode())
    begins = [*(match.start() for match in _COMMIT.finditer(listing)), len(listing)]
    numbers: dict[bytes, int] = {}
    for start, end in pairwise(begins):
        match = _COMMIT.match(listing, start)
        if match is None:
            continue
        touched = [name for name in listing[match.end() : end].strip(b"\0\n").split(b"\0") if name]
        _add_message(connection, match[1].decode(), match[2], touched, numbers)


def _add_message(
    connection: sqlite3.Connection, commit: str, message: bytes, touched: list[bytes], numbers: dict[bytes, int]
) -> None:
    text = redacted(message[:_LONGEST_MESSAGE]).decode("utf-8", "replace")
    row = connection.execute("INSERT OR IGNORE INTO message VALUES (NULL, ?) RETURNING id", (commit,)).fetchone()
    if row is None:
        return
    connection.execute("INSERT INTO message_words (rowid, body) VALUES (?, ?)", (*row, words.index_words(text)))
    if len(touched) > _MOST_TOUCHED:
        return
    for raw in touched:
        name = raw.strip(b"\n")
        if name not in numbers:
            numbers[name] = _path_number(connection, name.decode("utf-8", "replace"))
        connection.execute("INSERT OR IGNORE INTO touched VALUES (?, ?)", (*row, numbers[name]))
