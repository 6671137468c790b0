"""The loop: looks at all projects, settles sessions that ended, and starts what the decision names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import config
from reflectloop.autoloop import headless
from reflectloop.autoloop.daemon_files import DaemonFiles, DaemonMemory, WorkSession
from reflectloop.autoloop.decision import PATIENT, Clocks, NextAction, Notice, Situation, decide
from reflectloop.autoloop.headless import SessionEnd
from reflectloop.autoloop.project_state import PAUSED, ProjectState, spending
from reflectloop.autoloop.task_view import Acknowledgement, Limits, Spending, Standing, TaskView
from reflectloop.diagnosis.retrying import retry_after
from reflectloop.engine.tasks import open_tasks
from reflectloop.errors import AgentFailed, Interrupted, ReflectloopError
from reflectloop.state.fold import TaskKind
from reflectloop.system import clock, process

MOST_DEATHS = "the engine died"  # a part of the reason of a step that was given up for that
_HEARTBEAT_S = 30.0
_TERMINAL_S = 1.0  # between two looks at a terminal that works
_LONGEST_BACKOFF_S = 900.0
_LONGEST_NIGHT_S = 86_400.0  # a daemon that was killed longer ago is not continued
_NOTIFY_S = 10.0
_BACKOFF_S = {"LOCKED": 5.0, "INTERRUPTED": 5.0, "NO_SPACE": 300.0, "AGENT_FAILED": 60.0, "AGENT_UNAVAILABLE": 60.0}
_STARTS_IN_A_LOOK = 16


class LoopWorld(NamedTuple):
    """The world outside of the loop: clocks and sessions. Tests pass their own."""

    monotonic: Callable[[], float] = clock.monotonic
    wall: Callable[[], datetime] = clock.now
    start: Callable[[ProjectState, DaemonFiles, TaskView], WorkSession] = headless.start
    runs: Callable[[WorkSession], bool] = lambda session: session.runs
    end_of: Callable[[DaemonFiles, WorkSession], SessionEnd] = headless.end_of
    stop: Callable[[WorkSession], None] = headless.stop
    looks_at: Callable[[WorkSession], bool] = lambda _session: False  # nothing tells when such a session ends


class LoopProject(NamedTuple):
    """One project, and the daemon's files in it."""

    state: ProjectState
    files: DaemonFiles
    memory: DaemonMemory

    @property
    def name(self) -> str:
        return self.state.name


def open_project(root: Path, *, in_terminal: bool = False) -> LoopProject:
    state = ProjectState(root, in_terminal=in_terminal)
    own = DaemonFiles(state.folders)
    return LoopProject(state, own, own.read_memory())


