"""Scan a byte stream across chunk borders in bounded memory, and return it redacted."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from reflectloop.errors import SecretLeak
from reflectloop.secrets.matcher import AHEAD, BEHIND, TILE, Matcher, ScanBlock
from reflectloop.secrets.rule import Grade
from reflectloop.secrets.spans import Cluster, Span, clusters

_MAX_CHUNK = 1 << 16  # bytes scanned at once: the positions of keywords take memory too


class SecretFinding(NamedTuple):
    """The place of a secret. Its value is never stored."""

    rule: str
    grade: Grade
    line: int
    fingerprint: str


def fingerprint(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:12]


class Scanner:
    """Scans one stream. `feed` returns the redacted text so far; text that cannot be judged yet is held back."""

    def __init__(self, matcher: Matcher, allowed: frozenset[str] = frozenset()) -> None:
        self.findings: list[SecretFinding] = []
        self._matcher = matcher
        self._allowed = allowed
        self._data = b""
        self._scanned = 0  # offset in `_data`: everything before it is scanned
        self._returned = 0  # offset in `_data`: everything before it was returned
        self._column = 0  # of `_scanned` in its line, if that line is a long one
        self._line = 1  # line number of `_returned`
        self._scan_at = 0  # length of `_data` below which another scan would find nothing new
        self._spans: list[Span] = []  # found, and not returned yet

    def feed(self, chunk: bytes) -> bytes:
        if len(chunk) <= _MAX_CHUNK:
            return self._feed_part(chunk)
        return b"".join(
            self._feed_part(chunk[start : start + _MAX_CHUNK]) for start in range(0, len(chunk), _MAX_CHUNK)
        )

    def _feed_part(self, chunk: bytes) -> bytes:
        self._data = self._data + chunk if self._data else bytes(chunk)
        end = self._data.rfind(b"\n", self._scanned) + 1
        tail = max(end, self._scanned)
        line_start = tail - (self._column if end <= self._scanned else 0)  # where the unfinished line starts
        if len(self._data) - line_start > TILE + AHEAD:
            end = max(end, line_start + (len(self._data) - AHEAD - line_start) // TILE * TILE)
        if end <= self._scanned or len(self._data) < self._scan_at:
            return b""
        released = self._scan_to(end, final=False)
        pending = len(self._data) - self._scanned
        # Pending text is scanned again each time; scanning on every new line would take quadratic time.
        self._scan_at = len(self._data) + pending // 2 if pending > 2 * TILE + AHEAD else 0
        return released

    def finish(self) -> bytes:
        return self._scan_to(len(self._data), final=True)

    def _scan_to(self, end: int, *, final: bool) -> bytes:
        try:
            return self._scan_and_release(end, final=final)
        except Exception as fault:  # text that could not be scanned is treated as a leak
            raise SecretLeak(
                f"the scanner failed ({type(fault).__name__}), so this text is neither stored nor shown",
                next_step="report this; then reflectloop unlock --reason TEXT",
            ) from fault

    def _scan_and_release(self, end: int, *, final: bool) -> bytes:
        result = self._matcher.find(ScanBlock(self._data, self._scanned, end, self._column, final))
        if result.spans:
            self._spans = list(dict.fromkeys(self._spans + result.spans))  # pending text is matched again
        self._advance(result.judged_to)
        return self._release()

    def _advance(self, end: int) -> None:
        """Record that everything before `end` is scanned."""
        newline = self._data.rfind(b"\n", self._scanned, end) + 1
        self._column = end - newline if newline else self._column + end - self._scanned
        self._scanned = end

    def _release(self) -> bytes:
        end = self._scanned
        while crossing := [span.start for span in self._spans if span.start < end < span.end]:
            end = min(crossing)
        ready = clusters([span for span in self._spans if span.start < end]) if self._spans else []
        out: list[bytes] = []
        for cluster in ready:
            out += [self._return_to(cluster.start), self._report(cluster)]
        out.append(self._return_to(end))
        self._discard(end)
        return b"".join(out)

    def _report(self, cluster: Cluster) -> bytes:
        """Record the finding, and return the text that replaces the secret."""
        chief = cluster.chief
        mark = fingerprint(self._data[chief.start : chief.end])
        if mark in self._allowed:
            return self._return_to(cluster.end)
        self.findings.append(SecretFinding(chief.rule, chief.grade, self._line, mark))
        self._return_to(cluster.end)
        return f"[REDACTED:{chief.rule}]".encode()

    def _return_to(self, end: int) -> bytes:
        piece = self._data[self._returned : end]
        self._line += piece.count(b"\n")
        self._returned = end
        return piece

    def _discard(self, end: int) -> None:
        """Drop the returned text, except as much as the next tile of a long line looks back at."""
        cut = min(end, self._scanned - min(self._column, BEHIND))
        if cut <= 0:
            return
        self._data = self._data[cut:]
        self._scanned -= cut
        self._returned -= cut
        self._spans = [
            span._replace(start=span.start - cut, end=span.end - cut) for span in self._spans if span.start >= end
        ]
