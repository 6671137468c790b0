"""The nine steps with scripted agents: what each does wrong, and how it ends without anybody looking on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from reflectloop import config
from reflectloop.engine.agent_tasks import plan_import, planning
from reflectloop.engine.agent_tasks.planning import PlanRequest
from reflectloop.engine.agent_tasks.task_runner import TaskResult
from reflectloop.errors import (
    AgentUnavailable,
    InvalidInput,
    InvalidPlan,
    NeedsInput,
    SandboxCreateFailed,
)
from reflectloop.state import events
from reflectloop.state.fold import StepState
from reflectloop.workspace.folders import open_project_dirs
from scripted_task import CHECK, DESIGN, RIGHT, Crew
from support import Repo


@pytest.fixture
def crew(repo: Repo) -> Crew:
    return Crew(repo)


def step(done: TaskResult, name: str = "1") -> StepState:
    return done.run.steps[name]


# Honest work ------------------------------------------------------------------------------------------------------


def test_a_goal_becomes_proven_work_that_applies(crew: Crew) -> None:
    done = crew.plays().story()
    assert done.error is None
    assert str(done.task.state) == "DONE"
    assert done.report
    report = done.report.read_text()
    assert "The gates let it through" in report
    assert f"`{CHECK}`: exited 0" in report
    crew.apply()
    assert (crew.repo.path / "calc.py").read_text() == RIGHT


def test_every_paper_of_a_step_is_kept_and_agrees_with_the_journal(crew: Crew) -> None:
    done = crew.plays().story()
    names = {path.name for path in crew.papers("1/1/*")}
    assert {"design.json", "req.json", "outcome.json", "review.json", "executor.prompt.md", "res.json"} <= names
    assert [one.status for one in crew.asked("executor")] == ["ok"]
    views = done.report.parent.parent / "tasks" / done.task.id if done.report else Path()
    assert "[x]" in (views / "todo.md").read_text()
    assert "Make add add" in (views / "plan_log.md").read_text()


def test_the_evidence_names_the_command_of_each_check_of_a_step(crew: Crew) -> None:
    crew.plays().story()
    (path,) = (crew.repo.path / ".reflectloop").glob("runs/*/evidence.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [one["command"] for one in records if " in step 1: exited 0" in one["claim"]] == [[CHECK]]


def test_a_step_made_of_commands_needs_no_agent_at_all(crew: Crew) -> None:
    design = {**DESIGN, "steps": [{"title": "Mend", "commands": ["sed -i s/-/+/ calc.py"], "checks": [CHECK]}]}
    crew.plays(roles="critic")
    path = crew.repo.write("../design.json", json.dumps(design))
    planned = planning.plan(crew.place, PlanRequest(design=path), lambda _design: True, crew.said.append)
    assert planned.task_id
    done = crew.work()
    assert done.error is None
    assert not [one for one in crew.history() if isinstance(one, events.AgentAsked)]


def test_a_design_is_read_in_yaml_too_and_a_plan_stays_a_plan(tmp_path: Path) -> None:
    design = tmp_path / "design.yaml"
    design.write_text(yaml.safe_dump({**DESIGN, "risks": ["none"]}))
    proposed = plan_import.read(design)
    assert (proposed.plan.title, proposed.risks) == ("Mend add", ("none",))
    design.write_text("title: T\ngoal: g\nsteps:\n  - {title: 5, checks: x}\n")
    with pytest.raises(InvalidInput, match="is no design"):
        plan_import.read(design)
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan:\n  title: T\n  track: direct\n  steps: [{id: a, commands: ['true']}]\n")
    assert [step.id for step in plan_import.read(plan).plan.steps] == ["a"]
    plan.write_text("a: [\n")
    with pytest.raises(InvalidPlan):
        plan_import.read(plan)


def test_commands_that_the_gates_refuse_are_refused_without_an_agent(crew: Crew) -> None:
    weaken = {"title": "Mend", "commands": ["sed -i /assert/d test_calc.py"], "checks": [CHECK]}
    crew.plays(roles="critic")
    path = crew.repo.write("../design.json", json.dumps({**DESIGN, "steps": [weaken]}))
    planning.plan(crew.place, PlanRequest(design=path), lambda _design: True, crew.said.append)
    done = crew.work()
    assert done.error
    assert done.error.code in ("GATE_REJECTED", "VERIFICATION_FAILED")
    assert list(done.run.steps) == ["1"]


def test_tr_alone_does_one_step_and_leaves_the_rest(crew: Crew) -> None:
    second = {"title": "Note it", "commands": ["echo mended > NOTES"], "checks": ["test -s NOTES"]}
    crew.plays({"role": "planner", "says": "Make a plan", "answer": {**DESIGN, "steps": [*DESIGN["steps"], second]}})
    crew.plan()
    done = crew.work(every=False)
    assert [one.status for one in done.run.steps.values()] == ["done", "pending"]
    assert crew.work(every=False).outcome


def test_a_role_bound_to_nothing_falls_back_to_rules(crew: Crew) -> None:
    crew.plays(roles="executor")
    path = crew.repo.write("../design.json", json.dumps(DESIGN))
    planning.plan(crew.place, PlanRequest(design=path), lambda _design: True, crew.said.append)
    done = crew.work()
    assert done.error is None
    assert json.loads(crew.papers("1/1/review.json")[0].read_text())["by"] == ["rules"]


def test_without_a_planner_a_goal_is_refused_with_what_to_do(crew: Crew) -> None:
    crew.plays(roles="executor")
    with pytest.raises(AgentUnavailable, match="no agent is bound to the planner") as told:
        crew.plan()
    assert "tp --from" in told.value.next_step


def test_a_plan_that_nobody_agrees_to_is_not_begun_and_not_lost(crew: Crew) -> None:
    crew.plays()
    planned = planning.plan(crew.place, PlanRequest("add() adds"), lambda _design: False, crew.said.append)
    assert planned.task_id is None
    assert open_project_dirs(crew.repo.path).current_task() is None
    again = planning.plan(
        crew.place, PlanRequest(design=planned.folder / "design.json"), lambda _d: True, crew.said.append
    )
    assert again.task_id


def test_a_second_plan_does_not_overwrite_one_at_work_and_costs_nothing(crew: Crew) -> None:
    crew.plays().plan()
    before = len(crew.asked("planner"))
    with pytest.raises(InvalidInput, match="is not overwritten"):
        crew.plan("another")
    assert len(crew.asked("planner")) == before


# Two designs ------------------------------------------------------------------------------------------------------

OTHER = {**DESIGN, "title": "Repair the sum"}
MERGED = {**DESIGN, "title": "Mend the sum"}


def _two(crew: Crew, *entries: dict[str, Any]) -> Crew:
    return crew.plays(
        *entries,
        {"role": "second_planner", "says": "Make a plan", "answer": OTHER},
        {"role": "second_planner", "says": "Design one step", "answer": {"approach": "swap the operator"}},
        {"role": "planner", "says": "Two designs were made", "answer": MERGED},
        roles="planner second_planner executor reviewer",
    )


def test_neither_design_saw_the_other_and_both_are_merged(crew: Crew) -> None:
    _two(crew, {"role": "second_planner", "says": "You made a design", "answer": {"agree": True}})
    planned = crew.plan()
    assert (planned.proposed.plan.title, planned.rounds) == ("Mend the sum", 1)
    first = (planned.folder / "planner.prompt.md").read_text()
    second = (planned.folder / "second_planner.prompt.md").read_text()
    assert first == second
    assert "Repair the sum" not in first
    assert "Mend add" not in second


def test_designs_that_say_the_same_are_not_merged(crew: Crew) -> None:
    planned = _two(crew, {"role": "second_planner", "says": "Make a plan", "answer": DESIGN}).plan()
    assert planned.rounds == 0
    assert len(crew.asked("planner")) == 1


def test_planners_who_do_not_agree_in_three_rounds_leave_it_to_a_person(crew: Crew) -> None:
    no = {"agree": False, "objections": ["the test is wrong"]}
    _two(crew, {"role": "second_planner", "says": "You made a design", "answer": no})
    with pytest.raises(NeedsInput, match="after 3 rounds: the test is wrong") as told:
        crew.plan()
    chosen = Path(told.value.next_step.split("--from ")[1].split(" ")[0])
    assert planning.plan(crew.place, PlanRequest(design=chosen), lambda _d: True, crew.said.append).task_id


def test_an_objection_reaches_the_next_round(crew: Crew) -> None:
    no = {"agree": False, "objections": ["name a test"]}
    _two(
        crew,
        {"role": "second_planner", "says": "Mend better", "answer": {"agree": True}},
        {"role": "second_planner", "says": "You made a design", "answer": no},
        {"role": "planner", "says": "name a test", "answer": {**DESIGN, "title": "Mend better"}},
    )
    planned = crew.plan()
    assert (planned.rounds, planned.proposed.plan.title) == (2, "Mend better")


def test_settings_that_bind_a_role_to_nobody_known_are_refused(crew: Crew) -> None:
    crew.repo.write("reflectloop.toml", '[roles]\nplanner = "oracle"\n')
    with pytest.raises(InvalidInput) as told:
        config.load(crew.repo.path)
    assert "oracle" in str(told.value.faults[0])


def test_an_agent_that_needs_the_network_is_refused_where_none_was_promised(crew: Crew) -> None:
    settings = '[box]\nisolation = "full"\n[agents.far]\nkind = "command"\nrun = ["true"]\nnetwork = "host"\n'
    crew.plays(settings=settings)
    text = (crew.repo.path / "reflectloop.toml").read_text()
    crew.repo.write("reflectloop.toml", text.replace('reviewer = "script"', 'reviewer = "far"'))
    with pytest.raises(SandboxCreateFailed, match="agent far as reviewer"):
        crew.plan()
    crew.repo.write("reflectloop.toml", text.replace('network = "host"', 'network = "none"'))
    assert crew.plan().task_id


@pytest.fixture(autouse=True)
def _quiet_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
