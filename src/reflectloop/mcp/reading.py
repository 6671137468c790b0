"""Reads the state of a project for tools and resources, in this process, one call at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reflectloop import config, secrets
from reflectloop.commands import route, task_status
from reflectloop.errors import NothingToDo, ReflectloopError
from reflectloop.lessons import lesson_scopes
from reflectloop.lessons.lesson import KINDS
from reflectloop.lessons.lesson_recall import Moment
from reflectloop.lessons.lesson_store import LIVING
from reflectloop.mcp.replies import ContextReply, NextReply, ProjectReply, RecallReply, WorkReply, of_document
from reflectloop.mcp.work import Work, WorkFolder
from reflectloop.system import files
from reflectloop.workspace.folders import Folders, open_project_dirs
from reflectloop.workspace.generated_files import TODO

_MOST_RUNS = 20
_MOST_WORKS = 10
_LARGEST = 1 << 20  # characters of a resource
_POLL_AFTER_S = 15
_LONG = ("verify", "gate", "run_plan")
_using = threading.RLock()  # settings and the list of secrets are those of the process


class ProjectReader:
    """The project that a server serves."""

    def __init__(self, start: Path) -> None:
        self.start = start
        self.root = open_project_dirs(start).root

    @contextmanager
    def open(self) -> Iterator[Folders]:
        """Open the project with its own settings, and keep every other call out meanwhile."""
        with _using:
            folders = open_project_dirs(self.root)
            secrets.use_detector(secrets.detector_for(config.load(folders.root).secrets, folders.root))
            yield folders

    def works(self) -> WorkFolder:
        return WorkFolder(Folders(self.root))

    # Tools -----------------------------------------------------------------------------------------------------------

    def project(self) -> ProjectReply:
        """Return the current task with its runs, and the works of clients."""
        with self.open():
            state = task_status.status(self.root, everything=False)
            works = self.works().recent()
        shown = [work for work in works if work.state == "running"] or works[-_MOST_WORKS:]
        return ProjectReply(
            project=str(self.root),
            task=state["task"],
            runs=state["runs"][-_MOST_RUNS:],
            verifications=state["verifications"],
            latch=state["stop"],
            warnings=state["warnings"],
            work=[in_short(work) for work in shown],
            next=state["next"],
        )

    def next(self) -> NextReply:
        """Return the next command: the way out of a failure, or what the status says."""
        with self.open():
            state = task_status.status(self.root, everything=False)
            try:
                chosen = route.route(self.root)
            except ReflectloopError as nothing:
                return NextReply(next=state["next"], why=nothing.message)
        return NextReply(next=chosen.command, why=chosen.why, route=chosen.route, then=chosen.then or None)

    def context(self) -> ContextReply:
        """Return the brief: rules, goal, contract, plan, code, lessons, what was tried, and the next command."""
        return ContextReply(text=self.brief_text(None))

    def recall(self, query: str, moment: Moment | None, signature: str, limit: int) -> RecallReply:
        """Return the lessons that match some words, or the advice for a moment of work."""
        with self.open():
            scopes = lesson_scopes.open_scopes(self.root)
            if moment:
                advice = lesson_scopes.recall(scopes, moment, query, signature=signature)
                return RecallReply(text=advice.text, lessons=[{"id": lesson.id} for lesson in advice.lessons])
            matches = lesson_scopes.search(scopes, query, KINDS, LIVING, limit)
        return RecallReply(lessons=[lesson.record() for lesson in matches])

    # Resources -------------------------------------------------------------------------------------------------------

    def state_text(self) -> str:
        with self.open():
            return _text(task_status.status(self.root, everything=True))

    def brief_text(self, task: str | None) -> str:
        from reflectloop.engine import brief  # noqa: PLC0415 - loads the engine

        with self.open() as folders:
            return brief.text(folders, task)

    def todo_text(self) -> str:
        with self.open() as folders:
            current = folders.current_task()
            path = folders.journal(current).parent / TODO if current else None
            if path is None or not path.exists():
                raise NothingToDo("there is no task yet", next_step="reflectloop run PLAN")
            return _file(path)

    def blocker_text(self, run: str | None) -> str:
        with self.open() as folders:
            folder = folders.find_run(run)
            if not folder.blocker.exists():
                raise NothingToDo(f"{folder.run_id} left no blocker", next_step="reflectloop status")
            return _file(folder.blocker)

    def evidence_text(self, run: str | None) -> str:
        with self.open() as folders:
            folder = folders.find_verification(run) or folders.find_run(run)
            receipt = folder.path / "receipt.json"
            if not receipt.exists():
                raise NothingToDo(f"{folder.run_id} has no receipt", next_step="reflectloop verify")
            return _file(receipt)

    def lessons_text(self) -> str:
        with self.open():
            listing = lesson_scopes.list_lessons(lesson_scopes.open_scopes(self.root), KINDS, LIVING)
            return _text([lesson.record() for lesson in listing.lessons])

    def lesson_text(self, name: str) -> str:
        with self.open():
            return _text(lesson_scopes.find_lesson(lesson_scopes.open_scopes(self.root), name).record())


def in_short(work: Work) -> WorkReply:
    """Return the state of a work without its data."""
    reply = in_full(work)
    return reply.model_copy(update={"data": None, "data_left_out": reply.data is not None or reply.data_left_out})


def reply_of(work: Work, *, details: bool) -> WorkReply:
    """Return the state of a work; the data of a verdict or a run only if asked for, since it is long."""
    return in_full(work) if details or work.tool not in _LONG else in_short(work)


def in_full(work: Work) -> WorkReply:
    reply = WorkReply(handle=work.handle, tool=work.tool, state=work.state, seconds=round(work.seconds, 1))
    if work.state == "running":
        return reply.model_copy(update={"poll_after_s": _POLL_AFTER_S, "next": f"call status with {work.handle}"})
    if work.document is None:
        return reply.model_copy(update={"ok": False, "next": "reflectloop status"})
    return of_document(reply, work.document)


def _text(value: Any) -> str:  # noqa: ANN401
    return secrets.current_detector().redact(files.json_text(value))[:_LARGEST]


def _file(path: Path) -> str:
    with path.open("rb") as file:
        text = file.read(_LARGEST).decode("utf-8", "replace")
    return secrets.current_detector().redact(text)
