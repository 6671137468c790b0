"""The loop of `autoloop`: what it starts, waits for and tells, with sessions and clocks that the tests play."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autoloop_world import PASSED, STEP, World, blocked, failed, opens, submitted, write_task
from reflectloop.autoloop.headless import SessionEnd
from reflectloop.autoloop.loop import backoff
from reflectloop.autoloop.project_state import ProjectState
from reflectloop.autoloop.submissions import NewSubmission, SubmissionQueue
from reflectloop.autoloop.task_view import Limits, Standing, TaskView
from reflectloop.engine.tasks import open_tasks
from reflectloop.state import events
from reflectloop.workspace.folders import Folders, open_project_dirs
from support import Repo


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


def test_a_project_that_is_moved_away_is_reported_and_the_others_continue(
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


def test_a_new_night_tries_again_what_had_ended_without_an_advance(
    world: World, queue: SubmissionQueue, repo: Repo
) -> None:
    entry = submitted(queue, repo)
    loop = world.loop(repo.path)
    loop.begin_night({})
    loop.look()
    world.end(entry.id, "AGENT_UNAVAILABLE", "executor is bound to no agent")
    loop.look()
    killed = world.loop(repo.path)
    killed.begin_night({})  # the same night: nothing changed
    assert killed.look().idle
    killed.end_night("stopped")
    fresh = world.loop(repo.path)
    fresh.begin_night({})  # a person started it again
    fresh.look()
    assert len(world.began) == 2
    world.end(entry.id, "AGENT_UNAVAILABLE", "executor is bound to no agent")
    fresh.look()
    log = loop.home.files.log_path.read_text().splitlines()
    assert [json.loads(line)["action"] for line in log].count("notify") == 2
