"""Keep the index in step with a tree: files and commits that it does not know yet are added, and nothing else."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, pairwise
from typing import NamedTuple

from reflectloop.context import chunks, filekinds, grammars, words
from reflectloop.context.redaction import redacted
from reflectloop.context.trees import FileStat, Listing, Tree
from reflectloop.system.git import Git, GitFailed

_SOME = 400  # files that are parsed before they are written together
COMMITS = 6000  # newest commits that are searched
_MOST_BASES = 8  # sets of tracked files that are remembered: branches and worktrees
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
    """Remembers in the index the keys of changed and new files, and the sets of tracked files that were seen before."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known = {
            path: (FileStat(*facts), key) for path, *facts, key in connection.execute("SELECT * FROM seen_file")
        }
        self.fresh: list[tuple[str, int, int, int, str]] = []
        self.numbers: dict[str, int] = {}  # path -> number, for tracked files that were seen before

    def base(self, name: str) -> dict[str, str] | None:
        row = self._connection.execute("SELECT paths, keys, numbers FROM base WHERE name = ?", (name,)).fetchone()
        if row is None:
            return None
        paths = row[0].decode("utf-8", "surrogateescape").split("\0")
        numbers = array("I", row[2])
        self.numbers = {path: number for path, number in zip(paths, numbers, strict=True) if number}
        return dict(zip(paths, row[1].split(), strict=True))

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
    blobs = {path: number for path, number in memory.numbers.items() if path not in listing.changed}
    added = {path: key for path, key in listing.files.items() if path not in blobs}
    blobs |= _add_unknown(connection, tree, added, most_new)
    if any(path in blobs for path in added.keys() & listing.tracked.keys() - listing.changed):
        _remember_base(connection, listing, blobs)
    if memory.fresh:
        with _writing(connection):
            connection.executemany("INSERT OR REPLACE INTO seen_file VALUES (?, ?, ?, ?, ?)", memory.fresh)
    commits = _history(connection, git, tree.tip) if git and tree.tip else frozenset()
    return Corpus(connection, blobs, commits, tree, listing.files)


def _add_unknown(
    connection: sqlite3.Connection, tree: Tree, files: Mapping[str, str], most_new: int | None
) -> dict[str, int]:
    """Add the files that the index does not know, and return the numbers of all."""
    keys = {path: f"{key}{_language(path)}" for path, key in files.items()}
    is_few = len(files) < _SOME
    known = _numbers_of(connection, keys.values()) if is_few else _numbers(connection)
    missing = {key: path for path, key in keys.items() if key not in known}
    if missing and (most_new is None or len(missing) <= most_new):
        _add_files(connection, _parse(tree, {path: files[path] for path in missing.values()}))
        known |= _numbers_of(connection, missing) if len(missing) < _SOME else _numbers(connection)
    _add_paths(connection, keys)
    return {path: known[key] for path, key in keys.items() if key in known}


def _remember_base(connection: sqlite3.Connection, listing: Listing, blobs: Mapping[str, int]) -> None:
    """Store the tracked files of a working folder with their numbers, so that the next answer need not compare them.

    A file that differs now has no number there: the index may not know what git tracks.
    """
    numbers = array("I", [0 if path in listing.changed else blobs.get(path, 0) for path in listing.tracked])
    paths = "\0".join(listing.tracked).encode("utf-8", "surrogateescape")
    with _writing(connection):
        connection.execute(
            "INSERT OR REPLACE INTO base (name, paths, keys, numbers) VALUES (?, ?, ?, ?)",
            (listing.base, paths, " ".join(listing.tracked.values()), numbers.tobytes()),
        )
        connection.execute(
            "DELETE FROM base WHERE id NOT IN (SELECT id FROM base ORDER BY id DESC LIMIT ?)", (_MOST_BASES,)
        )


def _language(path: str) -> str:
    return _LANGUAGES.get(path[path.rfind(".") :].lower(), "")


_LANGUAGES = {suffix: f":{grammar.name}" for grammar in grammars.GRAMMARS for suffix in grammar.suffixes}


