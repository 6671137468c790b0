"""Starts a session as a process of its own, which outlives the daemon; its answer is one JSON document in a file."""

from __future__ import annotations

import sys
from typing import NamedTuple

from reflectloop.artifacts import views
from reflectloop.autoloop.daemon_files import DaemonFiles, WorkSession
from reflectloop.autoloop.project_state import ProjectState
from reflectloop.autoloop.task_view import Standing, TaskView
from reflectloop.diagnosis.retrying import retry_after
from reflectloop.state import events, lock
from reflectloop.state.fold import TaskKind
from reflectloop.state.transitions import TaskState
from reflectloop.system import clock, process
from reflectloop.workspace.folders import Folders

_GRACE_S = 20.0
_ANSWER = "The agent did not answer then: a limit of its service, or an outage. Try again."
_CURRENT_ONLY = ("tr", "resume")  # they work on the current task


class SessionEnd(NamedTuple):
    """The end of a session: its error code, or nothing if it succeeded."""

    code: str
    reason: str = ""
    asked_s: float | None = None  # the wait that a service asked for
    task_id: str = ""
    next_step: str = ""


def start(project: ProjectState, own: DaemonFiles, view: TaskView) -> WorkSession:
    """Start the next session of a task; the task becomes the current one first, if its command needs that."""
    if view.task_id and view.words[0] in _CURRENT_ONLY:
        prepare(project.folders, view)
    elif view.words[0] == "tp":
        set_aside(project.folders)
    output = own.output_of(view.entry)
    output.parent.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "reflectloop", *view.words, "--json", "--project", project.name]
    pid = process.detach(argv, output)
    started = process.start_time(pid)
    return WorkSession(view.entry, view.position, pid, started, view.words, str(output), clock.stamp(clock.now()))


def end_of(own: DaemonFiles, session: WorkSession) -> SessionEnd:
    """Read how a session that has ended came to its end."""
    answer = own.read_answer(session.output)
    envelope = answer.get("envelope")
    if not isinstance(envelope, dict):
        return SessionEnd("NO_ANSWER", "it ended without an answer")
    data = answer.get("data")
    task_id = str(data.get("task") or "") if isinstance(data, dict) else ""
    if envelope.get("status") == "OK":
        return SessionEnd("", task_id=task_id)
    code, reason = str(envelope.get("error_code")), str(envelope.get("message"))
    return SessionEnd(code, reason, retry_after(reason, clock.now()), task_id, str(envelope.get("next") or ""))


def stop(session: WorkSession) -> None:
    """Interrupt a session: its half step is discarded and does not count as an attempt."""
    process.end_detached(session.pid, session.start, _GRACE_S)


# The current task --------------------------------------------------------------------------------------------------


def prepare(folders: Folders, view: TaskView) -> None:
    """Make a task the current one, and let a step whose agent did not answer begin again."""
    with lock.hold_lock(folders.own, "autoloop"):
        if folders.current_task() != view.task_id:
            folders.set_current_task(view.task_id)
        task = folders.load_task(view.task_id)
        if view.standing is Standing.UNANSWERED and task.last_run and task.last_run.kind is TaskKind.AGENTS:
            answered = events.Answered(run_id=task.last_run.id, step_id=view.step_id, text=_ANSWER)
            views.append_events(folders, view.task_id, [answered])


def set_aside(folders: Folders) -> None:
    """Let another plan be made while the current task waits for a person; the task itself stays as it is."""
    with lock.hold_lock(folders.own, "autoloop"):
        task = folders.load_current()
        if task.id and task.state not in (TaskState.DONE, TaskState.ABORTED) and not task.passed:
            (folders.own / "current").unlink(missing_ok=True)
