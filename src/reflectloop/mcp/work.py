"""Work that outlives a call: a process of this program, which a client names by a handle.

Clients end a call after some minutes, and clients die. So a command that may take long runs detached; its answer is a
file, and any server of the project can say what became of it.
"""

from __future__ import annotations

import json
import re
import secrets as chance
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflectloop.errors import InvalidInput, Locked, NothingToDo
from reflectloop.system import clock, files, process
from reflectloop.workspace.folders import Folders

MOST_AT_ONCE = 8
_MOST_STORED = 60  # ended works whose answers are kept
_LARGEST_ANSWER = 64 << 20
_HANDLE = re.compile(r"W-\d{8}-[0-9a-f]{8}")
_GRACE_S = 20.0
_RECORD, _ANSWER, _CANCELLED = "work.json", "answer.json", "cancelled"
_starting = threading.Lock()

WorkState = Literal["running", "ended", "cancelled", "lost"]


class Work(NamedTuple):
    """One command that was started for a client."""

    handle: str
    tool: str
    state: WorkState
    seconds: float
    document: dict[str, Any] | None = None  # what the command printed, once it has ended


class WorkFolder:
    """The works of one project, in `.reflectloop/work`."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.path = folders.own / "work"

    def start(self, tool: str, words: Sequence[str], content: bytes = b"") -> str:
        """Start a command of this program, with `content` as its standard input, and return its handle."""
        with _starting:
            self.folders.ensure_owned()
            self._make_room()
            handle = f"W-{clock.now():%Y%m%d}-{chance.token_hex(4)}"
            folder = self.path / handle
            with files.room_for("the work's folder", folder):
                folder.mkdir(parents=True)
            pid = process.detach([sys.executable, "-m", "reflectloop", *words], folder / _ANSWER, content)
            record = {"tool": tool, "pid": pid, "start": process.start_time(pid), "began": time.time()}
            files.write_atomic(folder / _RECORD, json.dumps(record) + "\n")
        return handle

    def look(self, handle: str) -> Work:
        """Return what became of a work."""
        folder = self._folder(handle)
        record = _read(folder / _RECORD)
        if record is None:
            raise NothingToDo(f"the record of {handle} cannot be read", next_step="reflectloop status")
        tool, began = str(record.get("tool")), float(record.get("began") or 0)
        if _is_running(record):
            return Work(handle, tool, "running", max(0.0, time.time() - began))
        answer = folder / _ANSWER
        ended = answer.stat().st_mtime if answer.exists() else began
        seconds = max(0.0, ended - began)
        document = _read(answer)
        if (folder / _CANCELLED).exists():
            return Work(handle, tool, "cancelled", seconds, document)
        return Work(handle, tool, "ended" if document is not None else "lost", seconds, document)

    def cancel(self, handle: str) -> Work:
        """Ask a work to stop and clean up; end it if it does not. An ended work stays as it is."""
        record = _read(self._folder(handle) / _RECORD) or {}
        if _is_running(record):
            files.write_atomic(self._folder(handle) / _CANCELLED, "")
            process.end_detached(int(record["pid"]), int(record["start"]), _GRACE_S)
        return self.look(handle)

    def recent(self) -> list[Work]:
        """Return the works that are stored, oldest first."""
        if not self.path.is_dir():
            return []
        names = [path.name for path in self.path.iterdir() if _HANDLE.fullmatch(path.name)]
        works = [self.look(name) for name in names if (self.path / name / _RECORD).exists()]
        return sorted(works, key=lambda work: self._began(work.handle))

    def _began(self, handle: str) -> float:
        return (self.path / handle / _RECORD).stat().st_mtime

    def _folder(self, handle: str) -> Path:
        folder = self.path / handle
        if not _HANDLE.fullmatch(handle):
            raise InvalidInput(f"{handle[:60]!r} is not a handle", next_step="use the handle that the tool returned")
        if not folder.is_dir():
            raise NothingToDo(f"there is no work {handle}", next_step="reflectloop status")
        return folder

    def _make_room(self) -> None:
        """Remove the oldest answers, and refuse to start one command too many."""
        works = self.recent()
        running = [work for work in works if work.state == "running"]
        if len(running) >= MOST_AT_ONCE:
            raise Locked(
                f"{len(running)} commands are running for clients already; wait for one of them or cancel it",
                next_step="call status",
            )
        ended = [work for work in works if work.state != "running"]
        for work in ended[: max(0, len(ended) - _MOST_STORED)]:
            files.remove_tree(self.path / work.handle)


def _is_running(record: dict[str, Any]) -> bool:
    pid, start = record.get("pid"), record.get("start")
    if not isinstance(pid, int) or not isinstance(start, int):
        return False
    return not process.has_ended(pid) and process.is_alive(pid, start)  # the former collects our own children


def _read(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file of ours, or None."""
    try:
        if path.stat().st_size > _LARGEST_ANSWER:
            return None
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
