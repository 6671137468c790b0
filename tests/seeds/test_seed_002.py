"""The Orchestrator's protocols as their document says them, named by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import seed_samples as samples

from reflectloop.engine.agent_tasks import plan_import, planning
from reflectloop.engine.agent_tasks.planning import PlanRequest
from reflectloop.engine.steps import agent_fileops
from scripted_task import CHECK, DONE, WRITE, Crew
from support import Repo

_PLAN = "002-line-12-plan.json"
_WORDS = "002-line-67-plan.md"
_FOUND = {"control": "step_done", "summary": "the session ends after 1800 s, set in src/auth.py:3"}


@pytest.fixture
def crew(repo: Repo) -> Crew:
    return Crew(repo).plays(
        {"role": "executor", "step": "step_1", "answer": _FOUND},
        {"role": "executor", "step": "step_2", "ops": [WRITE], "answer": DONE},
    )


def _run(crew: Crew, plan: str) -> tuple[int, dict[str, Any], Path]:
    path = crew.repo.plan(plan, "plan.json")
    done = crew.repo.run("run", path, "--json")
    return done.code, done.json, crew.repo.latest()


def test_line_11_the_sample_plan_runs_with_an_executor_bound(crew: Crew) -> None:
    crew.repo.write("test_calc.py", samples.UNITTEST)
    crew.repo.commit("a test that unittest finds")
    code, told, folder = _run(crew, samples.text(_PLAN))
    assert code == 0, told["envelope"]["message"]
    assert [step["id"] for step in told["data"]["steps"]] == ["step_1", "step_2"]
    prompt = (folder / "agents" / "step_2" / "1" / "executor.prompt.md").read_text()
    assert "Use these tools only: apply_patch" in prompt
    assert "the session ends after 1800 s" in prompt


def test_line_11_a_track_in_the_file_is_taken(crew: Crew) -> None:
    plan = {**samples.data(_PLAN), "track": "feature"}
    code, told, _ = _run(crew, json.dumps(plan))
    assert code == 33
    assert "acceptance" in told["envelope"]["message"]


def test_line_18_an_analysis_ends_by_its_findings_and_not_without(repo: Repo) -> None:
    crew = Crew(repo).plays({"role": "executor", "step": "step_1", "answer": {"control": "step_done"}})
    plan = samples.data(_PLAN)
    plan["steps"], plan["verification_policy"] = plan["steps"][:1], "none"
    code, told, _ = _run(crew, json.dumps(plan))
    assert code == 30
    assert "does not say what it found" in told["envelope"]["message"]


def test_line_21_an_op_that_the_tools_of_a_step_do_not_name_is_refused(repo: Repo) -> None:
    crew = Crew(repo).plays({"role": "executor", "step": "step_1", "ops": [WRITE], "answer": _FOUND})
    plan = samples.data(_PLAN)
    plan["steps"] = plan["steps"][:1]
    code, told, _ = _run(crew, json.dumps(plan))
    assert code != 0
    assert "is outside the tools that the plan names for this step: read_file, search" in told["envelope"]["message"]


@pytest.mark.parametrize(
    ("tools", "op", "refused"),
    [
        (("apply_patch",), "write_file", False),
        (("apply_patch",), "run", True),
        (("read_file",), "search", False),
        (("web_search",), "run", False),
        ((), "run", False),
    ],
)
def test_line_28_the_tools_of_a_step_permit_their_kind_of_op(tools: tuple[str, ...], op: str, refused: bool) -> None:
    errors = list(agent_fileops.not_permitted(tools, [{"op": op}]))
    assert bool(errors) is refused


def test_line_11_a_planner_answers_with_the_plan_object(repo: Repo) -> None:
    crew = Crew(repo).plays({"role": "planner", "says": "Make a plan", "answer": samples.data(_PLAN)})
    repo.write("test_add.py", "def test_nothing():\n    pass\n")
    repo.commit("tests")
    proposed = crew.plan("任务全局目标").proposed
    assert [step.title for step in proposed.plan.steps] == [
        "分析 src/auth.py 中的登录逻辑",
        "修改 session 过期时间配置",
    ]
    assert [step.looks_only for step in proposed.plan.steps] == [True, False]


def test_line_63_a_planner_answers_in_the_plan_form(repo: Repo) -> None:
    answer = {"role": "planner", "says": "Make a plan", "status": "no_output", "text": samples.text(_WORDS)}
    crew = Crew(repo).plays(answer)
    repo.write("test_add.py", "def test_nothing():\n    pass\n")
    repo.commit("tests")
    assert [step.title for step in crew.plan("A").proposed.plan.steps] == ["步骤 A", "步骤 B"]


@pytest.mark.parametrize("name", [_PLAN, _WORDS])
def test_line_63_tp_takes_both_forms_from_a_file(repo: Repo, name: str) -> None:
    path = repo.plan(samples.text(name), Path(name).name)
    crew = Crew(repo).plays()
    repo.write("test_add.py", "def test_nothing():\n    pass\n")
    repo.commit("tests")
    opened = planning.plan(crew.place, PlanRequest(design=path), lambda _plan: True, crew.said.append)
    assert opened.task_id
    assert len(plan_import.read(path).plan.steps) == 2


def test_line_18_an_analysis_of_a_task_is_done_by_its_findings_which_the_next_step_is_told(repo: Repo) -> None:
    steps = [
        {"title": "Look", "tools": ["read_file", "grep"]},
        {"title": "Make add add", "checks": [CHECK], "tools": ["apply_patch"]},
    ]
    crew = Crew(repo).plays(
        {"role": "planner", "says": "Make a plan", "answer": {"title": "T", "goal": "add() adds", "steps": steps}},
        {"role": "executor", "step": "1", "answer": {"control": "step_done", "summary": "it subtracts"}},
    )
    assert crew.story().error is None
    [prompt] = crew.papers("2/1/executor.prompt.md")
    assert "step 1: it subtracts" in prompt.read_text()
