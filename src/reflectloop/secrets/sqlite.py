"""Read the rows of an SQLite database file without SQLite, skipping damaged pages, because files may be hostile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reflectloop.system import patterns

MAGIC = b"SQLite format 3\0"
_MAX_VALUES = 2_000_000  # values per file; the rows of a hostile file may overlap
_HEADER = 100  # bytes before the first page's header
_LEAF, _INTERIOR = 0x0D, 0x05  # of tables
_SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # bytes of a value by its serial type
_TEXT = 13  # the first serial type of a text; every second type after it is one too
_SCHEMA_COLUMNS = 5
_CODINGS = {2: "utf-16-le", 3: "utf-16-be"}
_CONSTRAINT = patterns.lazy(r"(?i)(?:primary|unique|check|foreign|constraint)\b")
_NAME = patterns.lazy(r"\s*[\"'`\[]?([^\s\"'`\](,]+)")

Value = int | str | None


class Row(NamedTuple):
    columns: list[str]
    values: list[Value]


def rows(data: bytes) -> Iterator[Row]:
    """Yield every row of every table with the names of its columns; damaged parts are skipped."""
    if not data.startswith(MAGIC) or len(data) < _HEADER:
        return
    database = _Database(data)
    for schema in database.rows(1):
        if len(schema) == _SCHEMA_COLUMNS and schema[0] == "table":
            root, text = schema[3], schema[4]
            if isinstance(root, int) and isinstance(text, str):
                columns = columns_of(text)
                yield from (Row(columns, values) for values in database.rows(root))


def columns_of(statement: str) -> list[str]:
    """Return the column names in a CREATE TABLE statement."""
    inside = statement.partition("(")[2]
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(inside):
        depth += (letter == "(") - (letter == ")")
        if depth < 0 or (letter == "," and depth == 0):
            parts.append(inside[begin:place])
            begin = place + 1
        if depth < 0:
            break
    names = [_NAME.match(part) for part in parts if not _CONSTRAINT.match(part.strip())]
    return [name[1] for name in names if name]


class _Database:
    def __init__(self, data: bytes) -> None:
        size = int.from_bytes(data[16:18], "big")
        self._data = data
        self._size = 1 << 16 if size == 1 else max(size, 512)
        self._values_left = _MAX_VALUES
        self._coding = _CODINGS.get(int.from_bytes(data[56:60], "big"), "utf-8")

    def rows(self, root: int) -> Iterator[list[Value]]:
        """Yield the values of each row of the table that starts on a page."""
        waiting, visited = [root], set()
        while waiting:
            number = waiting.pop()
            begin = (number - 1) * self._size
            page = self._data[begin : begin + self._size] if number > 0 else b""
            if number in visited or len(page) < self._size:
                continue
            visited.add(number)
            top = _HEADER if number == 1 else 0
            kind, count = page[top], int.from_bytes(page[top + 3 : top + 5], "big")
            if kind == _INTERIOR:
                waiting.append(int.from_bytes(page[top + 8 : top + 12], "big"))
                waiting += [int.from_bytes(page[cell : cell + 4], "big") for cell in _cells(page, top + 12, count)]
            elif kind == _LEAF:
                yield from (self._row(page, cell) for cell in _cells(page, top + 8, count) if self._values_left > 0)

    def _row(self, page: bytes, place: int) -> list[Value]:
        """Return the values of a row, as far as they are on this page."""
        _, place = _number(page, place)
        _, place = _number(page, place)
        length, at = _number(page, place)
        end = min(place + length, len(page))
        values: list[Value] = []
        body = end
        while at < end and self._values_left > 0:
            self._values_left -= 1
            kind, at = _number(page, at)
            size = _SIZES[kind] if kind < len(_SIZES) else max(0, kind - 12) // 2
            values.append(self._value(kind, page[body : body + size]))
            body += size
        return values

    def _value(self, kind: int, raw: bytes) -> Value:
        if kind >= _TEXT and kind % 2:
            return raw.decode(self._coding, "replace")
        if kind in (8, 9):  # the numbers 0 and 1, which are not stored
            return kind - 8
        return int.from_bytes(raw, "big", signed=True) if 0 < kind < 7 else None  # noqa: PLR2004


def _cells(page: bytes, begin: int, count: int) -> list[int]:
    pointers = page[begin : begin + 2 * count]
    return [int.from_bytes(pointers[place : place + 2], "big") for place in range(0, len(pointers) - 1, 2)]


def _number(page: bytes, place: int) -> tuple[int, int]:
    """Return a variable-length number of up to nine bytes, and the offset after it; bytes past the page are zero."""
    value = 0
    for byte in page[place : place + 8]:
        value = value << 7 | byte & 0x7F
        place += 1
        if byte < 0x80:  # noqa: PLR2004
            return value, place
    return value << 8 | int.from_bytes(page[place : place + 1], "big"), place + 1
