"""The daemon's own files: the lock, the heartbeat, the acknowledgements, requests to it, and a rotated log."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.autoloop.submissions import folder_of
from reflectloop.autoloop.task_view import Acknowledgement
from reflectloop.errors import Locked
from reflectloop.state import lock
from reflectloop.system import beneath, clock, files, process
from reflectloop.workspace.folders import Folders

_LARGEST = 16 << 20
_LOG_SIZE = 1 << 20
_OLD_LOGS = 3
ONCE, STOP, FINISH = "ask-once", "ask-stop", "ask-finish"


class WorkSession(NamedTuple):
    """One session that was started, by a process that may outlive the daemon."""

    entry: str
    position: str
    pid: int
    start: int  # of the process, so that a reused pid is not taken for it
    words: tuple[str, ...]
    output: str
    at: str  # wall clock

    @property
    def runs(self) -> bool:
        return process.is_alive(self.pid, self.start)


class DaemonMemory(NamedTuple):
    """All that must survive the daemon: what was acknowledged, and which sessions run."""

    acknowledged: dict[str, Acknowledgement]
    sessions: dict[str, WorkSession]
    night: dict[str, Any]  # the limits, when it began, and the cost at its beginning


class DaemonFiles:
    """The files of one project. Requests lie in the queue's folder, which is watched; the rest lies below it."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.asks = folder_of(folders)
        self.folder = self.asks / "daemon"
        self.listener: Callable[[Mapping[str, Any]], None] = lambda _record: None

    # One daemon ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the daemon's lock of this project; raise LOCKED with the owner if another daemon has it."""
        self.folders.ensure_owned()
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(lock.hold_lock(self.folder, "autoloop"))
            except Locked as fault:
                owner = lock.owner(self.folder / "lock")
                raise Locked(
                    f"another autoloop works in {self.folders.root}: {owner}",
                    next_step="reflectloop autoloop status; or: reflectloop autoloop stop",
                ) from fault
            self._inode = self._lock_inode()
            yield

    _inode: int | None = None

    def _lock_inode(self) -> int | None:
        try:
            return (self.folder / "lock").stat().st_ino
        except OSError:
            return None

    @property
    def is_lost(self) -> bool:
        """Return True if somebody removed the folder under the daemon, so that its lock holds nobody off any more."""
        return self._lock_inode() != self._inode

    @property
    def is_running(self) -> bool:
        return lock.is_held(self.folder)

    @property
    def pid(self) -> int | None:
        return lock.owner_pid(self.folder / "lock") if self.is_running else None

    # Requests ------------------------------------------------------------------------------------------------------

    def ask(self, what: str) -> None:
        files.write_atomic(self.asks / what, clock.stamp(clock.now()) + "\n")

    def is_asked(self, what: str) -> bool:
        """Return True if somebody asked for this, and forget it."""
        try:
            (self.asks / what).unlink()
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    # Memory --------------------------------------------------------------------------------------------------------

    def read_memory(self) -> DaemonMemory:
        """Return the memory; an unreadable one is empty, and the journals say what is left to do."""
        record = self._read("memory.json")
        try:
            acknowledged = {key: Acknowledgement(**value) for key, value in record.get("acknowledged", {}).items()}
            sessions = {
                key: WorkSession(**{**value, "words": tuple(value["words"])})
                for key, value in record.get("sessions", {}).items()
            }
            return DaemonMemory(acknowledged, sessions, dict(record.get("night", {})))
        except (TypeError, ValueError, AttributeError, KeyError):
            return DaemonMemory({}, {}, {})

    def write_memory(self, memory: DaemonMemory) -> None:
        record = {
            "acknowledged": {key: value._asdict() for key, value in memory.acknowledged.items()},
            "sessions": {key: value._asdict() for key, value in memory.sessions.items()},
            "night": memory.night,
        }
        files.write_atomic(self.folder / "memory.json", json.dumps(record) + "\n")

    def read_status(self) -> dict[str, Any]:
        return self._read("status.json")

    def write_status(self, status: Mapping[str, Any]) -> None:
        files.write_atomic(self.folder / "status.json", json.dumps(status, ensure_ascii=False) + "\n")

    def _read(self, name: str) -> dict[str, Any]:
        try:
            record = json.loads(beneath.read_path(self.folder / name, _LARGEST, within=self.folders.own))
        except (OSError, ValueError, RecursionError):
            return {}
        return record if isinstance(record, dict) else {}

    def output_of(self, key: str) -> Path:
        return self.folder / "sessions" / f"{key}.json"

    def read_answer(self, path: str) -> dict[str, Any]:
        """Return what a session printed; empty if it died before it could."""
        try:
            record = json.loads(beneath.read_path(Path(path), _LARGEST, within=self.folders.own))
        except (OSError, ValueError, RecursionError):
            return {}
        return record if isinstance(record, dict) else {}

    # Log -----------------------------------------------------------------------------------------------------------

    @property
    def log_path(self) -> Path:
        return self.folder / "log.jsonl"

    def log(self, action: str, **fields: object) -> None:
        """Append one line; a full disk loses a line, never the daemon."""
        record = {"at": clock.stamp(clock.now()), "action": action, **fields}
        self.listener(record)
        line = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._rotate()
            descriptor = os.open(
                self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)

    def _rotate(self) -> None:
        try:
            if self.log_path.stat().st_size < _LOG_SIZE:
                return
        except OSError:
            return
        for number in range(_OLD_LOGS, 0, -1):
            older = self.log_path.with_suffix(f".{number - 1}.jsonl") if number > 1 else self.log_path
            if older.exists():
                older.replace(self.log_path.with_suffix(f".{number}.jsonl"))

    def log_lines(self, count: int) -> list[str]:
        if not self.log_path.is_file():
            return []
        return files.last_lines(self.log_path, count, size=count * 4096).splitlines()
