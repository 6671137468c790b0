"""Reflection: the protocol's scenarios with scripted outputs: six steps, their files, at most three rounds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.diagnosis.failure_record import ErrorClass, Facts
from reflectloop.errors import InvalidInput, MaxRetries, NothingToDo, StateDamaged
from reflectloop.lessons import lesson_scopes
from reflectloop.reflection import critic as judging
from reflectloop.reflection import critic_command, output, reflect_command, reflection_report
from reflectloop.reflection import reflection as walking
from reflectloop.reflection.critic import Identity
from reflectloop.reflection.reflect_command import ReflectionOutcome, ReflectionRequest
from reflectloop.reflection.reflection import MOST_ROUNDS, ReflectionIO, RepairOutcome, RepairPlan, RepairResult
from reflectloop.reflection.reflection_report import Reflection
from reflectloop.reflection.reflection_text import TicketFacts, WorkspaceFacts
from reflectloop.reflection.remediation_table import HANDLING, handle
from reflectloop.reflection.requirements import Requirements
from reflectloop.reflection.ticket import Ticket
from reflectloop.reflection.warnings import StepToWarn, WarningLesson, match_warnings
from reflectloop.workspace.folders import Folders
from support import Repo
from tasks import opened

REPORT_FIELDS = {
    "reflection_id",
    "timestamp",
    "agent",
    "trigger",
    "rewind_ticket_id",
    "error_analysis",
    "error_classification",
    "repair_actions",
    "learning_notes",
    "anti_pattern",
}
SUBMISSION_FIELDS = {
    "reflection_report",
    "revised_output_file",
    "timestamp",
    "ready_for_re_evaluation",
    "status",
    "remaining_issues",
}
STEPS = ["1-explore.json", "2-reflect.json", "3-classify.json", "4-plan.json", "5-execute.json", "6-submit.json"]
NEEDS = "goal: Five papers on multi-agent orchestration\nmin_items: {papers: 5}\nmust_have: ['papers[].title']\n"
TARGET = "research_data/academic_researcher_output.json"


def papers(count: int) -> str:
    return json.dumps({"papers": [{"title": f"Paper {chr(65 + number)}"} for number in range(count)]})


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def ticket_for(repo: Repo, text: str, target: str = TARGET, needs: str = NEEDS, agent: str = "academic") -> str:
    repo.write(target, text)
    path = repo.path.parent / "needs.yaml"
    path.write_text(needs)
    report = critic_command.judge(
        critic_command.CriticRequest(repo.path, repo.path / target, path, f"{agent}-researcher")
    ).report
    assert report.rewind_ticket
    return report.rewind_ticket.ticket_id


def hand_in(repo: Repo, ticket: str, text: str) -> ReflectionOutcome:
    path = repo.path.parent / "revised"
    path.write_text(text)
    return reflect_command.reflect(ReflectionRequest(repo.path, ticket, revised=path))


def own(repo: Repo) -> Path:
    return repo.path / ".reflectloop"


class Worker:
    """A scripted agent: hands in one output after another, whatever the plan says."""

    def __init__(self, outputs: Iterable[str]) -> None:
        self.outputs = iter(outputs)
        self.plans: list[RepairPlan] = []

    def __call__(self, plan: RepairPlan, ticket: Ticket) -> RepairOutcome:
        assert ticket.issues
        self.plans.append(plan)
        results = tuple(RepairResult(step=step, status="completed", output="done") for step in plan.repair_steps)
        return RepairOutcome(results, next(self.outputs).encode())


# The scenarios ----------------------------------------------------------------------------------------------------


def test_an_output_with_too_few_papers_is_repaired_and_passes(repo: Repo) -> None:
    ticket = ticket_for(repo, papers(3))
    done = reflect_command.reflect(ReflectionRequest(repo.path, ticket, repair=Worker([papers(6)])))
    assert done.error is None
    report = load(own(repo) / "reflections" / f"{ticket}.json")
    assert set(report) == REPORT_FIELDS
    assert reflection_report.faults_of(report) == []
    assert report["agent"] == "academic-researcher"
    assert report["trigger"] == "critic_evaluation"
    assert report["rewind_ticket_id"] == ticket
    assert report["error_classification"]["type"] == "3.3.2"
    assert "思路/决策错误" in report["error_classification"]["description"]
    assert [one["status"] for one in report["repair_actions"]] == ["completed"]
    assert set(report["anti_pattern"]) == {"pattern_name", "symptoms", "prevention", "error_type"}
    submission = load(own(repo) / "reflections" / "submission.json")
    assert set(submission) == SUBMISSION_FIELDS
    assert submission["reflection_report"] == report
    assert submission["status"] == "ready_for_re_evaluation"
    assert submission["ready_for_re_evaluation"] is True
    assert submission["remaining_issues"] == []
    revised = repo.path / submission["revised_output_file"]
    assert revised.name == "academic_researcher_output_v2.json"
    assert revised.read_text() == papers(6)
    assert (repo.path / TARGET).read_text() == papers(3)  # the user's own file is theirs to replace
    assert done.handled.error_class == ErrorClass.ITERATION  # said afterwards, of what passed


def test_each_of_the_six_steps_writes_its_output(repo: Repo) -> None:
    ticket = ticket_for(repo, papers(3))
    reflect_command.reflect(ReflectionRequest(repo.path, ticket))
    folder = own(repo) / "reflections" / ticket
    assert sorted(path.name for path in folder.iterdir()) == [*STEPS, "handling.json"]
    explored, reflected, classified, planned, executed, submitted = (load(folder / name) for name in STEPS)
    assert explored["target_exists"] is True
    assert explored["target_bytes"] == len(papers(3))
    assert reflected["original_problem"] == "Five papers on multi-agent orchestration"
    assert reflected["gap_analysis"]["expected"] == "papers at least 5"
    assert reflected["gap_analysis"]["actual"] == "papers: 3"
    assert reflected["questions"][0].startswith("Q1: ")
    assert classified["type"] == "3.3.2"
    assert planned["repair_steps"]
    assert planned["resources_needed"][0] == f"the output: {TARGET}"
    assert planned["estimated_effort"] == "low"
    assert executed["all_completed"] is False
    assert submitted["status"] == "needs_another_iteration"
    assert submitted["remaining_issues"] == ["papers: 3, must be at least 5"]


def test_the_same_mistake_three_times_is_a_lack_of_capability(repo: Repo) -> None:
    needs = "must_have: [consensus]\n"
    listener = {"target": "posts.json", "needs": needs, "agent": "community"}
    names = [ticket_for(repo, json.dumps({"posts": [count]}), **listener) for count in range(3)]
    first, *_, last = (
        reflect_command.reflect(ReflectionRequest(repo.path, name)).rounds[-1].report for name in names[:1] + names[2:]
    )
    assert last.error_classification.type == ErrorClass.CAPABILITY
    assert last.anti_pattern
    assert last.anti_pattern.error_type == ErrorClass.CAPABILITY
    assert first.error_classification.type == ErrorClass.CAPABILITY  # by then all three lay there
    other = ticket_for(repo, "{}", target="other.json", needs=needs, agent="another")
    assert (
        reflect_command.reflect(ReflectionRequest(repo.path, other)).rounds[-1].report.error_classification.type
        == "3.3.2"
    )
    done = reflect_command.reflect(ReflectionRequest(repo.path, names[2]))
    assert [name for name, _ in done.handled.measures] == [
        "record_antipattern",
        "ask_stronger_backend",
        "human_checkpoint",
    ]


def test_an_output_that_says_it_does_not_know_lacks_knowledge(repo: Repo) -> None:
    for said in ("I don't know where to look.", "搜索结果为空"):
        ticket = ticket_for(repo, f"# Papers\n\n{said}\n", target="out.md", needs="min_items: {Papers: 5}\n")
        done = reflect_command.reflect(ReflectionRequest(repo.path, ticket))
        assert done.rounds[-1].report.error_classification.type == ErrorClass.KNOWLEDGE
        assert done.rounds[-1].report.anti_pattern is None


def test_a_complete_output_of_low_quality_is_a_normal_iteration(repo: Repo) -> None:
    needs = "min_items: 1\nmin_quality: 0.99\n"
    ticket = ticket_for(repo, "- one\n\nTODO\n", target="out.md", needs=needs)
    done = reflect_command.reflect(ReflectionRequest(repo.path, ticket, repair=Worker(["- one\n"])))
    assert done.rounds[0].report.error_classification.type == ErrorClass.ITERATION
    assert done.rounds[0].report.repair_actions
    assert done.error is None


def test_a_bad_query_is_repaired_by_a_command_in_the_sandbox(repo: Repo) -> None:
    needs = "must_have: [query]\nchecks: {syntax: {run: \"! grep -q 'agent,' query.json\"}}\n"
    ticket = ticket_for(repo, '{"query": "multi-agent, agent coordination"}', target="query.json", needs=needs)
    before = repo.state()
    done = reflect_command.reflect(
        ReflectionRequest(repo.path, ticket, fixes=("sed -i 's/, / OR /' query.json; touch stray",))
    )
    assert done.error is None, done.error
    name = done.rounds[-1].submission.revised_output_file
    assert name
    assert load(repo.path / name) == {"query": "multi-agent OR agent coordination"}
    assert repo.state() == before


def test_a_fix_that_fails_leaves_the_output_to_be_revised(repo: Repo) -> None:
    ticket = ticket_for(repo, papers(3))
    done = reflect_command.reflect(ReflectionRequest(repo.path, ticket, fixes=("echo no luck; exit 3", "true")))
    assert [(one.action, one.status) for one in done.rounds[-1].report.repair_actions] == [
        ("echo no luck; exit 3", "failed")
    ]
    assert done.rounds[-1].submission.status == "needs_another_iteration"
    assert done.rounds[-1].submission.revised_output_file is None


# Rounds -----------------------------------------------------------------------------------------------------------


def test_there_are_at_most_three_rounds_each_with_its_files(repo: Repo) -> None:
    ticket = ticket_for(repo, papers(1))
    worker = Worker([papers(2), papers(3), papers(4), papers(5)])
    done = reflect_command.reflect(ReflectionRequest(repo.path, ticket, repair=worker))
    assert isinstance(done.error, MaxRetries)
    assert len(worker.plans) == MOST_ROUNDS
    folder = own(repo) / "reflections"
    reports = [load(folder / f"{ticket}{mark}.json") for mark in ("", ".r2", ".r3")]
    assert len({one["reflection_id"] for one in reports}) == 3
    assert [one["error_classification"]["type"] for one in reports] == ["3.3.2", "3.3.2", "3.3.1"]
    outputs = own(repo) / "outputs" / "research_data"
    kept = sorted(path.name for path in outputs.iterdir())
    assert kept == [f"academic_researcher_output_v{number}.json" for number in (2, 3, 4)]
    assert (outputs / kept[0]).read_text() == papers(2)
    with pytest.raises(MaxRetries):
        hand_in(repo, ticket, papers(5))


def test_reflecting_again_without_a_repair_writes_nothing(repo: Repo) -> None:
    ticket = ticket_for(repo, papers(1))
    first = reflect_command.reflect(ReflectionRequest(repo.path, ticket))
    before = sorted(own(repo).rglob("*"))
    again = reflect_command.reflect(ReflectionRequest(repo.path, ticket))
    assert sorted(own(repo).rglob("*")) == before
    assert again.rounds[-1].report == first.rounds[-1].report
    for count in (2, 3):
        assert hand_in(repo, ticket, papers(count)).error
    done = hand_in(repo, ticket, papers(5))
    assert done.error is None
    assert reflect_command.reflect(ReflectionRequest(repo.path, ticket)).error is None
    with pytest.raises(NothingToDo, match="pass already"):
        hand_in(repo, ticket, papers(7))


def test_a_repair_step_is_completed_when_its_issue_is_gone(repo: Repo) -> None:
    ticket = ticket_for(repo, papers(1), needs=NEEDS + "must_not_have: [Paper A]\n")
    done = hand_in(repo, ticket, papers(2).replace("Paper A", "Paper Z"))
    statuses = {one.action.split()[0]: one.status for one in done.rounds[-1].report.repair_actions}
    assert statuses == {"add": "failed", "take": "completed"}
    with pytest.raises(InvalidInput, match="judged before"):
        hand_in(repo, ticket, papers(2).replace("Paper A", "Paper Z"))


def test_a_rejected_output_is_not_repaired_but_left_to_a_person(repo: Repo) -> None:
    ticket = ticket_for(repo, papers(5), needs=NEEDS + "about: [chemistry]\n")
    worker = Worker([papers(6)])
    done = reflect_command.reflect(ReflectionRequest(repo.path, ticket, repair=worker))
    assert worker.plans == []
    assert done.error
    assert (done.error.exit_code, "ASK" in done.error.message) == (33, True)
    assert reflection_report.faults_of(done.rounds[0].report.model_dump(mode="json")) == []
    unattended = reflect_command.reflect(ReflectionRequest(repo.path, ticket, unattended=True))
    assert unattended.error
    assert "REPLAN" in unattended.error.message


# Runs and people --------------------------------------------------------------------------------------------------


def test_a_failed_run_is_reflected_on_from_its_blocker(chain: Repo) -> None:
    run_id = chain.run("run", chain.path.parent / "plan.yaml", "--json").envelope["run_id"]
    done = reflect_command.reflect(ReflectionRequest(chain.path, run_id))
    report = done.rounds[-1].report
    assert report.trigger == "step_failure"
    assert reflection_report.faults_of(report.model_dump(mode="json")) == []
    assert done.ticket.target == run_id
    assert done.ticket.target_step == "b"
    assert any("exit 3" in text for text in report.error_analysis.occurrence_process)
    task = own(chain) / "tasks" / (own(chain) / "current").read_text().strip()
    assert (task / "reflections" / f"{done.ticket.ticket_id}.json").is_file()
    explored = load(task / "reflections" / done.ticket.ticket_id / "1-explore.json")
    assert [one.split()[0] for one in explored["checkpoints"]] == ["a"]
    assert any(name.endswith("blocker.yaml") for name in explored["artifacts"])
    assert reflect_command.reflect(ReflectionRequest(chain.path, "latest")).ticket == done.ticket
    with pytest.raises(InvalidInput, match="not about an output"):
        hand_in(chain, done.ticket.ticket_id, "x")
    redone = chain.run("redo", "b", "--reason", "the wrong file was changed", "--json")
    ticket = redone.json["data"]["ticket"]
    asked = reflect_command.reflect(ReflectionRequest(chain.path, ticket))
    assert asked.rounds[-1].report.trigger == "director_request"
    assert asked.ticket.target_step == "b"
    assert asked.rounds[-1].report.anti_pattern
    assert asked.rounds[-1].report.anti_pattern.pattern_name == "went astray: b"
    assert asked.ticket.issues[0].description.endswith("the wrong file was changed")


def test_a_run_that_passed_cannot_be_reflected_on(repo: Repo) -> None:
    assert repo.run("run", repo.steps("true")).code == 0
    with pytest.raises(NothingToDo, match="did not fail"):
        reflect_command.reflect(ReflectionRequest(repo.path, "latest"))


# Published, damaged, contradicted ---------------------------------------------------------------------------------


def test_the_protocols_paths_are_written_if_configured(repo: Repo) -> None:
    repo.write("reflectloop.toml", "[publish]\nresearch = true\n")
    ticket = ticket_for(repo, papers(3))
    done = reflect_command.reflect(ReflectionRequest(repo.path, ticket, repair=Worker([papers(5)])))
    data = repo.path / "research_data"
    assert load(data / f"reflection_{ticket}.json") == done.rounds[0].report.model_dump(mode="json")
    assert (data / "academic_researcher_output_v2.json").read_text() == papers(5)
    (page,) = (repo.path / "knowledge" / "anti_patterns").iterdir()
    assert page.name == "handed-in-short-papers.md"
    assert "3.3.2" in page.read_text()
    failed = repo.run("call", "--", "false")
    assert failed.code == 30
    (told,) = (repo.path / "knowledge" / "reflections").iterdir()
    assert load(told)["reflection_type"] == "tool_failure"


def test_nothing_is_published_through_a_link(repo: Repo, tmp_path: Path) -> None:
    repo.write("reflectloop.toml", "[publish]\nresearch = true\n")
    (tmp_path / "elsewhere").mkdir()
    (repo.path / "knowledge").symlink_to(tmp_path / "elsewhere")
    ticket = ticket_for(repo, papers(3))
    done = reflect_command.reflect(ReflectionRequest(repo.path, ticket))
    assert done.warnings == ("nothing was published: knowledge is a link",)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_missing_or_damaged_ticket_is_an_error(repo: Repo) -> None:
    for name in ("rewind_20260101_000000_aaaaaa", "../../nowhere/passwd", "*"):
        with pytest.raises(NothingToDo, match="there is no"):
            reflect_command.reflect(ReflectionRequest(repo.path, name))
    ticket = ticket_for(repo, papers(3))
    path = own(repo) / "tickets" / f"{ticket}.json"
    path.write_text(path.read_text().replace('"REVISE"', '"MAYBE"'))
    with pytest.raises(StateDamaged, match="1 fault"):
        reflect_command.reflect(ReflectionRequest(repo.path, ticket))


def test_missing_requirements_are_named(repo: Repo) -> None:
    ticket = ticket_for(repo, papers(3))
    (repo.path.parent / "needs.yaml").unlink()
    with pytest.raises(InvalidInput, match=r"needs\.yaml"):
        hand_in(repo, ticket, papers(5))


def test_a_revised_output_with_a_secret_is_not_written(repo: Repo) -> None:
    token = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
    ticket = ticket_for(repo, papers(3))
    with pytest.raises(InvalidInput, match="looks like a secret"):
        hand_in(repo, ticket, papers(5).replace("Paper A", token))
    kept = list(own(repo).rglob("*.json"))
    assert kept
    assert all(token not in path.read_text() for path in kept)


def good(**changed: Any) -> dict[str, Any]:
    said = {
        "reflection_id": "ref_001",
        "timestamp": datetime(2026, 1, 1, tzinfo=UTC).isoformat(),
        "agent": "academic-researcher",
        "trigger": "critic_evaluation",
        "rewind_ticket_id": "rewind_001",
        "error_analysis": {
            "surface_issue": "仅收集了 3 篇论文",
            "occurrence_process": ["1. 搜索词过于狭窄", "2. 在收集到 3 篇后过早停止"],
            "root_cause": "搜索策略过于保守",
        },
        "error_classification": {
            "type": "3.3.2",
            "description": "决策错误：过早停止搜索",
            "remediation": "强调必须满足最小要求",
        },
        "repair_actions": [{"action": "扩展搜索词", "status": "pending", "expected_outcome": "获取更多候选论文"}],
        "learning_notes": "应在搜索开始时设置明确的数量目标",
    }
    return {**said, **changed}


def test_the_protocols_own_report_passes_the_checklist() -> None:
    assert reflection_report.faults_of(good()) == []


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"reflection_id": " "}, "reflection_id"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"agent": ""}, "agent"),
        ({"trigger": "boredom"}, "trigger"),
        ({"rewind_ticket_id": None}, "rewind_ticket_id"),
        ({"error_analysis": {"surface_issue": "x", "occurrence_process": [], "root_cause": "TODO"}}, "error_analysis"),
        (
            {"error_classification": {"type": "3.3.9", "description": "something", "remediation": "something"}},
            "error_classification.type",
        ),
        ({"repair_actions": []}, "repair_actions"),
        ({"repair_actions": [{"action": "n/a", "status": "pending", "expected_outcome": "n/a"}]}, "repair_actions"),
        ({"learning_notes": "none"}, "learning_notes"),
        (
            {"anti_pattern": {"pattern_name": "", "symptoms": [], "prevention": "", "error_type": "3.3.2"}},
            "anti_pattern",
        ),
        ({"more": 1}, "more"),
    ],
)
def test_the_checklist_names_the_faults_of_a_report(changed: dict[str, Any], field: str) -> None:
    assert any(fault.startswith(field) for fault in reflection_report.faults_of(good(**changed)))


def test_an_anti_pattern_becomes_a_lesson_counted_by_tickets(repo: Repo) -> None:
    for count in (1, 2):
        ticket = ticket_for(repo, papers(count))
        done = reflect_command.reflect(ReflectionRequest(repo.path, ticket, repair=Worker([papers(3), papers(5)])))
        assert done.warnings == ()
    (lesson,) = lesson_scopes.open_scopes(repo.path, "project").read().lessons
    assert (lesson.kind, lesson.title, lesson.count) == ("antipattern", "handed in short: papers", 2)
    assert lesson.source.ticket
    warnings = match_warnings(
        StepToWarn("P-1", "collect papers, handed in at once"), [WarningLesson("antipattern", lesson.title)]
    )
    assert [one.lesson for one in warnings] == [lesson.title]


def test_an_agents_report_is_used_only_if_it_agrees_with_the_facts(repo: Repo) -> None:
    def says(**changed: Any) -> Any:
        def written(facts: Reflection) -> object:
            data = facts.model_dump(mode="json")
            data["error_analysis"]["root_cause"] = "the search was ended at the first page of results"
            return {**data, **changed}

        return written

    ticket = ticket_for(repo, papers(1))
    done = reflect_command.reflect(ReflectionRequest(repo.path, ticket, analyse=says()))
    assert "first page" in done.rounds[0].report.error_analysis.root_cause
    for changed, said in (
        (
            {"error_classification": {"type": "3.3.5", "description": "all is well", "remediation": "nothing to do"}},
            "type",
        ),
        (
            {"repair_actions": [{"action": "made it good", "status": "completed", "expected_outcome": "it is good"}]},
            "completed",
        ),
        ({"learning_notes": ""}, "learning_notes"),
    ):
        other = ticket_for(repo, papers(2), target=f"{said}.json")
        refused = reflect_command.reflect(ReflectionRequest(repo.path, other, analyse=says(**changed))).rounds[0]
        assert said in refused.notes[0]
        assert "first page" not in refused.report.error_analysis.root_cause


def test_every_error_class_has_measures_with_a_subject() -> None:
    assert set(HANDLING) == set(ErrorClass)
    for kind in ErrorClass:
        done = handle(kind, what="too few papers", checkpoint="papers at least 5", pattern="stops early", step="P-2")
        assert done.measures
        assert all(about for _, about in done.measures)
    amended = handle(ErrorClass.DECISION, what="w", checkpoint="papers at least 5")
    assert dict(amended.measures)["add_checkpoint"].endswith("papers at least 5")


def test_reflections_of_a_task_lie_in_its_folder(chain: Repo) -> None:
    outside = ticket_for(chain, papers(1))
    chain.run("run", chain.path.parent / "plan.yaml")
    inside = ticket_for(chain, papers(1), target="b.json")
    task = Folders(chain.path).current_task()
    assert (own(chain) / "tickets" / f"{outside}.json").is_file()
    assert (own(chain) / "tasks" / str(task) / "tickets" / f"{inside}.json").is_file()


def test_the_output_of_an_interrupted_run_is_a_pipeline_error(chain: Repo) -> None:
    Folders(chain.path).ensure_owned()
    book = opened(own(chain) / "tasks" / "T-20260101-aaaaaa", "a", "b")
    book.close()
    Folders(chain.path).set_current_task("T-20260101-aaaaaa")
    ticket = ticket_for(chain, papers(1))
    done = reflect_command.reflect(ReflectionRequest(chain.path, ticket))
    assert done.rounds[-1].report.error_classification.type == ErrorClass.PIPELINE
    assert "resume" in dict(done.handled.measures)


def test_a_damaged_ticket_does_not_block_another(repo: Repo) -> None:
    damaged, whole = ticket_for(repo, papers(1)), ticket_for(repo, papers(1), target="b.json")
    (own(repo) / "tickets" / f"{damaged}.context.json").write_text("{")
    assert reflect_command.reflect(ReflectionRequest(repo.path, whole)).rounds


def test_no_fix_runs_on_an_output_outside_the_project(repo: Repo) -> None:
    ticket = ticket_for(repo, papers(1), target="../outside.json")
    with pytest.raises(InvalidInput, match="lies outside"):
        reflect_command.reflect(ReflectionRequest(repo.path, ticket, fixes=("true",)))
    assert not (own(repo) / "latch.json").exists()
    done = hand_in(repo, ticket, papers(5))
    assert done.rounds[-1].submission.revised_output_file == ".reflectloop/outputs/outside_v2.json"


def test_a_known_fix_comes_first_in_the_plan_of_a_failed_run(chain: Repo) -> None:
    chain.run("run", chain.path.parent / "plan.yaml")
    card = own(chain) / "runs" / (own(chain) / "latest").read_text().strip() / "blocker.yaml"
    fixes = "known_fixes:\n- commands: [make clean, make]\n- fix: look twice\n"
    card.write_text(card.read_text().replace("known_fixes: []\n", fixes))
    (signature,) = re.findall(r"signature: '?(\d+)", card.read_text())
    fields = {"kind": "failfix", "title": "b exits 3", "signature": signature, "commands": ["touch b"]}
    lesson_scopes.add_lesson(lesson_scopes.open_scopes(chain.path), fields)
    done = reflect_command.reflect(ReflectionRequest(chain.path, "latest"))
    assert done.ticket.repair_plan[:3] == ("make clean; make", "look twice", "touch b")
    assert done.rounds[-1].report.repair_actions[0].action == "make clean; make"


@given(
    st.text(max_size=80),
    st.sampled_from(["a.json", "a.md", "a.py"]),
    st.text(min_size=1, max_size=8),
    st.integers(1, 4),
)
def test_a_report_made_by_rules_always_passes_the_checklist(text: str, name: str, part: str, times: int) -> None:
    asked = Requirements.model_validate({"must_have": [part], "min_items": 2, "min_quality": 1.0})
    seen = output.read(name, text.encode("utf-8", "surrogatepass"))
    report = judging.evaluate(seen, asked, (), Identity("e", "rewind_1", "2026-01-01T00:00:00Z"))
    if report.rewind_ticket is None:
        return
    ticket, facts = report.rewind_ticket, Facts(times_seen=times, did_not_know=seen.did_not_know)
    case = TicketFacts(
        ticket, "critic_evaluation", "executor", facts, WorkspaceFacts(ticket_id="t", target=name), evaluation=report
    )
    kept: dict[str, Any] = {}
    hands = ReflectionIO(
        keep=lambda _, step, value: kept.update({step: value}),
        now=lambda: "2026-01-01T00:00:00Z",
        new_id=lambda: "ref_1",
        explore=lambda _: case.seen,
    )
    ended = walking.walk(case, hands)
    assert list(kept) == list(walking.STEPS)
    assert ended.rounds[0].notes == ()
    assert reflection_report.faults_of(ended.rounds[0].report.model_dump(mode="json")) == []


def test_a_run_imports_no_reflection_modules() -> None:
    heavy = [
        "reflectloop.reflection.critic",
        "reflectloop.reflection.ticket_store",
        "reflectloop.reflection.check_sandbox",
    ]
    code = (
        f"import reflectloop.engine.pipeline, sys; sys.exit(str([one for one in {heavy} if one in sys.modules] or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
