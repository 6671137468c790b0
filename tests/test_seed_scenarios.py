"""The reflection protocol's six scenarios end to end: scripted agents and tools, real files at the protocol's paths."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reflectloop.commands import call
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.diagnosis.safe_call import Params, RetryIO, RetryOptions, ToolError, ToolFailure, ToolSuccess
from reflectloop.errors import InvalidInput
from reflectloop.lessons import lesson_scopes
from reflectloop.lessons.lesson import KINDS, Lesson
from reflectloop.lessons.lesson_store import LIVING
from reflectloop.reflection import critic_command, reflect_command, reflection_report
from reflectloop.reflection.reflect_command import ReflectionOutcome, ReflectionRequest
from reflectloop.reflection.reflection import RepairOutcome, RepairPlan, RepairResult
from reflectloop.reflection.ticket import Ticket
from support import Repo

NEEDS = "goal: Five papers\nmin_items: {papers: 5}\nmust_have: ['papers[].title']\n"
CONSENSUS = "goal: What the posts agree on\nmust_have: [consensus]\nmin_items: {posts: 2}\n"
PAPERS = "research_data/academic_researcher_output.json"
POSTS = "research_data/community_researcher_output.json"
ARXIV, READ, WEB = (
    "mcp__arxiv-mcp-server__search_papers",
    "mcp__zread__read_file",
    "mcp__web-reader__webReader",
)
REPORT = {
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
FAILURE = {
    "reflection_type",
    "timestamp",
    "failed_tool",
    "failed_params",
    "error_message",
    "error_type",
    "diagnosis",
    "corrective_action",
}
NOW = datetime(2026, 2, 21, 10, 45, tzinfo=UTC)


@pytest.fixture
def lab(repo: Repo) -> Repo:
    repo.write("reflectloop.toml", "[publish]\nresearch = true\n")
    return repo


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def papers(count: int) -> str:
    return json.dumps({"papers": [{"title": f"Paper {chr(65 + number)}"} for number in range(count)]})


def judged(lab: Repo, target: str, text: str, needs: str, agent: str) -> str:
    """The critic's ticket for an output."""
    lab.write(target, text)
    path = lab.path.parent / "needs.yaml"
    path.write_text(needs)
    ticket = critic_command.judge(
        critic_command.CriticRequest(lab.path, lab.path / target, path, agent)
    ).report.rewind_ticket
    assert ticket
    return ticket.ticket_id


def known(lab: Repo) -> list[Lesson]:
    return list(lesson_scopes.list_lessons(lesson_scopes.open_scopes(lab.path), KINDS, LIVING).lessons)


def agent(*outputs: str) -> Any:
    """A scripted one: hands in one output after another, whatever the plan says."""
    waiting = iter(outputs)

    def repair(plan: RepairPlan, _: Ticket) -> RepairOutcome:
        steps = tuple(RepairResult(step=step, status="completed") for step in plan.repair_steps)
        return RepairOutcome(steps, next(waiting).encode())

    return repair


def traces(done: ReflectionOutcome) -> dict[str, tuple[str, str]]:
    return {one.measure: (one.state, one.trace) for one in done.acted}


# An output that falls short ---------------------------------------------------------------------------------------


def test_too_few_papers_are_a_wrong_decision_and_are_repaired(lab: Repo) -> None:
    ticket = judged(lab, PAPERS, papers(3), NEEDS, "academic-researcher")
    first = reflect_command.reflect(ReflectionRequest(lab.path, ticket))
    report = load(lab.path / "research_data" / f"reflection_{ticket}.json")
    assert set(report) == REPORT
    assert reflection_report.faults_of(report) == []
    assert report["error_classification"]["type"] == "3.3.2"
    assert "papers" in report["error_analysis"]["surface_issue"]
    assert len(report["error_analysis"]["occurrence_process"]) >= 3
    done = traces(first)
    assert {name: state for name, (state, _) in done.items()} == {
        "amend_contract": "done",
        "add_checkpoint": "done",
        "do_again": "open",
        "verify_repair": "open",
    }
    amended = next(one for one in known(lab) if one.id == done["amend_contract"][1])
    assert (amended.kind, amended.status) == ("constraint", "active")
    assert amended.title.startswith("minimum requirement: ")
    (checkpoint,) = (lab.path / done["add_checkpoint"][1]).read_text().splitlines()
    assert (json.loads(checkpoint)["ticket_id"], json.loads(checkpoint)["target"]) == (ticket, PAPERS)
    mended = reflect_command.reflect(ReflectionRequest(lab.path, ticket, repair=agent(papers(6))))
    assert mended.error is None
    assert (lab.path / "research_data" / "academic_researcher_output_v2.json").read_text() == papers(6)
    (page,) = (lab.path / "knowledge" / "anti_patterns").iterdir()
    assert all(part in page.read_text() for part in ("3.3.2", "## Symptoms", "## Prevention"))
    state, where = traces(mended)["record_attempt"]
    attempt = json.loads((lab.path / where).read_text())
    assert (state, attempt["first_class"], attempt["ticket_id"]) == ("done", "3.3.2", ticket)