class Autoloop:
    """All projects of one daemon. The first one is its home: the status and the budget are kept there."""

    def __init__(self, projects: Sequence[LoopProject], limits: Limits, outside: LoopWorld | None = None) -> None:
        self.projects = list(projects)
        self.limits = limits
        self.outside = outside or LoopWorld()
        self.finishing = False  # starts nothing more
        self._ready: dict[str, float] = {}
        self._started: dict[str, float] = {}
        self._served: dict[str, int] = {}
        self._faults: dict[str, str] = {}
        self._gone: set[str] = set()
        self._began = self.outside.monotonic()
        self._beat = float("-inf")
        self._wait_again()

    @property
    def home(self) -> LoopProject:
        return self.projects[0]

    @property
    def sessions(self) -> list[WorkSession]:
        return [session for project in self.projects for session in project.memory.sessions.values()]

    # One look --------------------------------------------------------------------------------------------------

    def look(self) -> NextAction:
        """Settle what ended, and start what is due. Return the decision after the last start."""
        for project in self.projects:
            self._settle_ended(project)
        for _ in range(_STARTS_IN_A_LOOK):
            situation = self._situation()
            action = decide(situation, Clocks(self.outside.monotonic(), self.outside.wall()))
            self._tell(action.notices)
            if action.start is None or self.finishing:
                break
            self._start(action.start, action.reason)
        self._write_status(situation, action)
        return action._replace(start=None) if self.finishing else action

    def _situation(self) -> Situation:
        views: list[TaskView] = []
        busy = set()
        for project in self.projects:
            mine = self._views(project)
            works = bool(project.memory.sessions)
            if works or (any(view.standing.wants_session for view in mine) and project.state.is_busy):
                busy.add(project.name)
            views += mine
        acknowledged = {key: ack for project in self.projects for key, ack in project.memory.acknowledged.items()}
        return Situation(
            views,
            acknowledged,
            self._ready,
            self._started,
            self._served,
            frozenset(busy),
            len(self.sessions),
            frozenset(session.entry for session in self.sessions),
            self.limits,
            self.spending(),
        )

    def _views(self, project: LoopProject) -> list[TaskView]:
        """Return the views of a project. One that cannot be read is reported, and the others go on."""
        try:
            views = project.state.views()
        except (ReflectloopError, OSError) as fault:
            self._report_fault(project, f"{type(fault).__name__}: {fault}")
            return []
        if project.state.is_gone:
            self._report_fault(project, f"{project.name} is gone")
        else:
            self._faults.pop(project.name, None)
        return [continued(project.memory, view) for view in views]

    def _report_fault(self, project: LoopProject, text: str) -> None:
        if self._faults.get(project.name) != text:
            self._faults[project.name] = text
            where = self.home if project.state.is_gone and not self.home.state.is_gone else project
            if not where.state.is_gone:
                where.files.log("fault", project=project.name, reason=text)

    # Sessions --------------------------------------------------------------------------------------------------

    def _start(self, view: TaskView, reason: str) -> None:
        project = next(project for project in self.projects if project.name == view.project)
        now = self.outside.monotonic()
        self._started[view.entry] = now
        try:
            session = self.outside.start(project.state, project.files, view)
        except (ReflectloopError, OSError) as fault:
            code = fault.code if isinstance(fault, ReflectloopError) else "NO_ANSWER"
            message, follow = (
                (fault.message, fault.next_step) if isinstance(fault, ReflectloopError) else (str(fault), "")
            )
            end = SessionEnd(code, message, next_step=follow)
            last = project.memory.acknowledged.get(view.entry, Acknowledgement())
            self._acknowledge(project, view.entry, view.position, end, view)
            if (last.code, last.reason) == end[:2]:  # a terminal that somebody uses is looked at again and again
                return
            project.files.log("start failed", entry=view.entry, title=view.title, code=code, reason=end.reason)
            return
        self._served[project.name] = self._served.get(project.name, 0) + 1
        project.memory.sessions[view.entry] = session
        project.files.write_memory(project.memory)
        project.files.log(
            "start",
            entry=view.entry,
            title=view.title,
            task=view.task_id,
            words=list(view.words),
            pid=session.pid,
            reason=reason,
        )

    def _settle_ended(self, project: LoopProject) -> None:
        for session in list(project.memory.sessions.values()):
            if project.state.is_gone or not self.outside.runs(session):
                self._settle(project, session)

    def _settle(self, project: LoopProject, session: WorkSession) -> None:
        """Record how a session ended, and whether its task advanced."""
        end = self.outside.end_of(project.files, session)
        del project.memory.sessions[session.entry]
        if project.state.is_gone:
            return
        if session.words[0] == "tp":
            self._link(project, session, end)
        view = next((view for view in self._views(project) if view.entry == session.entry), None)
        if view is not None:
            self._acknowledge(project, session.entry, session.position, end, view)
        known = {"title": view.title, "standing": view.standing} if view else {}
        project.files.log("end", entry=session.entry, code=end.code, reason=end.reason, **known)
        with contextlib.suppress(ReflectloopError):
            project.files.write_memory(project.memory)

    def _acknowledge(self, project: LoopProject, key: str, began_at: str, end: SessionEnd, view: TaskView) -> None:
        last = project.memory.acknowledged.get(key, Acknowledgement())
        died = view.standing is Standing.ASKS and MOST_DEATHS in view.reason and last.code == AgentFailed.code
        code = AgentFailed.code if view.standing is Standing.UNANSWERED or died else end.code
        paused = code == Interrupted.code and end.reason.startswith(open_tasks.PAUSED_AS_ASKED)
        code = "PAUSED" if paused else code  # by a person: nothing is started until they do something
        now = clock.stamp(self.outside.wall())
        if view.position != began_at and code not in PATIENT and not paused:  # a failed call grows the journal, too
            ack = Acknowledgement(began_at, 0, 0.0, now, code, end.reason, last.notified, view.position)
            self._ready.pop(key, None)
        else:
            count = 1 + (last.sessions if (last.code in PATIENT) == (code in PATIENT) else 0)
            asked_s = end.asked_s if end.asked_s is not None else retry_after(view.reason, self.outside.wall())
            wait = backoff(code, count, asked_s)
            rest = (last.notified, view.position, end.next_step)
            ack = Acknowledgement(view.position, count, wait, now, code, end.reason, *rest)
            self._ready[key] = self.outside.monotonic() + wait
        project.memory.acknowledged[key] = ack
        with contextlib.suppress(ReflectloopError):  # a full disk: the journals still say what is left to do
            project.files.write_memory(project.memory)

    def _link(self, project: LoopProject, session: WorkSession, end: SessionEnd) -> None:
        """Record the task that planning opened; after a crash it is the current one, if no submission has it."""
        linked = {entry.task_id for entry in project.state.queue.entries().values()}
        task_id = end.task_id
        if not task_id:
            task = project.state.folders.peek_current()
            run = task.last_run
            is_new = run is not None and run.kind is TaskKind.AGENTS and run.started >= session.at
            task_id = task.id if is_new else ""
        if task_id and task_id not in linked:
            project.state.queue.open_task(session.entry, task_id)

    def stop_sessions(self) -> None:
        """Interrupt every session; the next daemon continues where they were."""
        for project in self.projects:
            for session in list(project.memory.sessions.values()):
                project.files.log("stop", entry=session.entry, pid=session.pid)
                self.outside.stop(session)
                self._settle(project, session)

    def _wait_again(self) -> None:
        """Continue the waits that a daemon before this one began, whatever the wall clock says now."""
        for project in self.projects:
            for key, ack in project.memory.acknowledged.items():
                if ack.waits_s > 0:
                    passed = (self.outside.wall() - _time(ack.ended, self.outside.wall())).total_seconds()
                    left = min(max(ack.waits_s - passed, 0.0), ack.waits_s)
                    self._ready[key] = self.outside.monotonic() + left

    # Night and status ----------------------------------------------------------------------------------------------

    def begin_night(self, arguments: Mapping[str, Any]) -> None:
        """Begin a night, or continue the one that a killed daemon with the same arguments left unfinished."""
        night = self.home.memory.night
        passed = (self.outside.wall() - _time(str(night.get("began")), self.outside.wall())).total_seconds()
        is_same = night.get("arguments") == dict(arguments) and not night.get("ended")
        if is_same and passed < _LONGEST_NIGHT_S:
            until = night.get("until")
            self._began -= max(0.0, passed)
            self.limits = self.limits._replace(until=_time(until, self.outside.wall()) if until else None)
            self.home.files.log("continue", began=night.get("began"))
            return
        for project in self.projects:
            self._views(project)
            self._give_another_chance(project)
        began = {
            "arguments": dict(arguments),
            "began": clock.stamp(self.outside.wall()),
            "until": clock.stamp(self.limits.until) if self.limits.until else None,
            "costs": spending(iter([project.state for project in self.projects])),
        }
        self.home.memory.night.clear()
        self.home.memory.night.update(began)
        self.home.files.write_memory(self.home.memory)
        self.home.files.log("begin", until=began["until"], projects=[project.name for project in self.projects])

    def _give_another_chance(self, project: LoopProject) -> None:
        """Forget sessions that ended where they began: a person who starts again may have removed the reason."""
        for key, ack in list(project.memory.acknowledged.items()):
            if ack.sessions and ack.code not in PATIENT:
                del project.memory.acknowledged[key]
                self._ready.pop(key, None)

    def end_night(self, reason: str) -> None:
        self.home.memory.night["ended"] = clock.stamp(self.outside.wall())
        if not self.home.state.is_gone:
            self.home.files.write_memory(self.home.memory)
            self.home.files.log("over", reason=reason)

    def spending(self) -> Spending:
        before = self.home.memory.night.get("costs", {})
        now = spending(iter([project.state for project in self.projects]))
        usd = sum(cost - before.get(task, (0.0, 0))[0] for task, (cost, _) in now.items())
        unpriced = sum(count - before.get(task, (0.0, 0))[1] for task, (_, count) in now.items())
        return Spending(round(usd, 6), unpriced, (self.outside.monotonic() - self._began) / 3600)

    def _tell(self, notices: Sequence[Notice]) -> None:
        """Log each message once, and give it to the program that the user named."""
        for notice in notices:
            project = next(project for project in self.projects if project.name == notice.view.project)
            key = notice.view.entry
            last = project.memory.acknowledged.get(key, Acknowledgement())
            project.memory.acknowledged[key] = last._replace(notified=notice.mark)
            project.files.write_memory(project.memory)
            project.files.log("notify", entry=key, standing=notice.view.standing, text=notice.text)
            notify(project, notice.text)

    def _write_status(self, situation: Situation, action: NextAction) -> None:
        counts: dict[str, int] = {}
        for view in situation.views:
            counts[view.standing] = counts.get(view.standing, 0) + 1
        status = {
            "projects": [project.name for project in self.projects],
            "sessions": [session._asdict() for session in self.sessions],
            "tasks": counts,
            "spent_usd": situation.spending.usd,
            "over": action.over,
            "idle": action.idle,
            "faults": self._faults,
        }
        now = self.outside.monotonic()
        if now - self._beat < _HEARTBEAT_S and status == self._last_status:
            return
        self._beat, self._last_status = now, status
        if not self.home.state.is_gone:
            with contextlib.suppress(ReflectloopError):
                self.home.files.write_status({**status, "at": clock.stamp(self.outside.wall())})

    _last_status: Mapping[str, Any] | None = None

    def wait_limit(self, action: NextAction) -> float:
        """Return how long the next wait may last."""
        in_terminal = any(self.outside.looks_at(session) for session in self.sessions)
        longest = _TERMINAL_S if in_terminal else _HEARTBEAT_S
        return longest if action.wait_s is None else min(action.wait_s, longest)

    def watched(self) -> Iterator[str]:
        """Yield the folders in which every change is a reason to look: each command signs the lock in the first."""
        for project in self.projects:
            yield str(project.state.folders.own)
            yield str(project.files.asks)


