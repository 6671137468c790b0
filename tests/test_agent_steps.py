"""Steps of a plan that an agent does, run by `run`: claims are checked, failures told, budgets kept."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

from reflectloop.engine.pipeline import run
from reflectloop.engine.run.request import RunOutcome, RunRequest
from reflectloop.errors import StepFailed
from reflectloop.state import events
from scripted_task import CHECK, DONE, WRITE, Crew
from support import Repo

STEP: dict[str, Any] = {"id": "A", "agent": {"prompt": "make add add"}, "verify": [{"run": CHECK}]}


@pytest.fixture
def crew(repo: Repo) -> Crew:
    return Crew(repo)


def played(crew: Crew, *steps: dict[str, Any], **more: Any) -> RunOutcome:
    plan = {"title": "By agents", "track": "direct", "steps": list(steps or (STEP,)), **more}
    path = crew.repo.plan(json.dumps({"plan": plan}))
    return run(RunRequest(crew.repo.path, path))


def test_an_agent_does_a_step_and_its_checks_decide(crew: Crew) -> None:
    done = played(crew.plays())
    assert done.error is None
    assert [one.path for one in done.touched] == ["calc.py"]
    assert [one.status for one in crew.asked("executor")] == ["ok"]


def test_a_claim_that_does_not_hold_is_told_to_the_next_attempt(crew: Crew) -> None:
    wrong = {**WRITE, "content": "def add(a, b):\n    return a * b\n"}
    done = played(crew.plays({"role": "executor", "attempt": 1, "ops": [wrong], "answer": DONE}))
    assert done.error is None
    prompt = (done.folder.path / "agents" / "A" / "2" / "executor.prompt.md").read_text()
    assert "AssertionError" in prompt
    assert "return a * b" in prompt


def test_who_does_nothing_and_who_does_the_same_again_do_not_pass(crew: Crew) -> None:
    done = played(crew.plays({"role": "executor", "answer": DONE}), {**STEP, "verify": []})
    assert isinstance(done.error, StepFailed)
    assert "no file differs" in done.error.message
    assert len(crew.asked("executor")) == 3


def test_as_many_attempts_as_the_plan_allows(crew: Crew) -> None:
    played(crew.plays({"role": "executor", "answer": DONE}), limits={"step_attempts": 1})
    assert len(crew.asked("executor")) == 1


def test_a_question_ends_the_run_with_needs_input(crew: Crew) -> None:
    ask = {"control": "ask", "question": "plus or times?"}
    done = played(crew.plays({"role": "executor", "answer": ask}))
    assert done.error
    assert done.error.code == "NEEDS_INPUT"
    assert "plus or times?" in done.error.message
    assert len(crew.asked("executor")) == 1


def test_who_is_to_look_only_in_a_step_cannot_write(crew: Crew) -> None:
    meddler = {"role": "reviewer", "ops": [WRITE], "answer": DONE}
    done = played(crew.plays(meddler), {"id": "A", "agent": {"role": "reviewer", "prompt": "look at it"}})
    assert done.error
    assert not done.touched
    assert {one.status for one in crew.asked("reviewer")} == {"denied"}


def test_agents_side_by_side_share_one_budget(crew: Crew) -> None:
    names = ("one", "two", "three")
    entries = [
        {
            "role": "executor",
            "step": name,
            "ops": [{"op": "write_file", "path": f"{name}.txt", "content": name}],
            "answer": DONE,
            "usage": {"output_tokens": 60},
        }
        for name in names
    ]
    steps = [{"id": name, "agent": {"prompt": name}, "verify": [{"file_exists": f"{name}.txt"}]} for name in names]
    done = played(crew.plays(*entries), *steps, jobs=3)
    assert done.error is None
    assert sorted(one.path for one in done.touched) == ["one.txt", "three.txt", "two.txt"]
    spent = played(crew, *steps, jobs=3, limits={"tokens": 100})
    assert spent.error
    assert spent.error.code == "BUDGET_SPENT"
    asked = [one for one in crew.history() if isinstance(one, events.AgentAsked)]
    assert sum(one.output_tokens for one in asked) <= 180  # of the first, and one more that fitted when it was asked


def test_a_role_that_is_not_bound_is_said_before_anything_runs(crew: Crew) -> None:
    done = played(crew.plays(roles="planner"))
    assert done.error
    assert done.error.code == "AGENT_UNAVAILABLE"
    assert not done.steps


@pytest.mark.parametrize("left", ["os.mkfifo('.gitattributes')", "os.makedirs('n/.git'); os.mkfifo('n/.git/HEAD')"])
def test_a_pipe_that_an_agent_leaves_where_git_reads_does_not_hold_up_the_next_attempt(crew: Crew, left: str) -> None:
    answer = json.dumps({"text": "x", "data": DONE})
    program = crew.repo.path.parent / "agent.py"
    program.write_text(f"import os\n{left}\nprint({answer!r})\n")
    agent = f'[agents.m]\nkind = "command"\nrun = ["{os.path.realpath(sys.executable)}", "{program}"]\n'
    crew.repo.write("reflectloop.toml", f'[roles]\nexecutor = "m"\n{agent}')
    crew.repo.commit("an agent of our own")
    done = played(crew, {**STEP, "verify": []})
    assert isinstance(done.error, StepFailed)
    assert "git would wait forever for" in done.error.message
    assert [asked.status for asked in crew.asked("executor")] == ["ok", "ok", "ok"]


def test_a_pipe_that_a_check_leaves_where_git_reads_does_not_hide_what_an_agent_did(crew: Crew) -> None:
    check = "mkfifo .gitattributes; false"
    done = played(crew.plays(), {**STEP, "verify": [{"run": check}]}, limits={"step_attempts": 2})
    assert done.error
    assert "the same files as a failed attempt" in done.error.message
    prompt = (done.folder.path / "agents" / "A" / "2" / "executor.prompt.md").read_text()
    assert "+    return a + b" in prompt
