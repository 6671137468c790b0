"""Scans bytes as they come, across chunk borders, in bounded memory, and gives them back redacted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reflectloop.secrets.rules import PLACEHOLDER, Grade, compiled

WINDOW = 1 << 16  # a line longer than this is scanned in overlapping windows
_OVERLAP = 1 << 12  # the longest secret that is found whole across two windows


class Finding(NamedTuple):
    """Where a secret stood. Its value is never kept."""

    rule: str
    grade: Grade
    line: int
    fingerprint: str


class _Span(NamedTuple):
    start: int
    end: int
    rule: str
    grade: Grade


class Scanner:
    """One stream. `feed` returns what may be shown; the rest of an unfinished line is held back."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._held = b""
        self._line = 1

    def feed(self, chunk: bytes) -> bytes:
        data = self._held + chunk if self._held else chunk
        cut = data.rfind(b"\n") + 1
        if len(data) - cut > WINDOW:
            cut = len(data) - _OVERLAP
        self._held = data[cut:]
        return self._clean(data[:cut], self._held) if cut else b""

    def finish(self) -> bytes:
        held, self._held = self._held, b""
        return self._clean(held, b"")

    def _clean(self, data: bytes, ahead: bytes) -> bytes:
        """Redact `data`. Where a long line was cut, what lies `ahead` is looked at too."""
        whole = data + ahead if ahead and not data.endswith(b"\n") else data
        spans = [span for span in _spans(whole) if span.start < len(data)]
        if spans and spans[-1].end > len(data):
            self._held = ahead[spans[-1].end - len(data) :]
        out: list[bytes] = []
        position = 0
        for span in spans:
            self.findings.append(_finding(whole, span, self._line))
            out += [whole[position : span.start], f"[REDACTED:{span.rule}]".encode()]
            position = span.end
        out.append(data[position:])
        self._line += data.count(b"\n")
        return b"".join(out)


def _spans(data: bytes) -> list[_Span]:
    """What the rules find, in order, without overlaps; the longer of two wins."""
    found = list(_matches(data))
    found.sort(key=lambda span: (span.start, -span.end))
    out: list[_Span] = []
    for span in found:
        if not out or span.start >= out[-1].end:
            out.append(span)
        elif span.end > out[-1].end:
            out[-1] = out[-1]._replace(end=span.end)
    return out


def _matches(data: bytes) -> Iterator[_Span]:
    for rule, pattern in compiled():
        if not any(keyword in data for keyword in rule.keywords):
            continue
        for match in pattern.finditer(data):
            start, end = match.span(1)
            if not PLACEHOLDER.search(data[start:end]):
                yield _Span(start, end, rule.name, rule.grade)


def _finding(data: bytes, span: _Span, first_line: int) -> Finding:
    digest = hashlib.sha256(data[span.start : span.end]).hexdigest()[:12]
    return Finding(span.rule, span.grade, first_line + data.count(b"\n", 0, span.start), digest)


def scan(data: bytes) -> list[Finding]:
    scanner = Scanner()
    scanner.feed(data)
    scanner.finish()
    return scanner.findings


def redact(text: str, known: Iterable[bytes] = ()) -> str:
    """The same text with every secret taken out, and every `known` one even where no rule would see it."""
    scanner = Scanner()
    raw = text.encode("utf-8", "surrogateescape")
    for value in known:
        raw = raw.replace(value, b"[REDACTED]")
    return (scanner.feed(raw) + scanner.finish()).decode("utf-8", "surrogateescape")


def values(data: bytes) -> set[bytes]:
    """The secrets themselves, to look for elsewhere. Never to be stored or shown."""
    return {data[span.start : span.end] for span in _spans(data)}
