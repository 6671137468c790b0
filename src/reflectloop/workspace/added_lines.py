"""Reads a patch as it comes and looks through the lines it adds, file by file, with their numbers in the new file."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from reflectloop.secrets import Detector, Scanner, SecretFinding, narrow
from reflectloop.system import files
from reflectloop.workspace.line_splitter import LineChunk, LineSplitter

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def _both(names: bytes) -> bytes:
    """The name in `a/NAME b/NAME`; nothing where the two differ, for then other lines say it."""
    half = len(names) // 2
    old, new = (one.strip(b'"') for one in (names[:half], names[half + 1 :]))  # quoted where letters are odd
    old, new = old.removeprefix(b"a/"), new.removeprefix(b"b/")
    return new if old == new else b""


class AddedSecret(NamedTuple):
    path: str
    finding: SecretFinding
    commit: str | None
    line: int


class AddedLines:
    """A hunk says how many lines it has, so nothing in them is taken for a header.

    Removed lines may hold a secret that is being taken out, or moved: they are only remembered.
    """

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._found: list[AddedSecret] = []
        self._told = 0  # of `_found`
        self._pieces = LineSplitter()
        self._into: Scanner | None = None  # where the rest of a long line goes
        self._path = ""
        self._name = b""
        self._commit: str | None = None
        self._removed = self._expected = 0
        self._hunks: list[tuple[int, int]] = []  # the scanner's line and the file's at the beginning of each hunk
        self._fed = 1
        self._scanner = detector.scanner()
        self._old = detector.scanner()

    @property
    def moved(self) -> frozenset[str]:
        """Fingerprints of what the patch takes out somewhere. Of a patch read to its end."""
        return frozenset(one.fingerprint for one in self._old.findings)

    def news(self) -> list[AddedSecret]:
        """What was found since this was last asked, while the patch is still coming."""
        self._place()
        told, self._told = self._told, len(self._found)
        return self._found[told:]

    def feed(self, chunk: bytes) -> None:
        for piece in self._pieces.feed(chunk):
            self._take(piece)

    def finish(self) -> list[AddedSecret]:
        for piece in self._pieces.finish():
            self._take(piece._replace(ends=True))
        self._close()
        self._old.finish()
        return self._found

    def _take(self, piece: LineChunk) -> None:
        if piece.begins:
            self._into = None
            self._begin(piece.text)
            piece = piece._replace(text=piece.text[1:])
        if self._into:
            self._into.feed(narrow(piece.whole))

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
            self._scanner.feed(b"\n")  # what two hunks hold does not belong together
            self._fed += 1
            self._hunks.append((self._fed, int(hunk[2])))
        elif line.startswith(b"\0"):
            self._close()
            self._commit = line[1:].decode("ascii", "replace")
        elif line.startswith(b"diff --git "):
            self._close()
            self._path, self._name = "", _both(line[11:])
        elif line.startswith(b"new file mode ") and self._name:
            self._named(self._name)  # nothing else names a file that is empty
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
        self._found += [AddedSecret(self._path, one, self._commit, 0) for one in self._detector.scan(name)]

    def _close(self) -> None:
        """A file is over."""
        self._scanner.finish()
        self._place()
        self._scanner = self._detector.scanner()
        self._hunks, self._fed = [], 1
        self._removed = self._expected = 0

    def _place(self) -> None:
        """Say where in the file it stands what the scanner found."""
        for one in self._scanner.findings:
            hunk = bisect_right(self._hunks, one.line, key=lambda known: known[0])
            at = self._hunks[hunk - 1] if hunk else (1, 1)
            self._found.append(AddedSecret(self._path, one, self._commit, at[1] + one.line - at[0]))
        self._scanner.findings = []
