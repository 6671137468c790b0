"""The queue of one project: an append-only file of submissions and what became of them, read as far as it is new."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.errors import InvalidInput
from reflectloop.plan import load as plans
from reflectloop.system import clock, files
from reflectloop.terms import one_line
from reflectloop.workspace import secret_guard
from reflectloop.workspace.folders import Folders

FOLDER = "autoloop"
_FILE = "queue.jsonl"
_PLANS = "plans"
_LARGEST_PLAN = 4 << 20
_LONGEST_TITLE = 200


class QueueEntry(NamedTuple):
    """One task that waits for its turn, and the task that was opened for it."""

    id: str
    number: int
    title: str
    goal: str = ""
    plan: str = ""  # the copy of the plan, below the folder of the queue
    agent: str = ""  # the agent that executes its steps, instead of the project's
    after: tuple[str, ...] = ()
    priority: int = 0
    at: str = ""
    task_id: str = ""
    withdrawn: str = ""  # the reason
    landing: Mapping[str, Any] = {}  # how it landed on the branch, or why it did not


class NewSubmission(NamedTuple):
    """A request to do a task, as a person makes it."""

    goal: str = ""
    plan: Path | None = None
    title: str = ""
    agent: str = ""
    after: tuple[str, ...] = ()
    priority: int = 0


def folder_of(folders: Folders) -> Path:
    return folders.own / FOLDER


class SubmissionQueue:
    """Reads the queue as far as it grew, and appends to it under a lock."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.path = folder_of(folders) / _FILE
        self.plans = folder_of(folders) / _PLANS
        self._entries: dict[str, QueueEntry] = {}
        self._read_to = 0
        self._identity = (0, 0)

    def entries(self) -> dict[str, QueueEntry]:
        """Return all submissions by id, in their order."""
        try:
            status = self.path.stat()
        except OSError:
            self._entries, self._read_to, self._identity = {}, 0, (0, 0)
            return self._entries
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or status.st_size < self._read_to:  # replaced or cut: read it again
            self._entries, self._read_to, self._identity = {}, 0, identity
        if status.st_size > self._read_to:
            self._read_more()
        return self._entries

    def _read_more(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            raw = file.read()
        whole = raw[: raw.rfind(b"\n") + 1]  # the last line may be half written
        self._read_to += len(whole)
        for line in whole.splitlines():
            self._apply(line)

    def _apply(self, line: bytes) -> None:
        """Apply one line; one that is damaged, or of another version, changes nothing."""
        try:
            record = json.loads(line)
            kind, name = record.pop("kind"), record.pop("id")
            if kind == "submitted":
                record["after"] = tuple(record.get("after", ()))
                entry = QueueEntry(name, len(self._entries) + 1, **record)
            elif name in self._entries and kind in _CHANGES:
                field = _CHANGES[kind]
                entry = self._entries[name]._replace(**{field: record[field]})
            else:
                return
            if _is_sound(entry) and (kind != "submitted" or name not in self._entries):
                self._entries[name] = entry
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return

    # Writing ---------------------------------------------------------------------------------------------------

    def submit(self, new: NewSubmission) -> QueueEntry:
        """Append a submission; its plan is copied, so a later edit of the file changes nothing."""
        _refuse_faults(new)
        self._make_folder()
        with files.locked(self.path.with_name(f"{_FILE}.lock")):
            known = self.entries()
            self._refuse_unknown(new.after)
            name = clock.run_id(clock.now()).replace("RLOP", "Q")
            copy = self._copy_plan(name, new.plan) if new.plan else ""
            title = new.title or (plans.load(self.plans / copy).plan.title if copy else new.goal.splitlines()[0])
            entry = QueueEntry(
                name,
                len(known) + 1,
                one_line(title)[:_LONGEST_TITLE],
                new.goal,
                copy,
                new.agent,
                new.after,
                new.priority,
                clock.stamp(clock.now()),
            )
            fields = entry._asdict()
            for unwritten in ("id", "number", "task_id", "withdrawn", "landing"):
                fields.pop(unwritten)
            self._append({"kind": "submitted", "id": name, **fields})
        return entry

    def open_task(self, name: str, task_id: str) -> None:
        """Record the task that was opened for a submission."""
        self._append({"kind": "opened", "id": name, "task_id": task_id})

    def withdraw(self, name: str, reason: str) -> None:
        if name not in self.entries():
            raise InvalidInput(f"there is no submission {name}", next_step="reflectloop autoloop status")
        self._append({"kind": "withdrawn", "id": name, "withdrawn": reason})

    def record_landing(self, name: str, landing: Mapping[str, Any]) -> None:
        self._append({"kind": "landed", "id": name, "landing": dict(landing)})

    def _make_folder(self) -> None:
        self.folders.ensure_owned()
        with files.room_for("the queue", self.path.parent):
            self.plans.mkdir(parents=True, exist_ok=True)

    def _copy_plan(self, name: str, plan: Path) -> str:
        with files.room_for("the plan", self.plans):
            copy = self.plans / f"{name}{plan.suffix}"
            shutil.copyfile(plan, copy)
        return copy.name

    def _refuse_unknown(self, after: Iterable[str]) -> None:
        """Refuse a task that is not known. So no cycle can come to be: a task names only earlier ones."""
        known = {*self._entries, *(entry.task_id for entry in self._entries.values())}
        for name in after:
            if name not in known and not self.folders.journal(name).is_file():
                raise InvalidInput(
                    f"--after {name}: there is no such task or submission", next_step="reflectloop autoloop status"
                )

    def _append(self, record: Mapping[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=True).encode() + b"\n"
        with files.room_for("the queue", self.path):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
                os.write(descriptor, b"\n" + line if torn else line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


_CHANGES = {"opened": "task_id", "withdrawn": "withdrawn", "landed": "landing"}
_TEXTS = ("id", "title", "goal", "plan", "agent", "at", "task_id", "withdrawn")


def _is_sound(entry: QueueEntry) -> bool:
    """Return True if every field has its kind, also after an edit by hand, and the plan lies in its folder."""
    return (
        all(isinstance(getattr(entry, name), str) for name in _TEXTS)
        and type(entry.priority) is int
        and all(isinstance(name, str) for name in entry.after)
        and isinstance(entry.landing, dict)
        and "/" not in entry.plan
    )


def _refuse_faults(new: NewSubmission) -> None:
    if (new.plan is None) == (not new.goal.strip()):
        raise InvalidInput("a submission has a goal or a plan, and not both", next_step="reflectloop submit --help")
    secret_guard.refuse_secret_text(new.goal, "the goal")
    secret_guard.refuse_secret_text(new.title, "the title")
    if new.plan is None:
        return
    if not new.plan.is_file():
        raise InvalidInput(f"there is no plan {new.plan}", next_step="reflectloop submit --plan PLAN")
    if new.plan.stat().st_size > _LARGEST_PLAN:
        raise InvalidInput(f"{new.plan} is larger than {_LARGEST_PLAN >> 20} MB", next_step="make it smaller")
    plans.load(new.plan)
