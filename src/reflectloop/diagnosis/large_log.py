"""Reads a log of any size in bounded memory: of a huge one the beginning, the end, and the lines between that tell."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import IO

import re2

from reflectloop.verification.reports import plain

_WHOLE = 6 << 20  # what is smaller is taken as it is
_HEAD, _TAIL = 2 << 20, 6 << 20
_MOST_LINES = 8_000  # of the beginning, and of what lies between: as many as are looked at
_PIECE = 1 << 20
_LONGEST = 2_000  # of a line between
_REPORTS = (b"<", b"{", b"[")  # how a report begins, which is no use in pieces
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_SAMPLE = 1 << 16
_ODD = bytes(code for code in range(32) if code not in b"\t\n\v\f\r\b\a\x1b") + b"\x7f"
_TOO_ODD = 0.03
_TELLING = (
    rb"(?i)\b(?:error|fatal|failed|failure|cannot|could not|unable to|denied|refused|not found|no such|no module|"
    rb"no space|out of memory|timed out|traceback|panic(?:ked)?|abort(?:ed)?|killed|conflict)\b|\w(?:Error|Exception)\b"
)


def read(source: IO[bytes]) -> bytes:
    """All of it; of what is larger than a report may be, no more than tells what happened."""
    data = source.read(_WHOLE + 1)
    if len(data) <= _WHOLE:
        return data
    if data[:4096].lstrip()[:1] in _REPORTS:
        data += source.read(plain.MOST - len(data))
        more = source.read(_PIECE)
        if not more:
            return data
        return _sifted(data + more, source)
    return _sifted(data, source)


def _sifted(data: bytes, source: IO[bytes]) -> bytes:
    head = b"\n".join(data[:_HEAD].split(b"\n", _MOST_LINES)[:_MOST_LINES])
    waiting: deque[bytes] = deque()
    telling: list[bytes] = []
    held, rest = 0, b""
    for piece in _pieces(data[len(head) :], source):
        waiting.append(piece)
        held += len(piece)
        while held - len(waiting[0]) >= _TAIL:
            gone = waiting.popleft()
            held -= len(gone)
            whole, _, rest = (rest + gone).rpartition(b"\n")
            rest = rest[-_LONGEST:]
            telling += islice(_telling(whole), _MOST_LINES - len(telling))
    return b"\n".join((head, *telling, rest + b"".join(waiting)))


def _pieces(data: bytes, source: IO[bytes]) -> Iterator[bytes]:
    yield from (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
    while piece := source.read(_PIECE):
        yield piece


def _telling(text: bytes) -> Iterator[bytes]:
    end = 0
    for found in _pattern().finditer(text):
        if found.start() >= end:
            start = text.rfind(b"\n", 0, found.start()) + 1
            end = text.find(b"\n", found.end())
            end = len(text) if end < 0 else end
            yield text[start : min(end, start + _LONGEST)]


@cache
def _pattern() -> re2._Regexp:
    return re2.compile(_TELLING)


def is_noise(data: bytes) -> bool:
    """Whether it is no text in any encoding that logs have: too many of its bytes stand for nothing one can read."""
    if data.startswith(_WIDE):
        return False
    middle = len(data) // 2
    sample = b"".join((data[:_SAMPLE], data[middle : middle + _SAMPLE], data[-_SAMPLE:]))
    return len(sample) - len(sample.translate(None, _ODD)) > _TOO_ODD * len(sample)