def test_the_critic_names_the_checkpoints_that_reflections_left(lab: Repo) -> None:
    reflect_command.reflect(ReflectionRequest(lab.path, judged(lab, PAPERS, papers(3), NEEDS, "academic-researcher")))
    lab.write(PAPERS, papers(6))
    again = lab.run("critic", PAPERS, "--requirements", lab.path.parent / "needs.yaml")
    assert again.code == 0
    assert "checkpoint: before the end, check that this holds: papers" in again.stdout


def test_a_mistake_made_three_times_is_a_lack_of_capability(lab: Repo) -> None:
    posts = json.dumps({"posts": ["a", "b"], "consensus": ""})
    kinds, last = [], None
    for _ in range(3):
        ticket = judged(lab, POSTS, posts, CONSENSUS, "community-listener")
        last = reflect_command.reflect(ReflectionRequest(lab.path, ticket))
        kinds.append(load(lab.path / "research_data" / f"reflection_{ticket}.json")["error_classification"]["type"])
    assert kinds == ["3.3.2", "3.3.2", "3.3.1"]
    assert last
    done = traces(last)
    assert {name: state for name, (state, _) in done.items()} == {
        "record_antipattern": "done",
        "ask_stronger_backend": "open",
        "human_checkpoint": "done",
    }
    pattern = next(one for one in known(lab) if one.id == done["record_antipattern"][1])
    assert (pattern.kind, pattern.count) == ("antipattern", 3)
    question = json.loads((lab.path / done["ask_stronger_backend"][1]).read_text())
    assert (question["answer"], "stronger backend" in question["about"]) == (None, True)
    page = next((lab.path / "knowledge" / "anti_patterns").iterdir()).read_text()
    assert "3.3.1 model capability insufficient (模型能力不足)" in page


