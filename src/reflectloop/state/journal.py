"""The journal file: one checksummed and signed JSON line per event, on disk before the engine continues."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.errors import StateDamaged
from reflectloop.state.events import KINDS, Event, Json
from reflectloop.system import clock, files

SCHEMA = 1
STATE = "state.json"
_SEAL = ',"crc":"'
_SEAL_FORM = b',"crc":"%08x"}'
_SEAL_LENGTH = len(_SEAL) + 8 + len('"}')
_MAC = ',"mac":"'
_MAC_DIGITS = 32
_MAC_LENGTH = len(_MAC) + _MAC_DIGITS + len('"')

OnEvent = Callable[["JournalEntry"], None]
Clean = Callable[[str], str]  # removes what may not be stored from a text
Sign = Callable[[bytes], str]  # signs with a key that is not in the project
# Fields with text by people and programs; the others are ids, codes and paths.
_NAMES = """
    title titles objective details imported reason reasons command commands checks fix text unblock backtracks cause
    findings
"""
_decode = json.JSONDecoder().raw_decode
_TEXT_FIELDS = frozenset(_NAMES.split())


class JournalEntry(NamedTuple):
    seq: int
    at: str
    event: Event

    def as_json(self) -> Json:
        return {"seq": self.seq, "at": self.at, "kind": self.event.kind, **self.event.payload()}


def seal(record: Json) -> bytes:
    """Return a record as a line with its checksum."""
    return _with_checksum(json.dumps(record, ensure_ascii=True, separators=(",", ":"))[:-1])


def _with_checksum(text: str) -> bytes:
    return f'{text}{_SEAL}{zlib.crc32(text.encode()):08x}"}}\n'.encode()


def verified_content(line: bytes) -> bytes | None:
    """Return the content of a line, or None if its checksum does not match."""
    text, seal_text = line[:-_SEAL_LENGTH], line[-_SEAL_LENGTH:]
    return text + b"}" if seal_text == _SEAL_FORM % zlib.crc32(text) else None


def unseal(line: bytes) -> Json | None:
    """Return the record in a line, or None if its checksum does not match."""
    text = verified_content(line)
    if text is None:
        return None
    written = text.decode()  # from bytes, json would guess the encoding of each line
    record, end = _decode(written)
    return record if end == len(written) else None


def read(path: Path) -> list[JournalEntry]:
    """Return all events in order. An incomplete last line, left by a crash, is dropped; other damage raises."""
    raw = content(path)
    refuse_cut(path, raw)
    return parse(path, raw)


def refuse_cut(path: Path, raw: bytes) -> None:
    """Raise StateDamaged if the journal is shorter than the part from which `state.json` was made.

    The journal is on disk before that document is written, so only a loss can make it shorter.
    """
    covered = _covered_bytes(path.with_name(STATE))
    if covered <= raw.rfind(b"\n") + 1:
        return
    # A writer may have appended and refreshed the document since `raw` was read: the journal itself decides.
    if covered > content(path).rfind(b"\n") + 1 and path.exists():  # a journal that was moved away starts again
        missing = raw.count(b"\n") + 1
        raise StateDamaged(
            f"{path}:{missing}: lines are missing at its end: {STATE} was made from a longer journal",
            next_step=f"restore {path} from a backup; or, if this is intended, remove {path.with_name(STATE)}",
        )


def _covered_bytes(document: Path) -> int:
    """Return the number of journal bytes that an intact `state.json` covers, or 0."""
    try:
        text = verified_content(document.read_bytes().removesuffix(b"\n")) if document.is_file() else None
        head = json.loads(text.split(b',"task":', 1)[0] + b"}") if text else {}
    except (OSError, ValueError):
        return 0
    length = head.get("journal_bytes") if head.get("schema_version") == SCHEMA else None
    return length if isinstance(length, int) else 0


def content(path: Path) -> bytes:
    """Return the journal's bytes, or b"" if there is no journal."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as fault:
        raise StateDamaged(
            f"{path} cannot be read: {os.strerror(fault.errno or 0).lower()}",
            next_step=f"check its permissions (ls -l {path}), then: reflectloop status",
        ) from fault


def parse(path: Path, raw: bytes, before: int = 0) -> list[JournalEntry]:
    """Return the events in `raw`, which follows the first `before` lines of the journal."""
    lines = raw.split(b"\n")
    lines.pop()  # empty, or torn
    with no_collection():
        return [_entry(path, number, line) for number, line in enumerate(lines, before + 1)]


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Let the garbage collector wait while many records are made, which it would look through again and again."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _entry(path: Path, number: int, line: bytes) -> JournalEntry:
    record: dict[str, Any] | None = unseal(line)
    if record is None:
        raise _damaged(path, number, "the checksum does not match")
    taken = record.pop
    taken("mac", None)
    seq, at, kind, schema = taken("seq", None), taken("at", None), taken("kind", None), taken("v", None)
    made = KINDS.get(kind) if isinstance(kind, str) else None
    if schema != SCHEMA or made is None:
        raise _damaged(path, number, f"it was written by another version (schema {schema}, event {kind!r})")
    if seq != number:
        raise _damaged(path, number, f"it is number {seq}: a line is missing or duplicated")
    try:
        return JournalEntry(number, str(at), made.taking(record))
    except TypeError as fault:
        raise _damaged(path, number, f"it was written by another version ({fault})") from fault


