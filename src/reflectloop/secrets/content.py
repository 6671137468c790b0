"""Scan the content of a file in any form: text, UTF-16, binary, compressed once or twice, or base64."""

from __future__ import annotations

import base64
import io
import re
import zlib
from collections.abc import Iterator
from typing import Protocol

from reflectloop.secrets import assignment_score, sqlite
from reflectloop.secrets.detector import Detector
from reflectloop.secrets.scanner import Scanner, SecretFinding
from reflectloop.secrets.utf16 import as_plain_text
from reflectloop.system import patterns, terminal

LARGEST = 8 << 20  # bytes; a larger file is scanned as a stream of text, because unpacking holds several copies
_MAX_UNPACKED = 32 << 20  # bytes unpacked from one file, in total
_CHUNK = 1 << 20
_DEPTH = 2  # containers in containers
_MEMBERS = 10_000  # of an archive
_RUNS = 20_000  # of base64
_BINARY_PREFIX = 8000  # bytes that are searched for a NUL to recognise a binary file, as git does
_MIN_VALUE = 6  # characters of a value next to its name in a binary file

_RUN = patterns.lazy(rb"[A-Za-z0-9+/_-]{32,}(?:\r?\n[A-Za-z0-9+/_-]{4,})*={0,2}")
_PRINTABLE = patterns.lazy(rb"[\t\n\r -~]*\Z")
_STRING = patterns.lazy(rb"[!-~]{4,200}")
_JOINED = patterns.lazy(rb"(?i)(?:^|[^a-z])([a-z_.-]{0,24}(?:password|passwd|secret|token|api_?key))([!-~]{8,})")
_HINT = patterns.lazy(
    rb"(?i)pass|pwd|ps?w|secret|token|key|cred|bearer|jwt|nonce|salt"
)  # occurs in every secret-like name
_OLD_PICKLE = patterns.lazy(rb"\(?[dl]p\d+\n|ccopy_reg\n")  # the text protocol, one string per line
_NAME = patterns.lazy(r"[\w.-]{3,60}\Z")
_SECRET_NAME = 2.0  # weight of a name


class _Unpacker(Protocol):
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


def plain_text(data: bytes) -> bytes:
    """Return the data with UTF-16 and UTF-32 as plain text and without characters that have no width."""
    return terminal.visible(as_plain_text(data))


def scan_content(detector: Detector, data: bytes) -> list[SecretFinding]:
    """Return the findings in a file's content: all findings in its text, and the certain ones in unpacked parts."""
    text = plain_text(data)
    findings = detector.scan(text)
    if b"\0" in data[:_BINARY_PREFIX] or _OLD_PICKLE.match(data):
        known = {finding.fingerprint for finding in findings}
        pairs = detector.scan(b"\n".join((*_pairs(text), *_columns(data))))
        findings += [finding._replace(line=1) for finding in pairs if finding.fingerprint not in known]
    if len(data) <= LARGEST:
        budget = [_MAX_UNPACKED]
        for line, inner in _unpacked(data, budget, _DEPTH):
            packed = detector.scan(plain_text(inner))
            findings += [finding._replace(line=line) for finding in packed if finding.grade == "certain"]
    return list(dict.fromkeys(findings))


