"""Commands on a task: pause, abort, skip, redo, rewind, fork; each is recorded in the journal."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from support import Repo, start, wait_until
from warm import Engine


@pytest.fixture
def chain(repo: Repo) -> Repo:
    """Three steps, each builds on the last; the second fails."""
    steps = [
        {"id": "a", "commands": ["echo a >> out.txt"]},
        {"id": "b", "commands": ["echo b >> out.txt; test -e /nonexistent"], "depends_on": ["a"]},
        {"id": "c", "commands": ["echo c >> out.txt"], "depends_on": ["b"]},
    ]
    repo.plan(json.dumps({"plan": {"title": "Chain", "steps": steps}}))
    return repo


def journal(repo: Repo) -> list[dict[str, Any]]:
    found = sorted(
        (repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl"), key=lambda path: path.stat().st_mtime_ns
    )
    return [json.loads(line) for line in found[-1].read_text().splitlines()]


def added(repo: Repo) -> str:
    lines = (repo.latest() / "changes.patch").read_text().splitlines()
    return "".join(line[1:] for line in lines if line.startswith("+") and not line.startswith("+++"))


def run(repo: Repo) -> None:
    assert repo.run("run", repo.path.parent / "plan.yaml").code == 30


def test_steps_that_depend_on_a_skipped_step_run(chain: Repo) -> None:
    run(chain)
    done = chain.run("skip", "b", "--reason", "done by hand")
    assert done.code == 0, done.stderr
    assert chain.run("resume").code == 0
    assert added(chain) == "ac"
    skipped = next(event for event in journal(chain) if event["kind"] == "step_skipped")
    assert skipped["reason"] == "done by hand"
    shown = json.loads(chain.run("tasks", "--json").stdout)["data"]
    assert [(one["state"], one["steps_done"]) for one in shown] == [("DONE", 3)]
    page = chain.run("show").stdout
    assert "## Steps (2 of 3 done, 1 skipped)" in page
    assert "| b | skipped: done by hand | | |" in page


def test_a_failed_step_is_tried_again_without_the_steps_before_it(chain: Repo) -> None:
    run(chain)
    before = sum(event["kind"] == "step_started" and event["step_id"] == "a" for event in journal(chain))
    assert chain.run("retry", "b", "--reason", "mended outside").code == 30
    after = sum(event["kind"] == "step_started" and event["step_id"] == "a" for event in journal(chain))
    assert before == after == 1
    assert sum(event["kind"] == "step_started" and event["step_id"] == "b" for event in journal(chain)) == 2


def test_redoing_a_step_also_redoes_the_steps_built_on_it(chain: Repo) -> None:
    run(chain)
    chain.run("skip", "b", "--reason", "not now")
    done = json.loads(chain.run("redo", "a", "--reason", "the wrong letter", "--json").stdout)["data"]
    assert done["steps"] == ["a", "b"]
    again = chain.run("resume")
    assert again.code == 30
    kinds = [(event["kind"], event.get("step_id")) for event in journal(chain)]
    assert kinds.count(("step_started", "a")) == 2


def test_rewinding_goes_back_to_the_tree_before_a_step(repo: Repo) -> None:
    steps = [{"id": name, "commands": [f"echo {name} >> out.txt"]} for name in "abc"]
    steps.append({"id": "d", "commands": ["false"]})
    repo.plan(json.dumps({"plan": {"title": "Chain", "steps": steps}}))
    run(repo)
    assert repo.run("rewind", "b").code == 0
    assert repo.run("skip", "d", "--reason", "never mind").code == 0
    assert repo.run("skip", "c", "--reason", "never mind").code == 0
    assert repo.run("resume").code == 0
    assert added(repo) == "ab"


def test_a_fork_is_a_new_task(chain: Repo) -> None:
    run(chain)
    forked = json.loads(chain.run("fork", "b", "--json").stdout)["data"]
    assert forked["steps"] == ["a"]
    assert chain.run("skip", "b", "--reason", "in the fork only").code == 0
    assert chain.run("resume").code == 0
    assert added(chain) == "ac"
    states = {one["id"]: one["state"] for one in json.loads(chain.run("tasks", "--json").stdout)["data"]}
    assert sorted(states.values()) == ["BLOCKED", "DONE"]
    assert states[forked["task_id"]] == "DONE"


def _started(repo: Repo, path: Path) -> Engine:
    process = start(repo.path, "run", str(path))
    tasks = repo.path / ".reflectloop" / "tasks"
    assert wait_until(lambda: any(b"step_started" in one.read_bytes() for one in tasks.glob("*/journal.jsonl")))
    return process


def test_a_paused_run_stops_before_its_next_step(repo: Repo) -> None:
    gate = repo.gate()
    engine = _started(repo, repo.steps(f"{gate.wait}; echo one > one.txt", "echo two > two.txt"))
    assert repo.run("pause").code == 0
    gate.open()
    done = engine.ended()
    assert done.code == 130
    assert b"paused as requested" in done.stderr
    kinds = [event["kind"] for event in journal(repo)]
    assert kinds.count("step_finished") == 1
    assert kinds[-1] == "run_paused"
    assert json.loads(repo.run("tasks", "--json").stdout)["data"][0]["state"] == "PAUSED"
    assert repo.run("resume").code == 0
    assert added(repo) == "onetwo"


def test_an_interrupted_run_can_be_resumed(repo: Repo) -> None:
    gate = repo.gate()
    engine = _started(repo, repo.steps(f"echo half | tee half.txt; {gate.wait}; rm half.txt; echo one > one.txt"))
    assert wait_until(lambda: any(log.read_text() for log in (repo.path / ".reflectloop").glob("runs/*/logs/*.log")))
    engine.send_signal(signal.SIGTERM)
    done = engine.ended()
    assert done.code == 130
    assert b"reflectloop resume" in done.stderr
    gate.open()
    assert repo.run("resume").code == 0
    assert added(repo) == "one"


def test_aborting_a_task_ends_its_engine(repo: Repo) -> None:
    engine = _started(repo, repo.steps("sleep 60"))
    assert repo.run("abort", "--reason", "not wanted").code == 0
    engine.wait()
    assert json.loads(repo.run("tasks", "--json").stdout)["data"][0]["state"] == "ABORTED"
    assert repo.run("resume").code == 14
    repo.no_process_left()


def test_a_log_can_be_followed_until_the_run_ends(repo: Repo) -> None:
    engine = _started(repo, repo.steps("for i in 1 2 3; do echo line $i; sleep 0.4; done"))
    shown = repo.run("log", "--follow")
    assert shown.stdout.split("\n")[:3] == ["line 1", "line 2", "line 3"]
    engine.wait()


@pytest.mark.parametrize(
    "words", [("skip", "x", "--reason", "r"), ("redo", "x", "--reason", "r"), ("rewind", "x"), ("fork", "x")]
)
def test_an_unknown_step_is_refused_with_the_known_ones(chain: Repo, words: tuple[str, ...]) -> None:
    assert chain.run(*words).code == 14
    run(chain)
    done = chain.run(*words)
    assert done.code == 12
    assert "there are a, b, c" in done.stderr


def test_a_senseless_command_is_refused_and_changes_nothing(chain: Repo) -> None:
    run(chain)
    before = journal(chain)
    assert chain.run("skip", "a", "--reason", "r").code == 12
    assert chain.run("rewind", "c").code == 12
    assert chain.run("pause").code == 14
    assert journal(chain) == before


@pytest.mark.parametrize("again", ["retry", "run"])
def test_an_aborted_task_is_never_resumed(repo: Repo, again: str) -> None:
    plan = repo.steps("test -e there")
    assert repo.run("run", plan).code == 30
    assert repo.run("abort", "--reason", "enough").code == 0
    repo.write("there", "")
    answer = repo.run("retry", "--reason", "mended") if again == "retry" else repo.run("run", plan)
    assert answer.code == (14 if again == "retry" else 0), answer.stderr
    status = repo.run("status", "--json")
    assert status.code == 0
    assert repo.run("tasks").code == 0
