"""Every field of a plan file works for a task that `tp` opens and `tr` executes, as it does for `run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from boxes import without_bubblewrap
from reflectloop.engine.agent_tasks import planning
from reflectloop.engine.agent_tasks.planning import PlanRequest
from reflectloop.engine.agent_tasks.task_runner import TaskResult
from reflectloop.errors import GateRejected, NeedsInput, SandboxCreateFailed, VerificationFailed
from scripted_task import CHECK, Crew
from support import Repo

FIX = "sed -i s/-/+/ calc.py"


@pytest.fixture
def crew(repo: Repo) -> Crew:
    return Crew(repo).plays(roles="critic")


def execute(crew: Crew, *steps: dict[str, Any], **fields: Any) -> TaskResult:
    plan(crew, *steps, **fields)
    return crew.work()


def plan(crew: Crew, *steps: dict[str, Any], **fields: Any) -> None:
    numbered = [{"id": f"S{number}", **step} for number, step in enumerate(steps, 1)]
    whole = {"title": "Fix add", "track": "direct", "checks": {"adds": {"run": CHECK}}, "steps": numbered, **fields}
    path = crew.repo.plan(json.dumps({"plan": whole}))
    planned = planning.plan(crew.place, PlanRequest(design=path), lambda _plan: True, crew.said.append)
    assert planned.task_id


@pytest.mark.parametrize(
    "step",
    [
        {"commands": [f'test "$A" = b && {FIX}'], "env": {"A": "b"}},
        {"commands": ["sed -i s/-/+/ ../calc.py"], "cwd": "sub"},
        {"commands": [FIX], "verify": [{"run": "exit 3", "exit_code": 3}]},
        {"commands": [FIX], "verify": [{"run": "python3 -c 'print(5)'", "stdout_contains": "5"}]},
        {"commands": [FIX], "verify": [{"run": "false", "expect": "fail"}]},
        {"commands": [FIX], "verify": [{"file_exists": "calc.py"}, {"file_unchanged": "test_calc.py"}]},
        {"commands": [FIX, "echo added"], "verify": [{"output_contains": "added"}]},
        {"commands": [FIX, "exit 2"], "verify": [{"commands_exit": 2}]},
    ],
)
def test_fields_of_a_step_and_of_its_checks_are_used(crew: Crew, step: dict[str, Any]) -> None:
    crew.repo.write("sub/keep", "")
    crew.repo.commit("a folder")
    done = execute(crew, step)
    assert done.error is None, done.error
    assert [state.status for state in done.run.steps.values()] == ["done"]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"commands": ["sleep 30"], "timeout_s": 1}, "ran past 1 s"),
        ({"commands": [FIX], "read_only": True}, "is marked read_only, and changed calc.py"),
        ({"commands": [FIX], "verify": [{"run": "true", "expect": "fail"}]}, "was expected to fail, but passed"),
        ({"commands": [FIX], "verify": [{"file_nonempty": "absent"}]}, "absent is missing or empty"),
        ({"commands": [FIX], "verify": [{"run": "echo no", "not_contains": "no"}]}, "output contains 'no'"),
    ],
)
def test_a_step_that_breaks_its_own_fields_is_not_done(crew: Crew, step: dict[str, Any], why: str) -> None:
    done = execute(crew, step, limits={"step_attempts": 1})
    assert isinstance(done.error, NeedsInput)
    assert "1 attempts failed" in done.error.message
    assert why in done.error.message


def test_the_ids_and_the_order_of_a_plan_file_are_kept(crew: Crew) -> None:
    done = execute(
        crew,
        {"id": "test", "commands": [CHECK], "depends_on": ["fix"]},
        {"id": "fix", "commands": [FIX]},
    )
    assert done.error is None, done.error
    assert list(done.run.steps) == ["fix", "test"]


def test_boundaries_of_the_plan_are_judged_by_the_gates(crew: Crew) -> None:
    done = execute(crew, {"commands": [FIX]}, must_not_change=["calc.py"])
    assert isinstance(done.error, GateRejected)
    assert "calc.py" in done.error.message


def test_named_checks_of_the_plan_must_pass_on_the_whole_change(crew: Crew) -> None:
    done = execute(crew, {"commands": [FIX]}, checks={"lint": {"run": "false"}})
    assert isinstance(done.error, VerificationFailed)
    assert "lint" in done.error.message


def test_the_isolation_that_a_plan_requires_is_the_least_its_steps_get(crew: Crew, tmp_path: Path) -> None:
    plan(crew, {"commands": [FIX]}, isolation={"require": "full"})
    answer = crew.repo.run("tr", "--all", env=without_bubblewrap(tmp_path))
    assert answer.code == SandboxCreateFailed.exit_code
    assert "full" in answer.stderr
