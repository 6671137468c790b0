"""Looks through the content of a file, whatever its form: UTF-16, binary, packed once or twice, or in base64."""

from __future__ import annotations

import base64
import bz2
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import Protocol

from reflectloop.secrets import assignment_score, sqlite
from reflectloop.secrets.detector import Detector
from reflectloop.secrets.scanner import Scanner, SecretFinding
from reflectloop.secrets.utf16 import narrow
from reflectloop.system import terminal

LARGEST = 8 << 20  # bytes of a file that is looked at as a whole; several copies are held at once
_ROOM = 32 << 20  # bytes of all that comes out of it
_CHUNK = 1 << 20
_DEPTH = 2  # containers in containers
_MEMBERS = 10_000  # of an archive
_RUNS = 20_000  # of base64
_LOOKED_AT = 8000  # bytes that tell text from binary, as git has it
_SHORTEST = 6  # letters of a value beside its name in a binary file

_RUN = re.compile(rb"[A-Za-z0-9+/_-]{32,}(?:\r?\n[A-Za-z0-9+/_-]{4,})*={0,2}")
_PRINTABLE = re.compile(rb"[\t\n\r -~]*\Z")
_STRING = re.compile(rb"[!-~]{4,200}")
_JOINED = re.compile(rb"(?i)(?:^|[^a-z])([a-z_.-]{0,24}(?:password|passwd|secret|token|api_?key))([!-~]{8,})")
_HINT = re.compile(rb"(?i)pass|pwd|ps?w|secret|token|key|cred|bearer|jwt|nonce|salt")  # in each name that promises
_OLD_PICKLE = re.compile(rb"\(?[dl]p\d+\n|ccopy_reg\n")  # in letters, with one string a line
_NAME = re.compile(r"[\w.-]{3,60}\Z")
_PROMISES = 2.0  # weight of a name


class _Unpacker(Protocol):
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


def plain_text(data: bytes) -> bytes:
    """Return the data with UTF-16 and UTF-32 as plain text and without characters that have no width."""
    return terminal.visible(narrow(data))


def scan(detector: Detector, data: bytes) -> list[SecretFinding]:
    """Return what a file's content holds: every finding of its text, certain ones of what is packed in it."""
    text = plain_text(data)
    found = detector.scan(text)
    if b"\0" in data[:_LOOKED_AT] or _OLD_PICKLE.match(data):
        known = {finding.fingerprint for finding in found}
        pairs = detector.scan(b"\n".join((*_pairs(text), *_columns(data))))
        found += [finding._replace(line=1) for finding in pairs if finding.fingerprint not in known]
    if len(data) <= LARGEST:
        room = [_ROOM]
        for line, inner in _unpacked(data, room, _DEPTH):
            packed = detector.scan(plain_text(inner))
            found += [finding._replace(line=line) for finding in packed if finding.grade == "certain"]
    return list(dict.fromkeys(found))


class Reader:
    """Takes a file in pieces: looks at it as a whole, or as a stream of text where it is too large to be unpacked."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._held = bytearray()
        self._stream: Scanner | None = None

    def feed(self, data: bytes) -> None:
        if self._stream:
            self._stream.feed(plain_text(data))
            return
        self._held += data
        if len(self._held) > LARGEST:
            self._stream = self._detector.scanner()
            for begin in range(0, len(self._held), _CHUNK):
                self._stream.feed(plain_text(bytes(self._held[begin : begin + _CHUNK])))
            self._held.clear()

    def finish(self) -> list[SecretFinding]:
        """Return what the file holds."""
        if self._stream is None:
            return scan(self._detector, bytes(self._held))
        self._stream.finish()
        return self._stream.findings


def _pairs(data: bytes) -> Iterator[bytes]:
    """Yield `name, "value"` for each name that promises a secret and the string beside it: databases and pickles."""
    name = b""
    for match in _STRING.finditer(data):
        text = match[0]
        if name and len(text) >= _SHORTEST:
            yield b'%s, "%s"' % (name, text)
        name = b""
        if _HINT.search(text):
            if joined := _JOINED.search(text):
                yield b'%s, "%s"' % (joined[1], joined[2])
            names = (text, text.removesuffix(b"q"))  # which older pickles write behind each string
            name = next((word for word in names if assignment_score.weight_of_name(word) >= _PROMISES), b"")


def _columns(data: bytes) -> Iterator[bytes]:
    """Yield `name = "value"` for each text of a database whose column, or the column before it, promises a secret."""
    for row in sqlite.rows(data):
        before = ""
        for number, value in enumerate(row.values):
            column = row.columns[number] if number < len(row.columns) else ""
            if isinstance(value, str):
                for name in (column, before):
                    if assignment_score.weight_of_name(name.encode()) >= _PROMISES:
                        yield f'{name} = "{value}"'.replace("\n", " ").encode("utf-8", "surrogateescape")
            before = value if isinstance(value, str) and _NAME.match(value) else ""


def _unpacked(data: bytes, room: list[int], depth: int) -> Iterator[tuple[int, bytes]]:
    """Yield what is packed in the data, with the line it begins on; `room` is how many bytes may still come out."""
    if depth == 0:
        return
    for line, inner in _layers(data, room):
        yield line, inner
        yield from ((line, deeper) for _, deeper in _unpacked(inner, room, depth - 1))


def _layers(data: bytes, room: list[int]) -> Iterator[tuple[int, bytes]]:
    unpacker = _unpacker(data)
    if unpacker:
        yield 1, _inflated(unpacker, data, room)
    elif data.startswith(b"PK\x03\x04"):
        yield from ((1, member) for member in _members(data, room))
    else:
        yield from _decoded(data, room)


def _unpacker(data: bytes) -> _Unpacker | None:
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31)
    if data.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor(memlimit=_ROOM * 4) if data.startswith(b"\xfd7zXZ\0") else None


def _inflated(unpacker: _Unpacker, data: bytes, room: list[int]) -> bytes:
    """Return as much as there is room for; of damaged data what came before the damage cannot be told."""
    try:
        out = unpacker.decompress(data, max(room[0], 1))
    except (zlib.error, OSError, EOFError, lzma.LZMAError):
        return b""
    room[0] -= len(out)
    return out


def _members(data: bytes, room: list[int]) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist()[:_MEMBERS]:
                if room[0] <= 0:
                    return
                with archive.open(entry) as member:
                    out = member.read(room[0])
                room[0] -= len(out)
                yield out
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError, ValueError):
        return  # damaged, encrypted or packed in a way that is not known: it cannot be looked into


def _decoded(data: bytes, room: list[int]) -> Iterator[tuple[int, bytes]]:
    """Yield what runs of base64 hold, where that is text or packed itself, at whichever letter it begins."""
    line = at = 0
    for number, run in enumerate(_RUN.finditer(data)):
        if number >= _RUNS or room[0] <= 0:
            return
        line, at = line + data.count(b"\n", at, run.start()), run.start()
        text = re.sub(rb"\s", b"", run[0]).rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
        for begin in range(4):
            head = base64.b64decode(text[begin : begin + 24])
            if not _PRINTABLE.match(head) and not head.startswith((b"\x1f\x8b", b"PK\x03\x04", b"BZh")):
                continue
            whole = text[begin:]
            out = base64.b64decode(whole[: len(whole) - (len(whole) % 4 == 1)] + b"=" * (-len(whole) % 4 % 3))
            room[0] -= len(out)
            yield line + 1, out