def continued(memory: DaemonMemory, view: TaskView) -> TaskView:
    """Return a task that only seems to ask a person, as it is.

    It is paused because its session was interrupted, not because a person paused it; or its step was given up because
    sessions ended again and again, and they ended because an agent did not answer.
    """
    last = memory.acknowledged.get(view.entry, Acknowledgement())
    if view.standing is not Standing.ASKS or last.left_at != view.position:
        return view
    if last.code == Interrupted.code and view.reason == PAUSED:
        return view._replace(standing=Standing.UNFINISHED, reason="", next_command="")
    if last.code == AgentFailed.code and MOST_DEATHS in view.reason:
        return view._replace(standing=Standing.UNANSWERED, reason=last.reason, next_command="")
    return view


def explained(memory: DaemonMemory, view: TaskView) -> TaskView:
    """Return a task with the end of its last session, if that left it where it was and its journal has no reason."""
    last = memory.acknowledged.get(view.entry, Acknowledgement())
    if view.reason or not view.standing.wants_session or not last.sessions or last.position != view.position:
        return view
    reason = ": ".join(filter(None, ("its last session ended with " + (last.code or "no answer"), last.reason)))
    return view._replace(reason=reason, next_command=last.next_step)


def with_ended_sessions(own: DaemonFiles, memory: DaemonMemory) -> DaemonMemory:
    """Return the memory with the failures of sessions that no daemon has looked at since: `once` awaits no end."""
    known = dict(memory.acknowledged)
    for entry, session in memory.sessions.items():
        end = headless.end_of(own, session) if session.output and not session.runs else SessionEnd("")
        if end.code:
            left = Acknowledgement(session.position, 1, code=end.code, reason=end.reason, left_at=session.position)
            known[entry] = left._replace(next_step=end.next_step)
    return memory._replace(acknowledged=known)


def backoff(code: str, count: int, asked_s: float | None) -> float:
    """Return the wait after this many sessions that ended so: it doubles, and is never below what was asked."""
    base = _BACKOFF_S.get(code, 20.0)
    grown = base if code in ("LOCKED", "INTERRUPTED") else base * 2.0 ** min(count - 1, 10)
    return max(min(grown, _LONGEST_BACKOFF_S), asked_s or 0.0)


def notify(project: LoopProject, text: str) -> None:
    """Give a message to the program that the settings name; its failure changes nothing."""
    with contextlib.suppress(ReflectloopError, OSError):
        program = config.load(project.state.folders.root).autoloop.notify
        if program:
            process.capture([*program, text], timeout_s=_NOTIFY_S)


def _time(stamp: object, other: datetime) -> datetime:
    try:
        return datetime.fromisoformat(str(stamp))
    except ValueError:
        return other - timedelta(0)
