"""Read a log of any size in bounded memory: the beginning, the end, and lines in between that look like errors."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import IO

import re2

from reflectloop.verification.reports import plain

_SMALL = 6 << 20  # smaller logs are read completely
_HEAD, _TAIL = 2 << 20, 6 << 20
_MOST_LINES = 8_000  # of the beginning, and of the middle
_CHUNK = 1 << 20
_LONGEST = 2_000  # of a line in the middle
_REPORTS = (b"<", b"{", b"[")  # first bytes of a report, which cannot be read in parts
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_SAMPLE = 1 << 16
_CONTROL = bytes(code for code in range(32) if code not in b"\t\n\v\f\r\b\a\x1b") + b"\x7f"
_TOO_MANY = 0.03
_ERROR_LINE = (
    rb"(?i)\b(?:error|fatal|failed|failure|cannot|could not|unable to|denied|refused|not found|no such|no module|"
    rb"no space|out of memory|timed out|traceback|panic(?:ked)?|abort(?:ed)?|killed|conflict)\b|\w(?:Error|Exception)\b"
)


def read(source: IO[bytes]) -> bytes:
    """Return a log completely, or shortened if it is larger than a report may be."""
    data = source.read(_SMALL + 1)
    if len(data) <= _SMALL:
        return data
    if data[:4096].lstrip()[:1] in _REPORTS:
        data += source.read(plain.MOST - len(data))
        more = source.read(_CHUNK)
        if not more:
            return data
        return _shorten(data + more, source)
    return _shorten(data, source)


def _shorten(data: bytes, source: IO[bytes]) -> bytes:
    head = b"\n".join(data[:_HEAD].split(b"\n", _MOST_LINES)[:_MOST_LINES])
    waiting: deque[bytes] = deque()
    errors: list[bytes] = []
    size, rest = 0, b""
    for chunk in _chunks(data[len(head) :], source):
        waiting.append(chunk)
        size += len(chunk)
        while size - len(waiting[0]) >= _TAIL:
            oldest = waiting.popleft()
            size -= len(oldest)
            lines, _, rest = (rest + oldest).rpartition(b"\n")
            rest = rest[-_LONGEST:]
            errors += islice(_error_lines(lines), _MOST_LINES - len(errors))
    return b"\n".join((head, *errors, rest + b"".join(waiting)))


def _chunks(data: bytes, source: IO[bytes]) -> Iterator[bytes]:
    yield from (data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK))
    while chunk := source.read(_CHUNK):
        yield chunk


def _error_lines(text: bytes) -> Iterator[bytes]:
    end = 0
    for match in _pattern().finditer(text):
        if match.start() >= end:
            start = text.rfind(b"\n", 0, match.start()) + 1
            end = text.find(b"\n", match.end())
            end = len(text) if end < 0 else end
            yield text[start : min(end, start + _LONGEST)]


@cache
def _pattern() -> re2._Regexp:
    return re2.compile(_ERROR_LINE)


def is_noise(data: bytes) -> bool:
    """Return True if the data is not text in any encoding of logs: too many of its bytes are control characters."""
    if data.startswith(_UTF16):
        return False
    middle = len(data) // 2
    sample = b"".join((data[:_SAMPLE], data[middle : middle + _SAMPLE], data[-_SAMPLE:]))
    return len(sample) - len(sample.translate(None, _CONTROL)) > _TOO_MANY * len(sample)
