"""The usage of agents is reported by step and role; budgets hold, and the next command is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from reflectloop.artifacts import usage
from reflectloop.artifacts.usage import AgentBudget
from reflectloop.commands import apply_run, task_control, task_status
from reflectloop.engine.agent_tasks import planning
from reflectloop.engine.agent_tasks.planning import PlanRequest
from reflectloop.engine.pipeline import run
from reflectloop.engine.run.request import RunOutcome, RunRequest
from reflectloop.errors import BudgetSpent, NeedsInput
from reflectloop.state.fold import AgentUsage, Task
from scripted_task import CHECK, DESIGN, DONE, WRITE, Crew
from support import Repo

PRICED = {"usage": {"input_tokens": 1000, "output_tokens": 200, "turns": 3}, "cost_usd": 0.25}
WORK = {"role": "executor", "ops": [WRITE], "answer": DONE}


@pytest.fixture
def crew(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crew:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Crew(repo)


def status(crew: Crew) -> dict[str, Any]:
    return task_status.status(crew.repo.path, everything=False)


def agent_plan(crew: Crew, limits: str = "{}") -> Path:
    step = f"{{id: mend, title: Mend, agent: {{prompt: make add add}}, verify: [{{run: '{CHECK}'}}]}}"
    return crew.repo.plan(f"plan: {{title: Mend add, track: direct, limits: {limits}, steps: [{step}]}}")


def go(crew: Crew, plan: Path) -> RunOutcome:
    return run(RunRequest(crew.repo.path, plan))


# Words and data ---------------------------------------------------------------------------------------------------


def test_an_unknown_cost_is_reported_as_unknown() -> None:
    assert usage.money(AgentUsage(calls=2, usd=0.5)) == "0.5000 USD"
    assert usage.money(AgentUsage(calls=2, unpriced=2)) == "unknown cost"
    assert usage.money(AgentUsage(calls=2, usd=0.5, unpriced=1)) == "0.5000 USD and 1 call(s) of unknown cost"
    task = Task(spent={"1": {"executor": AgentUsage(calls=1, tokens=10, unpriced=1)}})
    assert usage.data(task)["in_all"]["usd"] is None
    assert "| 1 | executor | 1 | 0 | 10 | 1 unknown | 0.0 |" in usage.table(task)


def test_a_role_is_summed_over_its_steps_and_a_budget_names_only_what_it_limits() -> None:
    task = Task(
        spent={
            "": {"planner": AgentUsage(calls=1, tokens=100)},
            "1": {"planner": AgentUsage(calls=1, tokens=20), "executor": AgentUsage(calls=2, tokens=5)},
        }
    )
    assert usage.by_role(task) == {
        "planner": AgentUsage(calls=2, tokens=120),
        "executor": AgentUsage(calls=2, tokens=5),
    }
    said = list(usage.usage_lines(usage.data(task, AgentBudget(tokens=4000)), "1"))
    assert said[0].startswith("agents: 4 call(s), 0 turn(s), 125 tokens, 0.0000 USD")
    assert "  step 1, executor: 2 call(s), 0 turn(s), 5 tokens, 0.0000 USD, 0.0 s" in said
    assert said[-1] == "  budget: 125 of 4,000 tokens"


# Where people look ------------------------------------------------------------------------------------------------


def test_status_of_a_task_made_by_tp_names_the_step_the_cost_and_tr(crew: Crew) -> None:
    crew.plays({"role": "planner", "says": "Make a plan", "answer": DESIGN, **PRICED}).plan()
    seen = status(crew)
    assert seen["next"] == "reflectloop tr --all"
    assert (seen["step"]["id"], seen["step"]["title"], seen["step"]["status"]) == ("1", "Make add add", "pending")
    assert seen["cost"]["by_step"]["(task)"]["planner"]["tokens"] == 1200
    told = crew.repo.run("status").stdout
    assert "step 1: Make add add (pending)" in told
    assert "agents: 1 call(s), 3 turn(s), 1,200 tokens, 0.2500 USD" in told


def test_status_of_a_blocked_step_gives_its_question_and_how_to_answer(crew: Crew) -> None:
    ask = {"role": "executor", "answer": {"control": "ask", "question": "which operator?"}}
    told = {"role": "executor", "says": "plus, of course", "ops": [WRITE], "answer": DONE}
    assert isinstance(crew.plays(told, ask).story().error, NeedsInput)
    seen = status(crew)
    assert (seen["step"]["question"], seen["next"]) == ("which operator?", "reflectloop answer 1 TEXT")
    assert "? which operator?" in crew.repo.run("status").stdout
    task = crew.repo.path / ".reflectloop" / "tasks" / seen["task"]["id"]
    assert "(BLOCKED: which operator?; reflectloop answer 1 TEXT)" in (task / "todo.md").read_text()
    task_control.answer(crew.repo.path, "1", "plus, of course")
    assert status(crew)["next"] == "reflectloop tr --all"
    assert crew.work().error is None


def test_a_blocked_step_can_be_skipped(crew: Crew) -> None:
    ask = {"role": "executor", "answer": {"control": "ask", "question": "which operator?"}}
    crew.plays(ask).story()
    task_control.skip(crew.repo.path, "1", "done by hand")
    assert status(crew)["step"] is None


def test_a_task_that_tr_finished_has_its_cost_in_summary_and_result(crew: Crew) -> None:
    done = crew.plays({**WORK, **PRICED}).story()
    assert done.outcome
    assert "| 1 | executor | 1 | 3 | 1200 | 0.2500 |" in done.outcome.folder.summary.read_text()
    result = task_status.result(crew.repo.path, done.run.id)
    assert result["cost"]["by_role"]["executor"]["usd"] == 0.25
    assert "## Cost" in task_status.summary(crew.repo.path, done.run.id)


def test_a_run_with_agent_steps_tells_their_cost(crew: Crew) -> None:
    outcome = go(crew.plays({**WORK, **PRICED, "cost_usd": None}), agent_plan(crew))
    assert outcome.error is None
    assert "| mend | executor | 1 | 3 | 1200 | 1 unknown |" in outcome.folder.summary.read_text()
    assert yaml.safe_load(outcome.folder.result.read_text())["cost"]["in_all"]["usd"] is None
    assert status(crew)["cost"]["in_all"]["calls"] == 1


def test_a_run_without_agents_reports_no_cost(repo: Repo) -> None:
    outcome = run(RunRequest(repo.path, repo.plan("plan: {title: T, steps: [{id: a, commands: ['true']}]}")))
    assert "Cost" not in outcome.folder.summary.read_text()
    assert "cost" not in yaml.safe_load(outcome.folder.result.read_text())
    assert task_status.status(repo.path, everything=False)["cost"] is None


# Budgets ----------------------------------------------------------------------------------------------------------


def test_unlock_grants_a_spent_budget_again(crew: Crew) -> None:
    greedy = {"role": "executor", "attempt": 1, "answer": DONE, "usage": {"output_tokens": 5000}}
    crew.plays(greedy, settings="[cost]\ntokens = 4000\n").plan()
    with pytest.raises(BudgetSpent, match=r"used 5,000 of 4,000 tokens") as told:
        crew.work()
    assert told.value.next_step.startswith("reflectloop unlock --reason TEXT")
    assert "  budget: 5,000 of 4,000 tokens" in crew.repo.run("status").stdout
    assert apply_run.unlock(crew.repo.path, "worth it").again == "reflectloop tr --all"
    assert status(crew)["cost"]["counted"]["tokens"] == 0
    assert crew.work().error is None


def test_a_plan_files_budget_applies_to_the_task_of_tp(crew: Crew) -> None:
    greedy = {"role": "executor", "answer": DONE, "usage": {"output_tokens": 5000}}
    crew.plays(greedy, settings="[cost]\ntokens = 100000\n")
    planning.plan(crew.place, PlanRequest(design=agent_plan(crew, "{tokens: 300}")), lambda _d: True, crew.said.append)
    with pytest.raises(BudgetSpent, match=r"used 5,000 of 300 tokens"):
        crew.work()


def test_a_plans_budget_ends_its_run(crew: Crew) -> None:
    greedy = {"role": "executor", "answer": DONE, "usage": {"output_tokens": 5000}}
    outcome = go(crew.plays(greedy), agent_plan(crew, "{tokens: 300}"))
    assert isinstance(outcome.error, BudgetSpent)
    assert "used 5,000 of 300 tokens" in outcome.error.message
    assert "| mend | executor | 1 |" in outcome.folder.summary.read_text()


def test_the_usage_of_one_task_does_not_count_for_the_next(crew: Crew) -> None:
    costly = {"role": "planner", "says": "Make a plan", "answer": DESIGN, "usage": {"output_tokens": 900}}
    crew.plays(costly, settings="[cost]\ntokens = 1000\n")
    assert crew.plan().task_id
    task_control.abort(crew.repo.path, "another goal")
    assert crew.plan("another goal").task_id
    assert status(crew)["cost"]["counted"]["tokens"] == 900


def test_a_plan_that_was_not_accepted_can_be_started_from_its_file(crew: Crew) -> None:
    path = crew.plays().repo.write("../design.json", json.dumps(DESIGN))
    planned = planning.plan(crew.place, PlanRequest(design=path), lambda _d: False, crew.said.append)
    assert planned.file == path
