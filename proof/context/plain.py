"""The two plain ways beside ours: files by distinct identifiers, as with ripgrep, and BM25 over whole words."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from proof.context.cases import Case
from reflectloop.context import question
from reflectloop.context.filekinds import LARGEST
from reflectloop.context.trees import NoMemory

_WORD = re.compile(r"\w+")
_TABLES = """
CREATE TABLE IF NOT EXISTS file (id INTEGER PRIMARY KEY, key TEXT UNIQUE);
CREATE VIRTUAL TABLE IF NOT EXISTS body USING fts5 (text, content='', tokenize="unicode61 tokenchars '_'");
"""
_MOST_WORDS = 400


class PlainIndex:
    """One row per file, its text as it is; shared by all commits of a repository."""

    def __init__(self, place: Path) -> None:
        self._connection = sqlite3.connect(place)
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.executescript(_TABLES)

    def ranks(self, case: Case) -> tuple[list[str], list[str]]:
        """Return the candidates by distinct identifiers of the text, and by BM25."""
        numbers = self._refresh(case)
        paths: dict[int, list[str]] = {}
        for path, number in numbers.items():
            paths.setdefault(number, []).append(path)
        return self._by_identifiers(case.text, paths), self._by_words(case.text, paths)

    def _refresh(self, case: Case) -> dict[str, int]:
        tree = case.tree()
        listing = tree.listing(NoMemory()).files
        known = dict(self._connection.execute("SELECT key, id FROM file"))
        missing = {path: key for path, key in listing.items() if key not in known}
        with self._connection:
            for path, data in tree.read(missing):
                row = self._connection.execute(
                    "INSERT OR IGNORE INTO file (key) VALUES (?) RETURNING id", (listing[path],)
                ).fetchone()
                if row and len(data) <= LARGEST:
                    text = data.decode("utf-8", "replace")
                    self._connection.execute("INSERT INTO body (rowid, text) VALUES (?, ?)", (*row, text))
        known = dict(self._connection.execute("SELECT key, id FROM file"))
        return {path: known[key] for path, key in listing.items() if key in known}

    def _by_identifiers(self, text: str, paths: dict[int, list[str]]) -> list[str]:
        """Count the distinct names of code in each file, or all long words if the text has no names."""
        names = question.read(text).code or tuple({word for word in _WORD.findall(text) if len(word) > 3})
        counts: dict[str, int] = {}
        for name in names:
            for (number,) in self._connection.execute("SELECT rowid FROM body WHERE body MATCH ?", (f'"{name}"',)):
                for path in paths.get(number, ()):
                    counts[path] = counts.get(path, 0) + 1
        return sorted(counts, key=lambda path: (-counts[path], path))

    def _by_words(self, text: str, paths: dict[int, list[str]]) -> list[str]:
        words = list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))[:_MOST_WORDS]
        query = " OR ".join(f'"{word}"' for word in words)
        rows = self._connection.execute("SELECT rowid FROM body WHERE body MATCH ? ORDER BY rank", (query,))
        return [path for (number,) in rows for path in paths.get(number, ())]