def _damaged(path: Path, number: int, why: str) -> StateDamaged:
    return StateDamaged(
        f"{path}:{number}: {why}",
        next_step=f"restore {path} from a backup, or move it away to start a new task",
    )


# Signatures ----------------------------------------------------------------------------------------------------


class Signatures(NamedTuple):
    """The signed part of a journal: from which line on, and the first line whose signature is wrong or missing."""

    first: int | None  # None if no line is signed
    broken: int | None


def check_signatures(raw: bytes, sign: Sign) -> Signatures:
    """Check the signatures of all complete lines. Each covers the one before; the first, all the lines before it."""
    from hmac import compare_digest  # noqa: PLC0415 - most commands only read

    first, previous, length = None, b"", 0
    for number, line in enumerate(raw.split(b"\n")[:-1], 1):
        mac = _mac_of(line)
        if mac is None:
            if first is not None:
                return Signatures(first, number)
        else:
            if first is None:
                first, previous = number, _start(raw[:length])
            text = line[: -_SEAL_LENGTH - _MAC_LENGTH]
            if not compare_digest(mac, sign(previous + text)[:_MAC_DIGITS].encode()):
                return Signatures(first, number)
            previous = mac
        length += len(line) + 1
    return Signatures(first, None)


def _mac_of(line: bytes) -> bytes | None:
    part = line[-_SEAL_LENGTH - _MAC_LENGTH : -_SEAL_LENGTH]
    return part[len(_MAC) : -1] if part.startswith(_MAC.encode()) and part.endswith(b'"') else None


def _start(before: bytes) -> bytes:
    """Return what the first signature covers besides its line: all lines that an earlier version wrote."""
    return hashlib.sha256(before).hexdigest().encode() if before else b""


def redact_event(event: Event, clean: Clean) -> Event:
    """Return the event with its texts redacted."""
    texts = {name: _cleaned(value, clean) for name, value in event.payload().items() if name in _TEXT_FIELDS}
    return event.replaced(**texts) if texts else event


def _cleaned(value: Any, clean: Clean) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return clean(value) if value else value
    if isinstance(value, dict):
        return {name: _cleaned(each, clean) for name, each in value.items()}
    return [_cleaned(each, clean) for each in value] if isinstance(value, (list, tuple)) else value


class Journal:
    """Appends events. The project's lock allows one writer at a time."""

    def __init__(
        self, path: Path, on_event: OnEvent | None = None, clean: Clean | None = None, sign: Sign | None = None
    ) -> None:
        self.path = path
        self._clean = clean
        self._sign = sign
        self._on_event = on_event
        self._lock = threading.Lock()
        with files.room_for("the journal", path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not path.exists()
            self.entries = read(path)
            self._seq = len(self.entries)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            raw = self.path.read_bytes()
            sound = raw[: raw.rfind(b"\n") + 1]
            last = sound[sound.rfind(b"\n", 0, -1) + 1 : -1]
            self._mac = _mac_of(last) or _start(sound)  # of the last line: the next signature covers it
            os.ftruncate(self._file, len(sound))
            os.lseek(self._file, 0, os.SEEK_END)
            if is_new:
                files.sync_folder(path.parent)
                files.sync_folder(path.parent.parent)

    def append(self, event: Event) -> JournalEntry:
        with self._lock:
            return self._append(event)

    def _append(self, event: Event) -> JournalEntry:
        entry = JournalEntry(
            self._seq + 1, clock.stamp(clock.now()), redact_event(event, self._clean) if self._clean else event
        )
        text = json.dumps({"v": SCHEMA, **entry.as_json()}, ensure_ascii=True, separators=(",", ":"))[:-1]
        mac = self._sign(self._mac + text.encode())[:_MAC_DIGITS] if self._sign else ""
        line = _with_checksum(f'{text}{_MAC}{mac}"' if mac else text)
        with files.room_for("the journal", self.path):
            start = os.lseek(self._file, 0, os.SEEK_CUR)
            try:
                _write_all(self._file, line)
                os.fdatasync(self._file)
                self._seq = entry.seq
            except BaseException:
                # Undo completely: a partial line, a hole or a missing number would damage all later lines.
                self._seq = entry.seq - 1
                os.ftruncate(self._file, start)
                os.lseek(self._file, start, os.SEEK_SET)
                raise
        self._mac = mac.encode()
        if self._on_event:
            self._on_event(entry)
        return entry

    def close(self) -> None:
        os.close(self._file)


def _write_all(descriptor: int, raw: bytes) -> None:
    while raw:
        raw = raw[os.write(descriptor, raw) :]
