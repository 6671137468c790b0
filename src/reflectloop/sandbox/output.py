"""Records a command's output: converts it to plain text, redacts secrets, and limits its size to head and tail."""

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
_NAMED = 5  # possible secrets reported for one command


class CappedLog:
    """A file of bounded size: the beginning, the end, and a line that says how much was cut."""

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
    """Receives the output of a command. A certain secret raises SecretLeak at once."""

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
        self._detector = secrets.current_detector()
        # Two streams are merged in one log: the halves of a secret could become adjacent there.
        self._merged = None if joined else self._detector.scanner()
        self.doubtful: list[str] = []
        self._scanners: dict[str, Scanner] = {}
        self._plain: dict[str, terminal.PlainText] = {}
        self._show = show
        self._look, self._apart = look, apart
        self.beginning = b""  # start of the output, to recognise bubblewrap's messages; never stored

    def take(self, stream: str, chunk: bytes) -> None:
        if len(self.beginning) < _BEGINNING:
            self.beginning += chunk[:_BEGINNING]
        if stream == "stdout":
            self._look(chunk)
        if stream not in self._scanners:
            self._scanners[stream], self._plain[stream] = self._detector.scanner(), terminal.PlainText()
        # Plain text first: colour codes inside a token would hide it from the scanner.
        scanner, text = self._scanners[stream], self._plain[stream].feed(chunk)
        self._pass(stream, scanner, scanner.feed(text))

    def _pass(self, stream: str, scanner: Scanner, clean: bytes) -> None:
        self._judge(stream, scanner)
        if self._apart:
            self._apart(stream, clean)
        if self._merged:
            clean = self._merged.feed(clean)
            self._judge("stdout and stderr together", self._merged)
        self._write(clean)

    def _write(self, clean: bytes) -> None:
        if clean:
            self._log.write(clean)
            self._show(clean)

    def _judge(self, stream: str, scanner: Scanner) -> None:
        findings, scanner.findings = scanner.findings, []
        for finding in findings:
            if finding.grade == "certain":
                raise SecretLeak(
                    f"{finding.rule} in {stream}, line {finding.line} (fingerprint {finding.fingerprint})",
                    next_step="remove the secret from the command's output and revoke it: it was exposed",
                )
            if len(self.doubtful) < _NAMED:
                self.doubtful.append(f"{finding.rule} in {stream}, line {finding.line}")

    def close(self) -> None:
        """Write the buffered output and close the log, even on an error."""
        try:
            for stream, scanner in self._scanners.items():
                self._pass(stream, scanner, scanner.feed(self._plain[stream].finish()) + scanner.finish())
            if self._merged:
                clean = self._merged.finish()
                self._judge("stdout and stderr together", self._merged)
                self._write(clean)
        finally:
            self._log.close()
