"""The index file: its tables, how it is opened, and what happens when it is damaged, locked or too large."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from reflectloop.errors import ReflectloopError
from reflectloop.system import files
from reflectloop.workspace.folders import Folders

T = TypeVar("T")
VERSION = 2
NAME = "context.sqlite"
LARGEST = 1 << 30  # bytes; a larger index is rebuilt from the files of today
_WAIT_S = 20.0
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_TOKENS = "tokenize=\"ascii tokenchars '_'\""
TABLES = f"""
CREATE TABLE blob (id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, lines INT, imports TEXT);
CREATE TABLE chunk (id INTEGER PRIMARY KEY, blob INT NOT NULL, first INT, last INT, name TEXT, owner TEXT);
CREATE INDEX chunk_blob ON chunk (blob);
CREATE TABLE definition (name TEXT, chunk INT, PRIMARY KEY (name, chunk)) WITHOUT ROWID;
CREATE TABLE path (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);
CREATE TABLE seen_file (path TEXT PRIMARY KEY, mtime_ns INT, size INT, inode INT, key TEXT) WITHOUT ROWID;
CREATE TABLE base (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, paths BLOB, keys TEXT, numbers BLOB);
CREATE TABLE message (id INTEGER PRIMARY KEY, commit_id TEXT UNIQUE NOT NULL);
CREATE TABLE touched (message INT, path INT, PRIMARY KEY (message, path)) WITHOUT ROWID;
CREATE INDEX touched_path ON touched (path);
CREATE TABLE reach (tip TEXT PRIMARY KEY, messages BLOB) WITHOUT ROWID;
CREATE VIRTUAL TABLE chunk_words USING fts5 (names, body, content='', {_TOKENS});
CREATE VIRTUAL TABLE blob_words USING fts5 (names, body, content='', {_TOKENS});
CREATE VIRTUAL TABLE path_words USING fts5 (body, content='', {_TOKENS});
CREATE VIRTUAL TABLE message_words USING fts5 (body, content='', {_TOKENS});
CREATE VIRTUAL TABLE chunk_terms USING fts5vocab (chunk_words, row);
CREATE VIRTUAL TABLE path_terms USING fts5vocab (path_words, row);
CREATE VIRTUAL TABLE message_terms USING fts5vocab (message_words, row);
"""


class NoFullText(Exception):
    """This Python's SQLite has no FTS5."""


def has_full_text() -> bool:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE t USING fts5 (a)")
        except sqlite3.OperationalError:
            return False
        return True


def place_for(root: Path) -> Path | None:
    """Return the index file of a project, shared by its worktrees; None if nothing can be written there."""
    folders = Folders(_main_worktree(root))
    try:
        folders.reject_links()
        folders.ensure_owned()
        (folders.own / "cache").mkdir(exist_ok=True)
    except (OSError, ReflectloopError):
        return None
    place = folders.own / "cache" / NAME
    return place if os.access(place if place.exists() else place.parent, os.W_OK) else None


def _main_worktree(root: Path) -> Path:
    """Return the first working tree of the repository, or the folder itself."""
    pointer = root / ".git"
    try:
        text = pointer.read_text("utf-8") if pointer.is_file() and not pointer.is_symlink() else ""
    except (OSError, UnicodeDecodeError):
        return root
    git_dir = Path(text.removeprefix("gitdir:").strip())
    main = git_dir.parent.parent.parent
    is_worktree = (
        text.startswith("gitdir:") and git_dir.parent.name == "worktrees" and git_dir.parent.parent == main / ".git"
    )
    return main if is_worktree and (git_dir / "commondir").is_file() and main.is_dir() else root


def ask(place: Path | None, question: Callable[[sqlite3.Connection], T], *, largest: int = LARGEST) -> T:
    """Answer a question with the index; rebuild a damaged one, and use memory if it is locked or not writable."""
    if not has_full_text():
        raise NoFullText
    for _ in range(2):
        if place is None:
            break
        try:
            _limit(place, largest)
            with opened(place) as connection:
                return question(connection)
        except sqlite3.Error as fault:
            if getattr(fault, "sqlite_errorcode", 0) & 0xFF in _BUSY or not _removed(place):
                break
        except OSError:
            break
    with opened(None) as connection:
        return question(connection)


@contextlib.contextmanager
def opened(place: Path | None) -> Iterator[sqlite3.Connection]:
    """Open the index and create its tables; without a place it is in memory."""
    with contextlib.closing(sqlite3.connect(place or ":memory:", timeout=_WAIT_S, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")  # an index damaged by a power cut is rebuilt
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cache_size = -32000")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            _create(connection)
        elif version != VERSION:
            raise sqlite3.DatabaseError("created by another version")
        yield connection


def _create(connection: sqlite3.Connection) -> None:
    """Create the tables, unless another process did so meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:  # commits, or rolls back
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            for statement in filter(str.strip, TABLES.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def _limit(place: Path, largest: int) -> None:
    """Remove an index that has grown too large: it holds every version of every file that was ever asked about."""
    if place.exists() and place.stat().st_size > largest:
        _removed(place)


def _removed(place: Path) -> bool:
    try:
        for part in (place, *(place.with_name(f"{place.name}{end}") for end in ("-journal", "-wal", "-shm"))):
            files.remove_tree(part)
    except OSError:
        return False
    return True
