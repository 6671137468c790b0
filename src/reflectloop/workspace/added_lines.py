"""Parses a streamed patch and scans the lines it adds for secrets, with their line numbers in the new file."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from reflectloop.secrets import Detector, Scanner, SecretFinding, as_plain_text
from reflectloop.system import files
from reflectloop.system.patterns import lazy
from reflectloop.workspace.line_splitter import LineChunk, LineSplitter

_HUNK = lazy(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def _both(names: bytes) -> bytes:
    """Return the name in `a/NAME b/NAME`, or b"" if the two differ; other header lines then contain it."""
    half = len(names) // 2
    old, new = (name.strip(b'"') for name in (names[:half], names[half + 1 :]))  # quoted if it has special characters
    old, new = old.removeprefix(b"a/"), new.removeprefix(b"b/")
    return new if old == new else b""


class AddedSecret(NamedTuple):
    path: str
    finding: SecretFinding
    commit: str | None
    line: int


class AddedLines:
    """Scans added lines. A hunk states its number of lines, so no line in it is mistaken for a header.

    Removed lines are scanned too, to recognise a secret that is only removed or moved.
    """

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._secrets: list[AddedSecret] = []
        self._splitter = LineSplitter()
        self._into: Scanner | None = None  # the scanner for the rest of a long line
        self._path = ""
        self._name = b""
        self._commit: str | None = None
        self._removed = self._expected = 0
        self._hunks: list[tuple[int, int]] = []  # the scanner's and the file's line number at the start of each hunk
        self._fed = 1
        self._scanner = detector.scanner()
        self._old = detector.scanner()

    @property
    def moved(self) -> frozenset[str]:
        """Return the fingerprints of the secrets in removed lines, once the patch is complete."""
        return frozenset(finding.fingerprint for finding in self._old.findings)

    def feed(self, chunk: bytes) -> None:
        for piece in self._splitter.feed(chunk):
            self._take(piece)

    def finish(self) -> list[AddedSecret]:
        for piece in self._splitter.finish():
            self._take(piece._replace(ends=True))
        self._close()
        self._old.finish()
        return self._secrets

    def _take(self, piece: LineChunk) -> None:
        if piece.begins:
            self._into = None
            self._begin(piece.text)
            piece = piece._replace(text=piece.text[1:])
        if self._into:
            self._into.feed(as_plain_text(piece.whole))

    def _begin(self, line: bytes) -> None:
        if self._expected and line.startswith(b"+"):
            self._expected -= 1
            self._fed += 1
            self._into = self._scanner
        elif self._removed and line.startswith(b"-"):
            self._removed -= 1
            self._into = self._old
        elif self._expected and self._removed and line.startswith(b" "):
            self._expected -= 1
            self._removed -= 1
            self._fed += 1
            self._scanner.feed(b"\n")
        elif hunk := _HUNK.match(line):
            self._removed, self._expected = (int(count) if count else 1 for count in hunk.group(1, 3))
            self._scanner.feed(b"\n")  # lines of two hunks are not adjacent
            self._fed += 1
            self._hunks.append((self._fed, int(hunk[2])))
        elif line.startswith(b"\0"):
            self._close()
            self._commit = line[1:].decode("ascii", "replace")
        elif line.startswith(b"diff --git "):
            self._close()
            self._path, self._name = "", _both(line[11:])
        elif line.startswith(b"new file mode ") and self._name:
            self._named(self._name)  # no other header names an empty file
        elif line.startswith(b"+++ "):
            self._close()
            self._named(line[4:].rstrip(b"\t").strip(b'"').removeprefix(b"b/"))
        elif line.startswith(b"rename to "):
            self._close()
            self._named(line[10:])

    def _named(self, name: bytes) -> None:
        if self._path and name == self._name:
            return
        self._name = name
        self._path = self._detector.redact(files.display(name))
        self._secrets += [AddedSecret(self._path, finding, self._commit, 0) for finding in self._detector.scan(name)]

    def _close(self) -> None:
        """End the current file."""
        self._scanner.finish()
        self._collect()
        self._scanner = self._detector.scanner()
        self._hunks, self._fed = [], 1
        self._removed = self._expected = 0

    def _collect(self) -> None:
        """Move the scanner's findings to the list, with their line numbers in the file."""
        for finding in self._scanner.findings:
            hunk = bisect_right(self._hunks, finding.line, key=lambda known: known[0])
            at = self._hunks[hunk - 1] if hunk else (1, 1)
            self._secrets.append(AddedSecret(self._path, finding, self._commit, at[1] + finding.line - at[0]))
        self._scanner.findings = []
