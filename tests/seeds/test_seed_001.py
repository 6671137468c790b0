"""The reflection protocol as its document says it, named by line."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import seed_samples as samples
import yaml

from reflectloop.commands.call import call_tool
from reflectloop.diagnosis import safe_call
from reflectloop.diagnosis.retrying import delay_of
from reflectloop.diagnosis.rulefile import shipped
from reflectloop.diagnosis.safe_call import RetryIO, ToolError, ToolSuccess
from reflectloop.reflection import reflection_report
from support import Repo

_SEARCH = "mcp__arxiv-mcp-server__search_papers"


def test_line_39_a_command_that_a_signal_ends_is_an_interrupted_pipeline(repo: Repo) -> None:
    assert repo.run("run", repo.steps("kill -9 $$")).code == 30
    told: dict[str, Any] = yaml.safe_load((repo.latest() / "blocker.yaml").read_text())
    assert told["failure"]["class"] == "3.3.3"


def test_line_59_the_sample_report_passes_the_checklist_and_is_taken(repo: Repo) -> None:
    sample = samples.data("001-line-59-report.json")
    assert reflection_report.faults_of(sample) == []
    path = repo.plan(samples.text("001-line-59-report.json"), "report.json")
    done = repo.run("reflect", path, "--json")
    assert done.code == 0, done.stderr
    [kept] = (repo.path / ".reflectloop").rglob("reflections/rewind_20250220_143022.json")
    told = json.loads(kept.read_text())
    assert told["error_analysis"] == sample["error_analysis"]
    assert told["anti_pattern"]["error_type"] == "3.3.2"
    assert "仅收集了 3 篇论文" in kept.read_text()
    assert any(
        lesson["title"] == "过早停止搜索" for lesson in repo.run("lessons", "list", "--json").json["data"]["lessons"]
    )


def test_line_59_every_field_that_is_missing_is_named_at_once(repo: Repo) -> None:
    sample = samples.data("001-line-59-report.json")
    del sample["reflection_id"], sample["learning_notes"], sample["error_analysis"]["root_cause"]
    done = repo.run("reflect", repo.plan(json.dumps(sample), "report.json"), "--json")
    assert done.code == 12
    text = json.dumps(done.json)
    assert all(name in text for name in ("reflection_id", "learning_notes", "error_analysis.root_cause"))


def test_line_723_the_scenarios_short_report_is_completed_as_a_self_check(repo: Repo) -> None:
    done = repo.run("reflect", repo.plan(samples.text("001-line-723-report.json"), "r.json"), "--json")
    assert done.code == 0, done.stderr
    assert done.json["data"]["trigger"] == "self_check"


def test_line_703_the_scenarios_ticket_is_taken_and_reflected_on(repo: Repo) -> None:
    path = repo.plan(samples.text("001-line-708-ticket.json"), "rewind_001.json")
    done = repo.run("reflect", path, "--json")
    assert done.code == 32, done.stderr
    told = done.json["data"]
    assert told["ticket"]["ticket_id"] == "rewind_001"
    assert told["rounds"][0]["reflection"]["error_analysis"]["surface_issue"]
    again = repo.run("reflect", "rewind_001", "--json").json["data"]
    assert again["ticket"] == told["ticket"]


def test_line_703_a_ticket_of_the_wrong_shape_is_refused_with_every_fault(repo: Repo) -> None:
    ticket = samples.data("001-line-708-ticket.json")
    ticket["verdict"], ticket["issues"][0]["severity"] = "MAYBE", "huge"
    done = repo.run("reflect", repo.plan(json.dumps(ticket), "t.json"), "--json")
    assert done.code == 12
    assert "verdict" in json.dumps(done.json)
    assert "issues.0.severity" in json.dumps(done.json)


def test_line_703_a_ticket_that_names_a_file_which_is_gone_says_so(repo: Repo) -> None:
    ticket = {**samples.data("001-line-708-ticket.json"), "target": "research_data/gone.json"}
    repo.run("reflect", repo.plan(json.dumps(ticket), "t.json"))
    [seen] = (repo.path / ".reflectloop").rglob("reflections/rewind_001/1-explore.json")
    assert json.loads(seen.read_text())["target_exists"] is False


def test_line_110_exploring_lists_the_folder_of_the_output(repo: Repo) -> None:
    repo.write("research_data/out.json", "{}")
    repo.write("research_data/other.json", "{}")
    ticket = {**samples.data("001-line-708-ticket.json"), "target": "research_data/out.json"}
    repo.run("reflect", repo.plan(json.dumps(ticket), "t.json"))
    [seen] = (repo.path / ".reflectloop").rglob("reflections/rewind_001/1-explore.json")
    assert {"research_data/out.json", "research_data/other.json"} <= set(json.loads(seen.read_text())["artifacts"])


def test_line_12_a_self_check_is_triggered_by_a_command(repo: Repo) -> None:
    repo.write("out.json", '{"papers": [1, 2, 3]}')
    repo.write("needs.yaml", "goal: papers\nmin_items: {papers: 5}\n")
    judged = repo.run("critic", "out.json", "--requirements", "needs.yaml", "--self-check", "--json")
    assert judged.code == 32, judged.stdout
    ticket = judged.json["data"]["rewind_ticket"]["ticket_id"]
    told = repo.run("reflect", ticket, "--json").json["data"]
    assert told["rounds"][0]["reflection"]["trigger"] == "self_check"


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_line_515_a_wait_is_never_below_what_the_protocol_states(chance: float) -> None:
    stated = {policy.delay_s for policy in shipped().policies}
    assert {3.0, 5.0, 60.0} <= stated
    for policy in shipped().policies:
        assert delay_of(policy, 0, lambda: chance) >= policy.delay_s


class _Tool:
    """A tool that fails with these messages, then succeeds."""

    def __init__(self, *messages: str) -> None:
        self.messages, self.calls = list(messages), []  # type: ignore[var-annotated]

    def __call__(self, _tool: str, params: Any) -> str:
        self.calls.append(dict(params))
        if self.messages:
            raise ToolError(self.messages.pop(0))
        return "ok"


_QUIET = RetryIO(wait=lambda _seconds: None, chance=lambda: 0.0)


def test_line_593_a_query_of_bad_syntax_is_corrected_and_the_call_repeated(repo: Repo) -> None:
    sample = samples.text("001-line-595-bad_query.txt")
    wanted = json.loads(re.sub(r"//[^\n]*", "", sample))
    tool = _Tool(wanted["error_message"])
    params = {"query": "multi-agent || agent coordination", "categories": ["cs.AI"]}
    done = call_tool(repo.path, _SEARCH, params, invoke=tool, io=_QUIET)
    assert done.outcome.ok
    assert done.outcome.reports[0].diagnosis.error_type == wanted["error_type"]
    assert done.outcome.reports[0].corrective_action.modified_params == wanted["corrective_action"]["modified_params"]
    assert tool.calls[1] == wanted["corrective_action"]["modified_params"]


@pytest.mark.parametrize(
    ("message", "better"),
    [
        ("Invalid argument: max_results must be at most 50", {"query": "a", "max_results": 50}),
        ("TypeError: search() got an unexpected keyword argument 'max_results'", {"query": "a"}),
        ("max_results must be a string", {"query": "a", "max_results": "200"}),
        ("something else", None),
    ],
)
def test_line_540_a_parameter_is_corrected_by_what_the_error_says(message: str, better: Any) -> None:
    assert safe_call.corrected_params({"query": "a", "max_results": 200}, message) == better


def test_line_564_a_rate_limit_waits_sixty_seconds_and_names_the_alternative(repo: Repo) -> None:
    sample = samples.data("001-line-566-rate_limit.json")
    done = call_tool(
        repo.path,
        sample["failed_tool"],
        {"path": "a"},
        invoke=_Tool(sample["error_message"]),
        idempotent=True,
        io=RetryIO(wait=lambda _seconds: None),
    )
    action = done.outcome.reports[0].corrective_action
    assert action.retry_delay_seconds is not None
    assert action.retry_delay_seconds >= sample["corrective_action"]["retry_delay_seconds"]
    assert sample["corrective_action"]["alternative"] in str(action.alternative)


def test_line_521_the_pair_of_failure_and_fix_is_kept_with_the_protocols_fields(repo: Repo) -> None:
    sample = samples.data("001-line-525-fail_fix.json")
    done = call_tool(repo.path, _SEARCH, {"query": "a b c d"}, invoke=_Tool("Timeout after 30s"), io=_QUIET)
    assert isinstance(done.outcome, ToolSuccess)
    [path] = (repo.path / ".reflectloop/knowledge/reflections").glob("tool_fail_*.json")
    kept = json.loads(path.read_text())
    assert list(kept) == list(sample)
    assert kept["error_type"] == sample["error_type"]
    assert "简化查询" in path.read_text()


def test_line_640_a_failed_tool_is_told_in_the_protocols_box(repo: Repo) -> None:
    sample = samples.text("001-line-641-box.txt").splitlines()
    printed = repo.run("call", "--", "no-such-tool-here").stderr.splitlines()
    [top] = [number for number, line in enumerate(printed) if line.startswith("┌")]
    box = printed[top : top + len(sample)]
    assert [(line[0], line[-1]) for line in box] == [(line[0], line[-1]) for line in sample]
    assert [box[number] for number in (0, 2, 6)] == [sample[number] for number in (0, 2, 6)]
    assert "TOOL REFLECTION" in box[1]
    for line, label in zip(box[3:6], ("Tool: no-such-tool-here", "Error: ", "Action: "), strict=True):
        assert line.startswith(f"│  {label}")
        assert len(line) == len(sample[0])
