"""Scans bytes as they come, across chunk borders, in bounded memory, and gives them back redacted."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from reflectloop.errors import SecretLeak
from reflectloop.secrets.matcher import AHEAD, BEHIND, TILE, Matcher, ScanBlock
from reflectloop.secrets.rule import Grade
from reflectloop.secrets.spans import Cluster, Span, clusters

_MOUTHFUL = 1 << 16  # as much is looked at in one go: the places of keywords in it take memory too


class SecretFinding(NamedTuple):
    """Where a secret stood. Its value is never kept."""

    rule: str
    grade: Grade
    line: int
    fingerprint: str


def fingerprint(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:12]


class Scanner:
    """One stream. `feed` returns what may be shown; what cannot be judged yet is held back."""

    def __init__(self, matcher: Matcher, allowed: frozenset[str] = frozenset()) -> None:
        self.findings: list[SecretFinding] = []
        self._matcher = matcher
        self._allowed = allowed
        self._data = b""
        self._scanned = 0  # in `_data`: patterns have looked as far as this
        self._shown = 0  # in `_data`: given back as far as this
        self._column = 0  # of `_scanned` in its line, where that line is a long one
        self._line = 1  # of `_shown`
        self._awaited = 0  # of `_data`: before it is so long nothing new can be said
        self._spans: list[Span] = []  # found, and not given back yet

    def feed(self, chunk: bytes) -> bytes:
        if len(chunk) <= _MOUTHFUL:
            return self._fed(chunk)
        return b"".join(self._fed(chunk[start : start + _MOUTHFUL]) for start in range(0, len(chunk), _MOUTHFUL))

    def _fed(self, chunk: bytes) -> bytes:
        self._data = self._data + chunk if self._data else bytes(chunk)
        end = self._data.rfind(b"\n", self._scanned) + 1
        tail = max(end, self._scanned)
        begun = tail - (self._column if end <= self._scanned else 0)  # where the unfinished line begins
        if len(self._data) - begun > TILE + AHEAD:
            end = max(end, begun + (len(self._data) - AHEAD - begun) // TILE * TILE)
        if end <= self._scanned or len(self._data) < self._awaited:
            return b""
        shown = self._look(end, final=False)
        held = len(self._data) - self._scanned
        # What is held is looked at anew each time: with every line that comes that would be the square of its length.
        self._awaited = len(self._data) + held // 2 if held > 2 * TILE + AHEAD else 0
        return shown

    def finish(self) -> bytes:
        return self._look(len(self._data), final=True)

    def _look(self, end: int, *, final: bool) -> bytes:
        try:
            return self._looked(end, final=final)
        except Exception as fault:  # whatever it was: what could not be looked at is taken for a leak
            raise SecretLeak(
                f"the scanner failed ({type(fault).__name__}), so nothing of this is stored or shown",
                next_step="report this; then reflectloop unlock --reason TEXT",
            ) from fault

    def _looked(self, end: int, *, final: bool) -> bytes:
        found = self._matcher.find(ScanBlock(self._data, self._scanned, end, self._column, final))
        if found.spans:
            self._spans = list(dict.fromkeys(self._spans + found.spans))  # what is held is found again
        self._move(found.held)
        return self._show()

    def _move(self, end: int) -> None:
        """Patterns have looked as far as `end`."""
        newline = self._data.rfind(b"\n", self._scanned, end) + 1
        self._column = end - newline if newline else self._column + end - self._scanned
        self._scanned = end

    def _show(self) -> bytes:
        upto = self._scanned
        while crossing := [span.start for span in self._spans if span.start < upto < span.end]:
            upto = min(crossing)
        ready = clusters([span for span in self._spans if span.start < upto]) if self._spans else []
        out: list[bytes] = []
        for cluster in ready:
            out += [self._pass_on(cluster.start), self._report(cluster)]
        out.append(self._pass_on(upto))
        self._forget(upto)
        return b"".join(out)

    def _report(self, cluster: Cluster) -> bytes:
        """Note what was found; what stands for it in the text."""
        chief = cluster.chief
        mark = fingerprint(self._data[chief.start : chief.end])
        if mark in self._allowed:
            return self._pass_on(cluster.end)
        self.findings.append(SecretFinding(chief.rule, chief.grade, self._line, mark))
        self._pass_on(cluster.end)
        return f"[REDACTED:{chief.rule}]".encode()

    def _pass_on(self, end: int) -> bytes:
        piece = self._data[self._shown : end]
        self._line += piece.count(b"\n")
        self._shown = end
        return piece

    def _forget(self, upto: int) -> None:
        """Keep what is not shown yet, and as much before it as the next tile of a long line looks back."""
        cut = min(upto, self._scanned - min(self._column, BEHIND))
        if cut <= 0:
            return
        self._data = self._data[cut:]
        self._scanned -= cut
        self._shown -= cut
        self._spans = [
            span._replace(start=span.start - cut, end=span.end - cut) for span in self._spans if span.start >= upto
        ]
