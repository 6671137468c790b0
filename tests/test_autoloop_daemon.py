"""The daemon of `autoloop`, its files, and what starts it."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from autoloop_world import BEGIN, NO_LIMITS, PASSED, STEP, Instant, World, blocked, opens, submitted, write_task
from reflectloop.autoloop import daemon, headless
from reflectloop.autoloop.daemon_files import FINISH, STOP, DaemonFiles, DaemonMemory
from reflectloop.autoloop.submissions import NewSubmission, SubmissionQueue
from reflectloop.autoloop.task_view import Limits, Standing, TaskView
from reflectloop.cli import autoloop as cli_autoloop
from reflectloop.cli.render import Answer
from reflectloop.commands import task_control
from reflectloop.errors import InvalidInput, Locked, NoSpace, NothingToDo
from reflectloop.hooks import client_files
from reflectloop.system import process
from reflectloop.workspace.folders import Folders
from support import Repo

# The daemon ------------------------------------------------------------------------------------------------------------


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


def test_it_ends_if_its_folder_is_removed_under_it_and_continues_after_a_fault(
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


def test_each_event_is_one_plain_line_in_the_foreground(
    world: World, folders: Folders, queue: SubmissionQueue, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    submitted(queue, repo, title="Mend\nit")
    world.on_start = opens(folders, *PASSED)
    listener = cli_autoloop.event_printer(several=False)
    with click.Context(click.Command("start")):
        run(world, repo, at_wait=lambda _n: world.alive.clear(), drain=True, listener=listener)
    lines = [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        f"begins    {repo.path}",
        "starts    Mend\\nit: it is queued",
        "ended     Mend\\nit: proven",
        "tells     Mend\\nit is proven: reflectloop apply R",
        "is over   nothing is left to do",
    ]


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


def test_status_says_why_a_session_of_once_failed_and_what_to_do(repo: Repo) -> None:
    assert repo.run("submit", "a thing").code == 0
    started = repo.run("autoloop", "once", "--json").json["data"]["sessions"][0]
    while process.is_alive(started["pid"], started["start"]):
        select.select([], [], [], 0.05)
    told = repo.run("autoloop", "status").stdout
    assert "its last session ended with AGENT_UNAVAILABLE: no agent is bound to the planner" in told
    assert "next: planner = " in told


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
    lines = client_files.autoloop_unit("/opt/bin/reflectloop").decode().splitlines()
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