class Reader:
    """Takes a file in chunks. Scans it as a whole, or as a stream of text if it is too large to unpack."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._buffer = bytearray()
        self._stream: Scanner | None = None

    def feed(self, data: bytes) -> None:
        if self._stream:
            self._stream.feed(plain_text(data))
            return
        self._buffer += data
        if len(self._buffer) > LARGEST:
            self._stream = self._detector.scanner()
            for begin in range(0, len(self._buffer), _CHUNK):
                self._stream.feed(plain_text(bytes(self._buffer[begin : begin + _CHUNK])))
            self._buffer.clear()

    def finish(self) -> list[SecretFinding]:
        """Return the findings."""
        if self._stream is None:
            return scan_content(self._detector, bytes(self._buffer))
        self._stream.finish()
        return self._stream.findings


def _pairs(data: bytes) -> Iterator[bytes]:
    """Yield `name, "value"` for each secret-like name and the string after it, as in databases and pickles."""
    name = b""
    for match in _STRING.finditer(data):
        text = match[0]
        if name and len(text) >= _MIN_VALUE:
            yield b'%s, "%s"' % (name, text)
        name = b""
        if _HINT.search(text):
            if joined := _JOINED.search(text):
                yield b'%s, "%s"' % (joined[1], joined[2])
            names = (text, text.removesuffix(b"q"))  # older pickles append it to each string
            name = next((word for word in names if assignment_score.weight_of_name(word) >= _SECRET_NAME), b"")


def _columns(data: bytes) -> Iterator[bytes]:
    """Yield `name = "value"` for each text in a database whose column, or preceding value, has a secret-like name."""
    for row in sqlite.rows(data):
        before = ""
        for number, value in enumerate(row.values):
            column = row.columns[number] if number < len(row.columns) else ""
            if isinstance(value, str):
                for name in (column, before):
                    if assignment_score.weight_of_name(name.encode()) >= _SECRET_NAME:
                        yield f'{name} = "{value}"'.replace("\n", " ").encode("utf-8", "surrogateescape")
            before = value if isinstance(value, str) and _NAME.match(value) else ""


def _unpacked(data: bytes, budget: list[int], depth: int) -> Iterator[tuple[int, bytes]]:
    """Yield the unpacked parts of the data with the line where each starts; `budget` limits the bytes unpacked."""
    if depth == 0:
        return
    for line, inner in _layers(data, budget):
        yield line, inner
        yield from ((line, deeper) for _, deeper in _unpacked(inner, budget, depth - 1))


def _layers(data: bytes, budget: list[int]) -> Iterator[tuple[int, bytes]]:
    unpacker = _unpacker(data)
    if unpacker:
        yield 1, _inflated(*unpacker, data, budget)
    elif data.startswith(b"PK\x03\x04"):
        yield from ((1, member) for member in _members(data, budget))
    else:
        yield from _decoded(data, budget)


def _unpacker(data: bytes) -> tuple[_Unpacker, type[Exception]] | None:
    """Return what unpacks the data, and its error for damaged data; None if the data is not packed."""
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31), zlib.error
    if data.startswith(b"BZh"):
        import bz2  # noqa: PLC0415 - most texts hold no archive

        return bz2.BZ2Decompressor(), OSError
    if data.startswith(b"\xfd7zXZ\0"):
        import lzma  # noqa: PLC0415

        return lzma.LZMADecompressor(memlimit=_MAX_UNPACKED * 4), lzma.LZMAError
    return None


def _inflated(unpacker: _Unpacker, error: type[Exception], data: bytes, budget: list[int]) -> bytes:
    """Return the unpacked data, within the budget; nothing if the data is damaged."""
    try:
        out = unpacker.decompress(data, max(budget[0], 1))
    except (error, OSError, EOFError):
        return b""
    budget[0] -= len(out)
    return out


def _members(data: bytes, budget: list[int]) -> Iterator[bytes]:
    import zipfile  # noqa: PLC0415 - most texts hold no archive

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist()[:_MEMBERS]:
                if budget[0] <= 0:
                    return
                with archive.open(entry) as member:
                    out = member.read(budget[0])
                budget[0] -= len(out)
                yield out
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError, ValueError):
        return  # damaged, encrypted or in an unknown format


def _decoded(data: bytes, budget: list[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the decoded runs of base64 that contain text or compressed data, at each of four alignments."""
    line = at = 0
    for number, run in enumerate(_RUN.finditer(data)):
        if number >= _RUNS or budget[0] <= 0:
            return
        line, at = line + data.count(b"\n", at, run.start()), run.start()
        text = re.sub(rb"\s", b"", run[0]).rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
        for begin in range(4):
            head = base64.b64decode(text[begin : begin + 24])
            if not _PRINTABLE.match(head) and not head.startswith((b"\x1f\x8b", b"PK\x03\x04", b"BZh")):
                continue
            encoded = text[begin:]
            out = base64.b64decode(encoded[: len(encoded) - (len(encoded) % 4 == 1)] + b"=" * (-len(encoded) % 4 % 3))
            budget[0] -= len(out)
            yield line + 1, out