def test_an_answer_is_stored_and_used_the_next_time(lab: Repo) -> None:
    text = json.dumps({"papers": [], "note": "I don't know which index lists them"})
    ticket = judged(lab, PAPERS, text, NEEDS, "academic-researcher")
    asked = reflect_command.reflect(ReflectionRequest(lab.path, ticket))
    assert asked.rounds[0].report.error_classification.type == "3.3.4"
    assert traces(asked)["store_answer"] == ("open", f"reflectloop reflect {ticket} --answer TEXT")
    answered = lab.run("reflect", ticket, "--answer", "search the index of the library", "--json")
    measures = {one["measure"]: one for one in answered.json["data"]["handling"]["measures"]}
    assert (measures["ask_research"]["state"], measures["store_answer"]["state"]) == ("done", "done")
    assert next(one for one in known(lab) if one.id == measures["store_answer"]["trace"]).fix.startswith("search")
    again = reflect_command.reflect(
        ReflectionRequest(lab.path, judged(lab, PAPERS, text, NEEDS, "academic-researcher"))
    )
    assert again.rounds[0].report.repair_actions[0].action == "search the index of the library"
    with pytest.raises(InvalidInput, match="looks like a secret"):
        reflect_command.reflect(
            ReflectionRequest(lab.path, ticket, answer="use ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
        )


# A tool that fails ------------------------------------------------------------------------------------------------


class Time:
    def __init__(self) -> None:
        self.waited: list[float] = []

    @property
    def io(self) -> RetryIO:
        return RetryIO(lambda: NOW, lambda: sum(self.waited), self.waited.append, lambda: 1.0)


def scripted(failures: Iterable[str], calls: list[tuple[str, dict[str, Any]]]) -> Any:
    waiting = list(failures)

    def invoke(tool: str, params: Mapping[str, Any]) -> str:
        calls.append((tool, dict(params)))
        if waiting:
            raise ToolError(waiting.pop(0))
        return "found"

    return invoke


def records(lab: Repo) -> list[dict[str, Any]]:
    """What lies at the protocol's path; the same as in our own folder."""
    published = sorted((lab.path / "knowledge" / "reflections").iterdir())
    own = sorted((lab.path / ".reflectloop" / "reflections").glob("tool_failure-*.json"))
    assert [path.name for path in published] == [path.name for path in own]
    assert [path.read_bytes() for path in published] == [path.read_bytes() for path in own]
    found = [load(path) for path in published]
    assert all(set(one) >= FAILURE for one in found)
    assert all(one["reflection_type"] == "tool_failure" for one in found)
    assert all(set(one["diagnosis"]) == {"error_type", "root_cause", "severity"} for one in found)
    return found


def test_a_search_that_times_out_is_simplified_and_asked_again(lab: Repo) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    asked = {"query": "multi-agent orchestration of tools", "categories": ["cs.AI"]}
    time = Time()
    done = call.call_tool(lab.path, ARXIV, asked, invoke=scripted(["Timeout after 30s"], calls), io=time.io)
    assert isinstance(done.outcome, ToolSuccess)
    assert time.waited == [5.0]
    assert calls[1][1] == {"query": "multi-agent orchestration", "categories": ["cs.AI"], "max_results": 5}
    (told,) = records(lab)
    assert (told["failed_tool"], told["failed_params"], told["error_message"]) == (ARXIV, asked, "Timeout after 30s")
    assert (told["error_type"], told["diagnosis"]["error_type"]) == ("external_service_exception", "外部服务异常")
    assert told["error_class"] == "3.3.3"  # broken off from outside
    assert call.as_data(done)["class"] == "3.3.5"  # afterwards, of what passed
    (pair,) = [one for one in known(lab) if one.kind == "failfix"]
    assert (pair.worked, pair.failed, ARXIV in pair.keywords) == (1, 0, True)
    assert "3.3.5 normal iteration (正常迭代尝试)" in pair.body


def test_a_rate_limit_is_waited_for_and_the_alternative_named(lab: Repo) -> None:
    time = Time()
    invoke = scripted(["Rate limit exceeded"] * 2, [])
    done = call.call_tool(lab.path, READ, {"path": "a"}, invoke=invoke, idempotent=True, io=time.io)
    assert done.outcome.ok
    assert time.waited == [60.0, 120.0]
    first, second = records(lab)  # within one second, and none lost
    assert first["corrective_action"]["retry_delay_seconds"] in (60.0, 120.0)
    assert {first["error_type"], second["error_type"]} == {"external_service_exception"}
    assert "search_doc" in first["corrective_action"]["alternative"]


def test_a_forbidden_page_is_skipped_and_recorded(lab: Repo) -> None:
    def invoke(_: str, params: Params) -> str:
        if params["url"] == "https://example.com/b":
            raise ToolError("403 Forbidden")
        return "text"

    sources = [f"https://example.com/{name}" for name in "abc"]
    done = [call.call_tool(lab.path, WEB, {"url": url}, invoke=invoke, idempotent=True) for url in sources]
    assert [one.outcome.ok for one in done] == [True, False, True]
    failed = done[1].outcome
    assert isinstance(failed, ToolFailure)
    assert (failed.attempts, failed.failure.category, failed.failure.needs) == (1, "PERMISSION", "ASK")
    (told,) = records(lab)
    assert (told["failed_params"], told["error_class"]) == ({"url": "https://example.com/b"}, "3.3.4")
    assert told["diagnosis"]["error_type"] == "权限不足"
    assert "跳过该 URL" in told["corrective_action"]["action"]
    assert "记录 URL 为不可访问" in told["corrective_action"]["alternative"]
    assert told["corrective_action"]["retry_delay_seconds"] is None


def test_a_bad_query_is_corrected_and_asked_again(lab: Repo) -> None:
    def correct(params: Params, failure: FailureRecord) -> Params:
        assert failure.category == "DATA"
        return {**params, "query": "multi-agent OR agent coordination"}

    calls: list[tuple[str, dict[str, Any]]] = []
    bad = {"query": "multi-agent | | agent", "categories": ["cs.AI"]}
    invoke = scripted(["Invalid query syntax"], calls)
    done = call.call_tool(lab.path, ARXIV, bad, invoke=invoke, options=RetryOptions(correct=correct), io=Time().io)
    assert done.outcome.ok
    assert calls[1][1]["query"] == "multi-agent OR agent coordination"
    (told,) = records(lab)
    assert (told["error_type"], told["diagnosis"]["error_type"]) == ("parameter_error", "参数错误")
    assert (told["error_class"], told["failed_params"]) == ("3.3.2", bad)
    assert told["corrective_action"]["modified_params"]["query"] == "multi-agent OR agent coordination"
