"""`autoloop`: the queue, the loop and the daemon, with sessions and clocks that the tests play themselves."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reflectloop.autoloop import daemon, headless, night_report, night_times, project_lists, report_page
from reflectloop.autoloop.daemon_files import FINISH, STOP, DaemonFiles, DaemonMemory, WorkSession
from reflectloop.autoloop.headless import SessionEnd
from reflectloop.autoloop.loop import Autoloop, LoopWorld, backoff, open_project
from reflectloop.autoloop.project_state import ProjectState
from reflectloop.autoloop.submissions import NewSubmission, QueueEntry, SubmissionQueue
from reflectloop.autoloop.task_view import Limits, Standing, TaskView
from reflectloop.cli import autoloop as cli_autoloop
from reflectloop.cli.render import Answer
from reflectloop.commands import task_control
from reflectloop.engine.tasks import open_tasks
from reflectloop.errors import InvalidInput, Locked, NoSpace, NothingToDo
from reflectloop.hooks import automation_files
from reflectloop.state import events, latch
from reflectloop.system import clock
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


def write_task(folders: Folders, task_id: str, *told: events.Event, plan: str = "", mode: str = "git") -> None:
    """Write the journal of a task with one run, R, of one step."""
    book = folders.open_journal(task_id)
    if not book.entries:
        book.append(events.TaskOpened(task_id=task_id, plan_path=plan, title="Mend it"))
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


# The queue -----------------------------------------------------------------------------------------------------------


def test_a_submission_keeps_its_own_copy_of_the_plan(queue: SubmissionQueue, repo: Repo) -> None:
    entry = submitted(queue, repo, priority=3)
    (repo.path.parent / "plan.yaml").write_text("broken: [")
    again = SubmissionQueue(queue.folders).entries()
    assert list(again.values()) == [entry]
    assert (entry.title, entry.priority, entry.number) == ("Mend it", 3, 1)
    assert "Mend it" in (queue.plans / entry.plan).read_text()


@pytest.mark.parametrize(
    "new",
    [
        NewSubmission(),
        NewSubmission(goal="  "),
        NewSubmission(goal="g", plan=Path("plan.yaml")),
        NewSubmission(plan=Path("/nowhere/plan.yaml")),
        NewSubmission(goal="g", after=("T-20260131-000000",)),
        NewSubmission(goal="g", after=("Q-20260131-000000",)),
    ],
)
def test_a_submission_that_cannot_be_done_is_refused(queue: SubmissionQueue, new: NewSubmission) -> None:
    with pytest.raises(InvalidInput):
        queue.submit(new)
    assert queue.entries() == {}


def test_a_damaged_or_torn_line_of_the_queue_changes_nothing_else(queue: SubmissionQueue) -> None:
    first = queue.submit(NewSubmission(goal="one"))
    with queue.path.open("ab") as file:
        file.write(b'garbage\n{"kind": "submitted"}\n{"kind": "opened", "id": "Q-0", "task_id": 3}\n["torn')
    second = queue.submit(NewSubmission(goal="two"))
    assert [entry.id for entry in SubmissionQueue(queue.folders).entries().values()] == [first.id, second.id]
    assert [entry.id for entry in queue.entries().values()] == [first.id, second.id]


def test_a_queue_that_came_with_the_project_is_not_worked_on(queue: SubmissionQueue, repo: Repo) -> None:
    queue.submit(NewSubmission(goal="one"))
    (queue.folders.own / "owner.json").write_text("[1, 2, 3]")
    assert SubmissionQueue(open_project_dirs(repo.path)).entries() == {}


# The standing of tasks -----------------------------------------------------------------------------------------------


def blocked(reason: str) -> events.StepBlocked:
    return events.StepBlocked(run_id="R", step_id="a", reason=reason, unblock="")


@pytest.mark.parametrize(
    ("mode", "told", "standing", "words"),
    [
        ("git", (), Standing.UNFINISHED, ("resume",)),
        ("git", (STEP,), Standing.UNFINISHED, ("resume",)),
        ("git", PASSED, Standing.PROVEN, ()),
        ("git", (STEP, DONE, ENDED), Standing.ASKS, ()),
        ("git", (*PASSED, events.Applied(run_id="R", result_tree="u")), Standing.APPLIED, ()),
        ("git", (STEP, failed("STEP_FAILED")), Standing.FAILED, ()),
        ("git", (STEP, failed("NEEDS_INPUT")), Standing.ASKS, ()),
        ("git", (STEP, failed("AGENT_FAILED")), Standing.UNANSWERED, ("run", "plan.yaml")),
        ("git", (events.Aborted(reason="no"),), Standing.ABORTED, ()),
        ("git", (events.RunPaused(run_id="R", reason="no"),), Standing.ASKS, ("resume",)),
        ("fileops", (), Standing.UNFINISHED, ("tr", "--all")),
        ("fileops", (STEP, blocked("which table?")), Standing.ASKS, ("tr", "--all")),
        ("fileops", (STEP, blocked("claude did not answer: HTTP 429")), Standing.UNANSWERED, ("tr", "--all")),
    ],
)
def test_the_journal_says_what_a_task_needs(
    folders: Folders, mode: str, told: tuple[events.Event, ...], standing: Standing, words: tuple[str, ...]
) -> None:
    write_task(folders, "T-20260131-abcdef", *told, mode=mode, plan="plan.yaml")
    folders.set_current_task("T-20260131-abcdef")
    (view,) = ProjectState(folders.root).views()
    assert (view.standing, tuple(Path(word).name for word in view.words)) == (standing, words)


def test_a_damaged_journal_is_told_and_the_latch_stops_only_what_is_not_over(
    folders: Folders, queue: SubmissionQueue
) -> None:
    write_task(folders, "T-20260131-abcdef", *PASSED)
    folders.set_current_task("T-20260131-abcdef")
    queue.submit(NewSubmission(goal="another"))
    stop = latch.make(
        BEGIN, reason="a key", error_code="SECRET_LEAK", run_id="R", step_id=None, plan_hash="", base_tree=""
    )
    latch.set_stop(folders.own, stop)
    standings = [view.standing for view in ProjectState(folders.root).views()]
    assert standings == [Standing.STOPPED, Standing.PROVEN]
    latch.clear_stop(folders.own)
    path = folders.journal("T-20260131-abcdef")
    path.write_bytes(path.read_bytes().replace(b"Mend it", b"Mend up"))
    assert [view.standing for view in ProjectState(folders.root).views()] == [Standing.QUEUED, Standing.FAILED]


# The loop ------------------------------------------------------------------------------------------------------------


def test_a_plan_is_run_and_its_task_is_found_by_its_plan(
    world: World, folders: Folders, queue: SubmissionQueue, repo: Repo
) -> None:
    entry = submitted(queue, repo)
    world.on_start = opens(folders, *PASSED)
    loop = world.loop(repo.path)
    loop.look()
    assert world.began == [f"run {queue.plans / entry.plan}"]
    world.end(entry.id)
    assert loop.look().idle
    assert queue.entries()[entry.id].task_id == "T-20260131-000000"
    assert [view.standing for view in loop.projects[0].state.views()] == [Standing.PROVEN]
    assert loop.look().notices == ()  # it was told in the look before


def test_a_daemon_that_was_killed_leaves_nothing_that_the_next_does_not_see(
    world: World, folders: Folders, queue: SubmissionQueue, repo: Repo
) -> None:
    entry = submitted(queue, repo)
    world.on_start = opens(folders, STEP)
    world.loop(repo.path).look()
    second = world.loop(repo.path)  # the first one died; its session did not
    assert not second.look().idle
    assert len(world.began) == 1
    world.end(entry.id, "NO_ANSWER")  # a reboot ended that, too
    world.on_start = lambda _project, _view: None
    world.loop(repo.path).look()
    assert world.began[1:] == ["resume"]


def test_a_rate_limit_of_an_hour_is_waited_for_also_over_a_restart(
    world: World, folders: Folders, queue: SubmissionQueue, repo: Repo
) -> None:
    entry = submitted(queue, repo)
    world.on_start = opens(folders, STEP, failed("AGENT_FAILED"))
    loop = world.loop(repo.path)
    loop.look()
    world.end(entry.id, "AGENT_FAILED", "rate limit; retry after 3600 s")
    world.ends[entry.id] = SessionEnd("AGENT_FAILED", "rate limit", 3600.0)
    assert loop.look().wait_s == 3600.0
    world.now, world.shift_s = 600.0, -86_400.0  # the wall clock was set back by a day
    again = world.loop(repo.path)
    assert again.look().wait_s == 3600.0  # never longer than was asked
    world.shift_s = 0.0
    assert world.loop(repo.path).look().wait_s == 3000.0
    world.now = 3600.0
    world.on_start = lambda _project, _view: None
    world.loop(repo.path).look()
    assert len(world.began) == 2


def test_a_crash_in_every_session_is_told_after_the_third(world: World, queue: SubmissionQueue, repo: Repo) -> None:
    entry = submitted(queue, repo)
    loop = world.loop(repo.path)
    for number in range(1, 4):
        loop.look()
        assert len(world.began) == number
        world.end(entry.id, "NO_ANSWER", "it ended without an answer")
        assert loop.look().wait_s == (20.0 * 2 ** (number - 1) if number < 3 else None)
        world.now += 10_000
    for _ in range(3):
        assert loop.look().idle
    assert len(world.began) == 3
    log = loop.home.files.log_path.read_text().splitlines()
    assert [json.loads(line)["action"] for line in log].count("notify") == 1


@pytest.mark.parametrize(
    ("reason", "began"),
    [("stopped by the user; every process of the run is dead", ["resume"]), (open_tasks.PAUSED_AS_ASKED, [])],
)
def test_an_interrupted_session_is_continued_and_one_that_a_person_paused_is_not(
    world: World, folders: Folders, queue: SubmissionQueue, repo: Repo, reason: str, began: list[str]
) -> None:
    entry = submitted(queue, repo)
    world.on_start = opens(folders, events.RunPaused(run_id="R", reason=reason))
    loop = world.loop(repo.path)
    loop.look()
    world.ends[entry.id] = SessionEnd("INTERRUPTED", reason)
    loop.stop_sessions()
    world.on_start = lambda _project, _view: None
    world.now += 5.0
    world.loop(repo.path).look()
    assert world.began[1:] == began


def test_an_outage_of_the_planner_is_waited_for_although_the_journal_grows(
    world: World, folders: Folders, repo: Repo
) -> None:
    write_task(folders, "T-20260131-abcdef", mode="fileops")
    folders.set_current_task("T-20260131-abcdef")
    asked = events.AgentAsked(run_id="R", step_id="a", role="planner", agent="x", status="error")
    world.on_start = lambda _project, _view: write_task(folders, "T-20260131-abcdef", asked)
    loop = world.loop(repo.path)
    waits = []
    for _ in range(4):
        loop.look()
        world.end("T-20260131-abcdef", "AGENT_FAILED", "HTTP 529")
        waits.append(loop.look().wait_s)
        world.now += 10_000
    assert waits == [60.0, 120.0, 240.0, 480.0]
    given_up = (STEP, blocked("the engine died 5 times in a row while it ran"))
    world.on_start = lambda _project, _view: write_task(folders, "T-20260131-abcdef", *given_up)
    loop.look()
    world.end("T-20260131-abcdef", "NEEDS_INPUT", "step a is blocked")
    assert loop.look().notices == ()  # it is still the agent that does not answer
    world.now += 10_000
    world.on_start = lambda _project, _view: None
    loop.look()
    assert len(world.began) == 6


def test_waiting_for_a_lock_does_not_count_as_a_session_without_an_advance(
    world: World, queue: SubmissionQueue, repo: Repo
) -> None:
    entry = submitted(queue, repo)
    loop = world.loop(repo.path)
    for code in ["LOCKED"] * 5 + ["NO_ANSWER"]:
        loop.look()
        world.end(entry.id, code)
        loop.look()
        world.now += 10_000
    loop.look()
    assert len(world.began) == 7


def test_planning_links_its_task_also_if_the_answer_is_lost(
    world: World, folders: Folders, queue: SubmissionQueue, repo: Repo
) -> None:
    entry = queue.submit(NewSubmission(goal="mend it"))

    def plan(_project: ProjectState, view: TaskView) -> None:
        if view.words[0] == "tp":
            write_task(folders, "T-20260131-abcdef", mode="fileops")
            folders.set_current_task("T-20260131-abcdef")

    world.on_start = plan
    loop = world.loop(repo.path)
    loop.look()
    world.end(entry.id, "NO_ANSWER")
    world.now += 100
    loop.look()
    assert world.began == ["tp mend it --yes", "tr --all"]
    assert queue.entries()[entry.id].task_id == "T-20260131-abcdef"


def test_the_budget_is_over_all_tasks_since_the_night_began(
    world: World, folders: Folders, queue: SubmissionQueue, repo: Repo
) -> None:
    asked = events.AgentAsked(run_id="R", step_id="a", role="executor", agent="x", status="ok", cost_usd=1.5)
    write_task(folders, "T-20260131-abcdef", asked, *PASSED)
    folders.set_current_task("T-20260131-abcdef")
    loop = world.loop(repo.path, limits=Limits(cost_usd=2.0))
    loop.begin_night({})
    assert loop.spending().usd == 0.0
    entry = submitted(queue, repo)
    world.on_start = opens(folders, asked, asked.replaced(cost_usd=0.75), *PASSED)
    loop.look()
    world.end(entry.id)
    assert loop.look().over == "2.2500 of 2 USD are spent"
    again = world.loop(repo.path, limits=Limits(cost_usd=2.0))
    again.begin_night({})  # killed, and started once more: the same night
    assert again.look().over == "2.2500 of 2 USD are spent"
    again.end_night("over")
    fresh = world.loop(repo.path, limits=Limits(cost_usd=2.0))
    fresh.begin_night({})
    assert fresh.look().over == ""


def test_a_project_that_is_moved_away_is_told_and_the_others_go_on(
    world: World, queue: SubmissionQueue, repo: Repo, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    repo.git("clone", "-q", str(repo.path), str(other))
    SubmissionQueue(open_project_dirs(other)).submit(NewSubmission(goal="there"))
    queue.submit(NewSubmission(goal="here"))
    loop = world.loop(repo.path, other, limits=Limits(jobs=2))
    os.rename(other, tmp_path / "moved")
    loop.look()
    assert world.began == ["tp here --yes"]
    assert [json.loads(line)["action"] for line in loop.home.files.log_path.read_text().splitlines()] == [
        "fault",
        "start",
    ]


def test_the_memory_of_the_loop_does_not_grow(world: World, queue: SubmissionQueue, repo: Repo) -> None:
    queue.submit(NewSubmission(goal="here"))
    loop = world.loop(repo.path)
    loop.look()
    sizes = set()
    for _ in range(200):
        world.now += 31
        loop.look()
        sizes.add(tuple(len(getattr(loop, name)) for name in ("_ready", "_started", "_served", "_faults")))
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("code", "first", "tenth"), [("LOCKED", 5, 5), ("NO_ANSWER", 20, 900), ("AGENT_FAILED", 60, 900)]
)
def test_waits_double_up_to_a_limit(code: str, first: float, tenth: float) -> None:
    assert (backoff(code, 1, None), backoff(code, 10, None)) == (first, tenth)
    assert backoff(code, 1, 3600.0) == 3600.0


# The daemon ----------------------------------------------------------------------------------------------------------


def run(
    world: World, repo: Repo, limits: Limits = NO_LIMITS, at_wait: Callable[[int], None] = lambda _n: None, **more: Any
) -> str:
    options = daemon.DaemonOptions(**more)
    return daemon.run([repo.path], limits, options, {}, world.outside, Instant(world, at_wait))


def test_it_works_until_nothing_is_left(world: World, folders: Folders, queue: SubmissionQueue, repo: Repo) -> None:
    entries = [submitted(queue, repo) for _ in range(3)]
    world.on_start = opens(folders, *PASSED)
    reason = run(world, repo, at_wait=lambda _n: world.alive.clear(), drain=True)
    assert reason == "nothing is left to do"
    assert len(world.began) == 3
    assert world.now < 100  # other tasks do not wait for the cool-down
    assert all(queue.entries()[entry.id].task_id for entry in entries)


def test_it_ends_with_the_night_and_interrupts_its_session(world: World, queue: SubmissionQueue, repo: Repo) -> None:
    queue.submit(NewSubmission(goal="long"))
    reason = run(world, repo, Limits(until=BEGIN + timedelta(hours=8)))
    assert reason == "it is past 2026-02-01 07:00 UTC"
    assert world.alive == set()
    assert world.now == 8 * 3600


@pytest.mark.parametrize("request_name", [STOP, FINISH])
def test_it_stops_when_asked(
    world: World, folders: Folders, queue: SubmissionQueue, repo: Repo, request_name: str
) -> None:
    entry = queue.submit(NewSubmission(goal="long"))
    own = DaemonFiles(folders)

    def ask(count: int) -> None:
        if count == 3:
            own.ask(request_name)
        if count == 6:
            assert request_name == FINISH
            world.end(entry.id)

    run(world, repo, at_wait=ask)
    assert world.alive == set()
    assert not own.is_running


def test_it_ends_if_its_folder_is_removed_under_it_and_goes_on_after_a_fault(
    world: World, folders: Folders, queue: SubmissionQueue, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.submit(NewSubmission(goal="long"))
    real = DaemonFiles.write_memory

    def full_once(own: DaemonFiles, memory: DaemonMemory) -> None:
        if world.began and world.now == 0:
            raise NoSpace("the disk is full")
        real(own, memory)

    def remove(count: int) -> None:
        if count == 5:
            shutil.rmtree(folders.own)

    monkeypatch.setattr(DaemonFiles, "write_memory", full_once)
    assert run(world, repo, at_wait=remove) == f"somebody removed its folder in {repo.path}"
    assert len(world.began) == 1
    assert not folders.own.exists()


def test_a_night_of_another_day_is_not_continued(world: World, folders: Folders, repo: Repo) -> None:
    world.loop(repo.path, limits=Limits(hours=8)).begin_night({})
    world.now = 3600.0
    later = world.loop(repo.path, limits=Limits(hours=8))
    later.begin_night({})
    assert later.spending().hours == 1.0
    world.now = 2 * 86_400.0
    fresh = world.loop(repo.path, limits=Limits(hours=8))
    fresh.begin_night({})
    assert fresh.spending().hours == 0.0
    assert DaemonFiles(folders).read_memory().night["began"].startswith("2026-02-02T")


def test_a_second_daemon_is_told_whose_lock_it_is(world: World, folders: Folders, repo: Repo) -> None:
    with DaemonFiles(folders).held():
        with pytest.raises(Locked, match="another autoloop works in"):
            run(world, repo)
        with pytest.raises(Locked):
            daemon.once([repo.path], Limits(), world.outside)
        answer = repo.run("autoloop", "once")
        assert (answer.code, "was asked to look" in answer.stdout) == (0, True)
    assert repo.run("autoloop", "stop").code == 14


def test_once_is_safe_where_no_task_is(repo: Repo) -> None:
    answer = repo.run("autoloop", "once")
    assert (answer.code, answer.stdout) == (0, "there is no task here; autoloop did nothing\n")
    assert not (repo.path / ".reflectloop").exists()


def test_a_full_log_is_rotated(folders: Folders) -> None:
    own = DaemonFiles(folders)
    for _ in range(5):
        own.log("fill", text="x" * (1 << 20))
    names = sorted(path.name for path in own.folder.iterdir())
    assert names == ["log.1.jsonl", "log.2.jsonl", "log.3.jsonl", "log.jsonl"]


def test_an_unreadable_memory_is_an_empty_one(
    folders: Folders, world: World, queue: SubmissionQueue, repo: Repo
) -> None:
    own = DaemonFiles(folders)
    own.folder.mkdir(parents=True)
    for text in ("", "[]", '{"acknowledged": 3}', '{"sessions": {"a": {}}}', "{"):
        (own.folder / "memory.json").write_text(text)
        assert own.read_memory() == ({}, {}, {})
    queue.submit(NewSubmission(goal="g"))
    world.loop(repo.path).look()
    assert world.began == ["tp g --yes"]


# A session's preparation -----------------------------------------------------------------------------------------------


def test_a_step_whose_agent_did_not_answer_begins_again_with_all_attempts(folders: Folders) -> None:
    write_task(folders, "T-20260131-abcdef", STEP, blocked("x did not answer: 429"), mode="fileops")
    view = TaskView("k", "p", Standing.UNANSWERED, "1", task_id="T-20260131-abcdef", step_id="a")
    headless.prepare(folders, view)
    task = folders.load_current()
    assert task.last_run is not None
    step = task.last_run.steps["a"]
    assert (task.id, step.status, step.forgiven) == ("T-20260131-abcdef", "pending", 1)


def test_a_task_that_waits_for_a_person_makes_room_for_another_plan(folders: Folders) -> None:
    write_task(folders, "T-20260131-abcdef", STEP, blocked("which?"), mode="fileops")
    folders.set_current_task("T-20260131-abcdef")
    headless.set_aside(folders)
    assert folders.current_task() is None
    used = task_control.use(folders.root, "T-20260131-abcdef")
    assert used.next_step == "reflectloop answer a TEXT"
    with pytest.raises(NothingToDo):
        task_control.use(folders.root, "T-20260131-000000")
    assert folders.current_task() == "T-20260131-abcdef"


# Times and lists -------------------------------------------------------------------------------------------------------


def test_times_are_read_as_people_mean_them() -> None:
    now = BEGIN
    assert night_times.past_time("8h", now) == now - timedelta(hours=8)
    assert night_times.past_time("2026-01-01T00:00:00+00:00", now) == datetime(2026, 1, 1, tzinfo=UTC)
    local = now.astimezone()
    assert night_times.next_time(f"{local:%H:%M}", now) == now + timedelta(days=1)
    assert night_times.past_time(f"{local:%H:%M}", now) == now
    for text in ("25:00", "soon", ""):
        with pytest.raises(InvalidInput):
            night_times.next_time(text, now)


def test_a_list_of_projects_is_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    listed = tmp_path / "list"
    listed.write_text("# ours\n\na\n")
    assert project_lists.read(listed) == [tmp_path / "a"]
    for text in ("", "# none\n", "a\nmissing\n"):
        listed.write_text(text)
        with pytest.raises(InvalidInput):
            project_lists.read(listed)


# The morning report ----------------------------------------------------------------------------------------------------


def told_by_journals(folders: Folders) -> dict[str, dict[str, Any]]:
    """Recompute cost and state of every task from the bytes of its journal, in another way than the engine."""
    out = {}
    for path in (folders.own / "tasks").glob("*/journal.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        calls = [line for line in lines if line["kind"] == "agent_asked"]
        ends = [line["error_code"] for line in lines if line["kind"] == "run_finished"]
        out[path.parent.name] = {
            "usd": round(sum(call["cost_usd"] or 0 for call in calls), 6),
            "unpriced": sum(call["cost_usd"] is None for call in calls),
            "calls": len(calls),
            "passed": ends[-1:] == [None],
            "ended": lines[-1]["at"],
        }
    return out


def night(folders: Folders, queue: SubmissionQueue, repo: Repo) -> None:
    """Write the journals of a night: proven, failed, asking; and one submission that never began."""
    asked = events.AgentAsked(
        run_id="R",
        step_id="a",
        role="executor",
        agent="x",
        status="ok",
        cost_usd=0.25,
        input_tokens=7,
        duration_ms=1500,
    )
    write_task(folders, "T-20260131-000001", asked, asked.replaced(cost_usd=None), *PASSED)
    write_task(folders, "T-20260131-000002", STEP, asked, failed("STEP_FAILED"))
    write_task(folders, "T-20260131-000003", STEP, blocked("which <b>table</b>?"), mode="fileops")
    submitted(queue, repo, title="Never began")


def test_the_report_equals_the_journals(folders: Folders, queue: SubmissionQueue, repo: Repo) -> None:
    night(folders, queue, repo)
    made = night_report.make([repo.path], clock.now() - timedelta(hours=8), clock.now())
    journals = told_by_journals(folders)
    rows = {row.task_id: row for row in made.rows if row.task_id}
    assert {name: (row.usd, row.unpriced, row.calls, row.ended) for name, row in rows.items()} == {
        name: (told["usd"], told["unpriced"], told["calls"], told["ended"]) for name, told in journals.items()
    }
    passed = {row.task_id for row in made.of_group("Proven, and can be applied")}
    assert passed == {name for name, told in journals.items() if told["passed"]}
    assert [row.title for row in made.of_group("Not finished")] == ["Never began"]
    (waits,) = made.of_group("Waits for a person")
    assert waits.next_command == "reflectloop tasks --use T-20260131-000003 && reflectloop answer a TEXT"
    totals = made.totals
    assert (totals["usd"], totals["unpriced"], totals["calls"], totals["tokens"]) == (0.5, 1, 3, 21)
    assert "0.5000 USD and 1 call(s) of unknown cost" in "\n".join(night_report.markdown(made))


def test_a_report_is_only_about_its_time(folders: Folders, queue: SubmissionQueue, repo: Repo) -> None:
    night(folders, queue, repo)
    made = night_report.make([repo.path], clock.now() + timedelta(hours=1), clock.now())
    assert [row.title for row in made.rows] == ["Never began"]


def test_the_page_needs_nothing_from_outside_and_escapes_what_agents_wrote(
    folders: Folders, queue: SubmissionQueue, repo: Repo
) -> None:
    night(folders, queue, repo)
    made = night_report.make([repo.path], clock.now() - timedelta(hours=8), clock.now())
    text = report_page.page(made)
    assert "<b>table</b>" not in text
    assert "which &lt;b&gt;table&lt;/b&gt;?" in text
    assert "<h2>Cost of each task (USD)</h2><svg" in text
    assert "<h2>Cost of all tasks, call by call (USD)</h2><svg" in text
    assert "http" not in text
    assert "src=" not in text


def test_the_command_prints_markdown_or_json_and_writes_the_page(
    folders: Folders, queue: SubmissionQueue, repo: Repo, tmp_path: Path
) -> None:
    night(folders, queue, repo)
    page = tmp_path / "night.html"
    answer = repo.run("report", "--since", "8h", "--html", page, "--json")
    assert (answer.code, answer.json["data"]["totals"]["tasks"]) == (0, 4)
    assert page.read_text().startswith("<!doctype html>")
    assert repo.run("report", "--since", "yesterday").code == 12


# Started from elsewhere ------------------------------------------------------------------------------------------------


def test_the_files_of_a_project_look_once_and_do_nothing_where_the_program_is_not(repo: Repo) -> None:
    assert repo.run("install", "autoloop").code == 0
    thin = repo.path / "automation" / "autoloop.py"
    thin.write_text(re.sub(r"PROGRAM = .*", 'PROGRAM = "no-such-program"', thin.read_text()))
    for words in ([], ["--once"], ["status"]):
        done = subprocess.run([sys.executable, thin, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "reflectloop is not here; autoloop did nothing\n")
    thin.write_text(re.sub(r"PROGRAM = .*", 'PROGRAM = "false"', thin.read_text()))
    assert subprocess.run([sys.executable, thin, "--once"], check=False).returncode == 0
    assert subprocess.run([sys.executable, thin, "start"], check=False).returncode == 1


def test_the_unit_starts_the_program_in_the_project_of_its_name() -> None:
    lines = automation_files.unit("/opt/bin/reflectloop").decode().splitlines()
    assert "ExecStart=/opt/bin/reflectloop autoloop start --foreground --project %f" in lines
    assert f"RestartPreventExitStatus={InvalidInput.exit_code} 16 {Locked.exit_code}" in lines


def test_a_plan_is_carried_out_by_the_daemon_that_works_or_by_a_new_one(
    folders: Folders, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[list[str]] = []

    def start(_root: Path, words: list[str]) -> Answer:
        began.append(words)
        return Answer()

    monkeypatch.setattr(cli_autoloop, "start_in_background", start)
    cli_autoloop.continue_in_background(repo.path)
    assert began == [["--drain", "--project", str(repo.path)]]
    with DaemonFiles(folders).held():
        assert cli_autoloop.continue_in_background(repo.path).data == {"pid": os.getpid()}
    assert len(began) == 1
