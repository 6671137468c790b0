"""The daemon: holds the locks of its projects, waits for changes, and looks; it ends on request or with the night."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from reflectloop.autoloop import daemon_files
from reflectloop.autoloop.daemon_files import WorkSession
from reflectloop.autoloop.decision import NextAction
from reflectloop.autoloop.loop import Autoloop, LoopWorld, open_project
from reflectloop.autoloop.task_view import Limits
from reflectloop.errors import InvalidInput, ReflectloopError
from reflectloop.system.inotify import FolderWait

_AFTER_FAULT_S = 30.0


class Waiting(Protocol):
    """The way to wait; tests pass one that does not."""

    signalled: bool

    def watch(self, folders: Iterable[str]) -> bool: ...
    def wait(self, seconds: float, pids: Iterable[int] = (), *, whole: bool = True) -> bool: ...


class DaemonOptions(NamedTuple):
    """The way a daemon works, besides its limits."""

    poll_s: float = 0.5
    drain: bool = False  # end when nothing is left to do
    in_terminal: bool = False  # the current task is worked on by the program in a terminal
    listener: Callable[[str, Mapping[str, Any]], None] = lambda _project, _record: None  # hears every line of the log


def run(
    roots: Sequence[Path],
    limits: Limits,
    options: DaemonOptions,
    arguments: Mapping[str, Any],
    outside: LoopWorld | None = None,
    waiting: Waiting | None = None,
    looked: Callable[[Autoloop, NextAction], None] = lambda _loop, _action: None,
) -> str:
    """Work until somebody stops it or the night is over; return why it ended."""
    projects = [open_project(root, in_terminal=options.in_terminal) for root in dict.fromkeys(roots)]
    names = [project.name for project in projects]
    if len(set(names)) < len(names):
        raise InvalidInput("two of these folders belong to one project", next_step="name each project once")
    with contextlib.ExitStack() as stack:
        for project in projects:
            project.files.listener = functools.partial(options.listener, project.name)
            stack.enter_context(project.files.held())
            for request in (daemon_files.ONCE, daemon_files.STOP, daemon_files.FINISH):
                project.files.is_asked(request)  # of an earlier time
        waits = waiting or stack.enter_context(contextlib.closing(_real_wait(options.poll_s)))
        loop = Autoloop([project._replace(memory=project.files.read_memory()) for project in projects], limits, outside)
        loop.begin_night(arguments)
        reason = _work(loop, options, waits, looked)
        with contextlib.suppress(ReflectloopError):
            if not loop.home.files.is_lost:
                loop.end_night(reason)
        return reason


def _real_wait(poll_s: float) -> FolderWait:
    waits = FolderWait(poll_s)
    waits.on_signals()
    return waits


def _work(
    loop: Autoloop, options: DaemonOptions, waits: Waiting, looked: Callable[[Autoloop, NextAction], None]
) -> str:
    while True:
        lost = next((item.name for item in loop.projects if item.files.is_lost and not item.state.is_gone), "")
        if lost:
            for session in loop.sessions:
                loop.outside.stop(session)
            return f"somebody removed its folder in {lost}"
        whole = waits.watch(loop.watched())  # before the look, so that no change between them is missed
        action = _looked(loop)
        looked(loop, action)
        reason = _reason_to_end(loop, options, waits, action)
        if reason:
            loop.stop_sessions()
            return reason
        waits.wait(loop.wait_limit(action), [session.pid for session in loop.sessions], whole=whole)
        for project in loop.projects:
            project.files.is_asked(daemon_files.ONCE)  # the next look answers it


def _looked(loop: Autoloop) -> NextAction:
    """Look; a fault of the disk or of a project is logged, and the next look tries again."""
    try:
        return loop.look()
    except (ReflectloopError, OSError) as fault:
        loop.home.files.log("fault", reason=f"{type(fault).__name__}: {fault}")
        return NextAction(wait_s=_AFTER_FAULT_S)


def _reason_to_end(loop: Autoloop, options: DaemonOptions, waits: Waiting, action: NextAction) -> str:
    if waits.signalled or any(project.files.is_asked(daemon_files.STOP) for project in loop.projects):
        return "stopped"
    if any(project.files.is_asked(daemon_files.FINISH) for project in loop.projects):
        loop.finishing = True
    if all(project.state.is_gone for project in loop.projects):
        return "every project is gone"
    if action.over:
        return action.over
    if loop.finishing and not loop.sessions:
        return "stopped after the last session"
    return "nothing is left to do" if options.drain and action.idle else ""


def once(roots: Sequence[Path], limits: Limits, outside: LoopWorld | None = None) -> list[WorkSession]:
    """Look once and start what is due, without waiting for it; return the sessions that began."""
    projects = [open_project(root) for root in dict.fromkeys(roots)]
    with contextlib.ExitStack() as stack:
        for project in projects:
            stack.enter_context(project.files.held())
        loop = Autoloop([project._replace(memory=project.files.read_memory()) for project in projects], limits, outside)
        before = {session.pid for session in loop.sessions}
        loop.look()
        return [session for session in loop.sessions if session.pid not in before]
