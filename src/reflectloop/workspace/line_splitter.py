"""Splits a stream into lines; a long line is passed on in chunks, to bound memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_LONGEST = 1 << 16  # more than the longest header of a patch


class LineChunk(NamedTuple):
    text: bytes  # without the newline
    begins: bool  # True at the start of a line
    ends: bool  # True at the end of a line, before its newline

    @property
    def whole(self) -> bytes:
        """Return the text with its newline, if any."""
        return self.text + b"\n" if self.ends else self.text


class LineSplitter:
    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._begins = True

    def feed(self, chunk: bytes) -> Iterator[LineChunk]:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._parts.append(line)
            yield self._piece(ends=True)
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        if self._size > _LONGEST:
            yield self._piece(ends=False)

    def finish(self) -> Iterator[LineChunk]:
        if self._parts:
            yield self._piece(ends=False)

    def _piece(self, *, ends: bool) -> LineChunk:
        made = LineChunk(b"".join(self._parts), self._begins, ends)
        self._parts, self._size, self._begins = [], 0, ends
        return made