def _numbers(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT key, id FROM blob"))


def _numbers_of(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, int]:
    rows = (connection.execute("SELECT key, id FROM blob WHERE key = ?", (key,)).fetchone() for key in keys)
    return dict(filter(None, rows))


@contextlib.contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    with connection:  # commits, or rolls back
        yield


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
            _add_group(connection, group)


def _add_group(connection: sqlite3.Connection, group: list[_Parsed]) -> None:
    """Write a group table by table: rows that alternate between tables take three times as long."""
    known = _numbers_of(connection, [file.key for file in group])  # another process may have been quicker
    fresh = [file for file in group if file.key not in known]
    blobs = list(enumerate(fresh, _last_number(connection, "blob") + 1))
    chunk_rows = ((blob, *row) for blob, file in blobs for row in file.rows)
    numbered = list(enumerate(chunk_rows, _last_number(connection, "chunk") + 1))
    add = connection.executemany
    add("INSERT INTO blob VALUES (?, ?, ?, ?)", [(blob, *file[:3]) for blob, file in blobs])
    add(
        "INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?)",
        [(at, blob, *chunk[:2], " ".join(chunk.names), chunk.owner) for at, (blob, chunk, _, _) in numbered],
    )
    add(
        "INSERT OR IGNORE INTO definition VALUES (?, ?)",
        [(name.rpartition(".")[2].lower(), at) for at, (_, chunk, _, _) in numbered for name in chunk.names],
    )
    add(
        "INSERT INTO chunk_words (rowid, names, body) VALUES (?, ?, ?)",
        [(at, names, body) for at, (_, _, names, body) in numbered],
    )
    add(
        "INSERT INTO blob_words (rowid, names, body) VALUES (?, ?, ?)",
        [(blob, " ".join(row[1] for row in file.rows), " ".join(row[2] for row in file.rows)) for blob, file in blobs],
    )


def _last_number(connection: sqlite3.Connection, table: str) -> int:
    (number,) = connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()  # noqa: S608 - a table
    return int(number)


def _add_paths(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    known = set(chain.from_iterable(connection.execute("SELECT name FROM path")))
    if fresh := [path for path in paths if path not in known and path.isprintable()]:
        with _writing(connection):
            _path_numbers(connection, fresh)


def _path_numbers(connection: sqlite3.Connection, paths: Iterable[str]) -> dict[str, int]:
    """Return the numbers of all known paths, and give these one if they have none."""
    known = dict(connection.execute("SELECT name, id FROM path"))
    unknown = (path for path in dict.fromkeys(paths) if path not in known)
    fresh = {path: number for number, path in enumerate(unknown, _last_number(connection, "path") + 1)}
    connection.executemany("INSERT INTO path (name, id) VALUES (?, ?)", fresh.items())
    connection.executemany(
        "INSERT INTO path_words (rowid, body) VALUES (?, ?)",
        ((number, words.index_words(path)) for path, number in fresh.items()),
    )
    return known | fresh


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
        messages = list(_messages(git, missing))
        with _writing(connection):
            known |= _add_messages(connection, messages)
    numbers = array("I", [known[name] for name in ids if name in known])
    with _writing(connection):
        connection.execute("INSERT OR REPLACE INTO reach VALUES (?, ?)", (tip, numbers.tobytes()))
    return frozenset(numbers)


class _Message(NamedTuple):
    commit: str
    words: str
    touched: list[str]  # paths, none if they are too many


_COMMIT = re.compile(rb"\x01([0-9a-f]+)\x02(.*?)\x03", re.DOTALL)


def _messages(git: Git, ids: list[str]) -> Iterator[_Message]:
    arguments = ("--no-walk=unsorted", "--stdin", "--no-renames", "--name-only", "--format=%x01%H%x02%B%x03", "-z")
    listing = git.run("log", *arguments, stdin="\n".join(ids).encode())
    begins = [*(match.start() for match in _COMMIT.finditer(listing)), len(listing)]
    for start, end in pairwise(begins):
        match = _COMMIT.match(listing, start)
        if match is None:
            continue
        text = redacted(match[2][:_LONGEST_MESSAGE]).decode("utf-8", "replace")
        names = (name.strip(b"\n") for name in listing[match.end() : end].strip(b"\0\n").split(b"\0"))
        touched = [name.decode("utf-8", "replace") for name in names if name]
        yield _Message(match[1].decode(), words.index_words(text), touched if len(touched) <= _MOST_TOUCHED else [])


def _add_messages(connection: sqlite3.Connection, messages: list[_Message]) -> dict[str, int]:
    """Write messages that no other process wrote meanwhile, and return the numbers of all."""
    known = dict(connection.execute("SELECT commit_id, id FROM message"))
    unknown = [message for message in messages if message.commit not in known]
    fresh = list(enumerate(unknown, _last_number(connection, "message") + 1))
    paths = _path_numbers(connection, (path for message in unknown for path in message.touched))
    add = connection.executemany
    add("INSERT INTO message VALUES (?, ?)", ((number, message.commit) for number, message in fresh))
    add("INSERT INTO message_words (rowid, body) VALUES (?, ?)", ((number, message.words) for number, message in fresh))
    add(
        "INSERT OR IGNORE INTO touched VALUES (?, ?)",
        ((number, paths[path]) for number, message in fresh for path in message.touched),
    )
    return known | {message.commit: number for number, message in fresh}
