"""A command's output on its way to disk: made plain text, scanned, capped; head and tail kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO

from reflectloop import secrets
from reflectloop.errors import SecretLeak
from reflectloop.secrets import Scanner
from reflectloop.system import files, terminal

_TAIL = 1 << 20
_BEGINNING = 1 << 10
_NAMED = 5  # of what may be secrets in one command's output


class CappedLog:
    """A file of bounded size: what came first, what came last, and a line saying what was cut."""

    def __init__(self, path: Path, cap: int) -> None:
        self._path = path
        self._tail_cap = min(_TAIL, cap // 2)
        self._room = cap - self._tail_cap
        self._tail = bytearray()
        self._cut = 0
        with files.room_for("a log", path.parent):
            self._file: IO[bytes] = path.open("wb", buffering=0)

    def write(self, data: bytes) -> None:
        head, rest = data[: self._room], data[self._room :]
        if head:
            self._room -= len(head)
            with files.room_for("a log", self._path):
                self._file.write(head)
        if rest:
            self._tail += rest
            if len(self._tail) > 2 * self._tail_cap:
                self._trim()

    def _trim(self) -> None:
        excess = len(self._tail) - self._tail_cap
        if excess > 0:
            self._cut += excess
            del self._tail[:excess]

    def close(self) -> None:
        self._trim()
        with self._file, files.room_for("a log", self._path):
            if self._cut:
                self._file.write(f"\n[reflectloop: {self._cut} bytes cut here; head and tail are kept]\n".encode())
            self._file.write(self._tail)


class Recorder:
    """What a watched command's chunks are handed to. A certain secret stops everything at once."""

    def __init__(
        self,
        log: Path,
        cap: int,
        *,
        show: Callable[[bytes], None],
        look: Callable[[bytes], None],
        apart: Callable[[str, bytes], None] | None = None,
        joined: bool = True,
    ) -> None:
        self._log = CappedLog(log, cap)
        self._detector = secrets.current()
        # Two streams meet in one log: halves of a secret, each harmless, would stand side by side there.
        self._meeting = None if joined else self._detector.scanner()
        self.doubtful: list[str] = []
        self._scanners: dict[str, Scanner] = {}
        self._plain: dict[str, terminal.PlainText] = {}
        self._show = show
        self._look, self._apart = look, apart
        self.beginning = b""  # of what came, to tell the box's own words by; never stored

    def take(self, stream: str, chunk: bytes) -> None:
        if len(self.beginning) < _BEGINNING:
            self.beginning += chunk[:_BEGINNING]
        if stream == "stdout":
            self._look(chunk)
        if stream not in self._scanners:
            self._scanners[stream], self._plain[stream] = self._detector.scanner(), terminal.PlainText()
        # First: a colour in a token would hide it here, and whoever shows the log without colours would show it.
        scanner, text = self._scanners[stream], self._plain[stream].feed(chunk)
        self._pass(stream, scanner, scanner.feed(text))

    def _pass(self, stream: str, scanner: Scanner, clean: bytes) -> None:
        self._judge(stream, scanner)
        if self._apart:
            self._apart(stream, clean)
        if self._meeting:
            clean = self._meeting.feed(clean)
            self._judge("stdout and stderr together", self._meeting)
        self._write(clean)

    def _write(self, clean: bytes) -> None:
        if clean:
            self._log.write(clean)
            self._show(clean)

    def _judge(self, stream: str, scanner: Scanner) -> None:
        found, scanner.findings = scanner.findings, []
        for one in found:
            if one.grade == "certain":
                raise SecretLeak(
                    f"{one.rule} in {stream}, line {one.line} (fingerprint {one.fingerprint})",
                    next_step="take the secret out of what the command prints, and change it: it was exposed",
                )
            if len(self.doubtful) < _NAMED:
                self.doubtful.append(f"{one.rule} in {stream}, line {one.line}")

    def close(self) -> None:
        """Write what was held back; the log is closed whatever comes of it."""
        try:
            for stream, scanner in self._scanners.items():
                self._pass(stream, scanner, scanner.feed(self._plain[stream].finish()) + scanner.finish())
            if self._meeting:
                clean = self._meeting.finish()
                self._judge("stdout and stderr together", self._meeting)
                self._write(clean)
        finally:
            self._log.close()
