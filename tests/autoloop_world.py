"""The world of `autoloop` in tests: sessions and clocks that the tests play themselves, and journals they write."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reflectloop.autoloop.daemon_files import DaemonFiles, WorkSession
from reflectloop.autoloop.headless import SessionEnd
from reflectloop.autoloop.loop import Autoloop, LoopWorld, open_project
from reflectloop.autoloop.project_state import ProjectState
from reflectloop.autoloop.submissions import NewSubmission, QueueEntry, SubmissionQueue
from reflectloop.autoloop.task_view import Limits, TaskView
from reflectloop.state import events
from reflectloop.workspace.folders import Folders, open_project_dirs
from support import Repo

NO_LIMITS = Limits()
BEGIN = datetime(2026, 1, 31, 23, 0, tzinfo=UTC)


@dataclasses.dataclass
class World:
    """Sessions that end when the test says so, and clocks that it sets."""

    now: float = 0.0
    shift_s: float = 0.0  # of the wall clock
    alive: set[str] = dataclasses.field(default_factory=set)
    ends: dict[str, SessionEnd] = dataclasses.field(default_factory=dict)
    began: list[str] = dataclasses.field(default_factory=list)
    on_start: Callable[[ProjectState, TaskView], None] = lambda _project, _view: None

    def start(self, project: ProjectState, _own: DaemonFiles, view: TaskView) -> WorkSession:
        self.began.append(" ".join(view.words))
        self.alive.add(view.entry)
        self.on_start(project, view)
        return WorkSession(view.entry, view.position, 1, 1, view.words, "", "")

    @property
    def outside(self) -> LoopWorld:
        return LoopWorld(
            lambda: self.now,
            lambda: BEGIN + timedelta(seconds=self.now + self.shift_s),
            self.start,
            lambda session: session.entry in self.alive,
            lambda _own, session: self.ends.get(session.entry, SessionEnd("")),
            lambda session: self.alive.discard(session.entry),
        )

    def loop(self, *roots: Path, limits: Limits = NO_LIMITS) -> Autoloop:
        return Autoloop([open_project(root) for root in roots], limits, self.outside)

    def end(self, key: str, code: str = "", reason: str = "") -> None:
        self.ends[key] = SessionEnd(code, reason)
        self.alive.discard(key)


class Instant:
    """Waits no time at all: the clock of the world jumps to the end of each wait."""

    signalled = False

    def __init__(self, world: World, at_wait: Callable[[int], None] = lambda _count: None) -> None:
        self._world, self._at_wait, self.waits = world, at_wait, []  # type: ignore[var-annotated]

    def watch(self, _folders: Iterable[str]) -> bool:
        return True

    def wait(self, seconds: float, _pids: Iterable[int] = (), *, whole: bool = True) -> bool:  # noqa: ARG002
        self.waits.append(seconds)
        assert len(self.waits) < 1000, "it spins"
        self._world.now += seconds
        self._at_wait(len(self.waits))
        return False


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def folders(repo: Repo) -> Folders:
    opened = open_project_dirs(repo.path)
    opened.ensure_owned()
    return opened


@pytest.fixture
def queue(folders: Folders) -> SubmissionQueue:
    return SubmissionQueue(folders)


def plan_file(repo: Repo, name: str = "plan.yaml") -> Path:
    return repo.plan("plan: {title: Mend it, track: direct, steps: [{id: a, commands: ['true']}]}", name)


def submitted(queue: SubmissionQueue, repo: Repo, **more: Any) -> QueueEntry:
    return queue.submit(NewSubmission(plan=plan_file(repo), **more))


def write_task(
    folders: Folders, task_id: str, *told: events.Event, plan: str = "", mode: str = "git", title: str = "Mend it"
) -> None:
    """Write the journal of a task with one run, R, of one step."""
    book = folders.open_journal(task_id)
    if not book.entries:
        book.append(events.TaskOpened(task_id=task_id, plan_path=plan, title=title))
        made = {"made_by": "tp"} if mode == "fileops" else {}
        book.append(
            events.RunStarted(
                run_id="R", plan_hash="", base_tree="t", base_commit="c", isolation="full", steps=["a"], mode=mode,
                objective=dict(made),
            )
        )  # fmt: skip
    for event in told:
        book.append(event)
    book.close()


STEP = events.StepStarted(run_id="R", step_id="a", tree="t")
DONE = events.StepFinished(run_id="R", step_id="a", success=True, exit_code=0, tree="u", duration_ms=1)
JUDGED = events.GateDecided(run_id="R", subject="", gate="store", decision="PASS", level="L3", outcome="PASS")
ENDED = events.RunFinished(run_id="R", error_code=None, end_tree="u", duration_ms=1)
PASSED = (STEP, DONE, JUDGED, ENDED)


def failed(code: str) -> events.RunFinished:
    return events.RunFinished(run_id="R", error_code=code, end_tree="t", duration_ms=1)


def opens(folders: Folders, *told: events.Event, mode: str = "git") -> Callable[[ProjectState, TaskView], None]:
    """Return what a session does that opens the task T for its submission."""

    def act(project: ProjectState, view: TaskView) -> None:
        path = Path(view.words[1])
        key = str(path.relative_to(project.folders.root)) if view.words[0] == "run" else ""
        write_task(
            folders, f"T-20260131-{len(list((folders.own / 'tasks').glob('*'))):06x}", *told, plan=key, mode=mode
        )

    return act


def blocked(reason: str) -> events.StepBlocked:
    return events.StepBlocked(run_id="R", step_id="a", reason=reason, unblock="")
