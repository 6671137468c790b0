"""The reflection protocol's agents, named by line: who reflects, who repairs, who is asked for knowledge."""

from __future__ import annotations

import json
from typing import Any

import pytest
import seed_samples as samples

from reflectloop.reflection import reflection_prompt
from reflectloop.reflection.outside_files import _ticket
from scripted_task import Crew
from support import Repo, reflectloop

_FIVE = json.dumps({"papers": [1, 2, 3, 4, 5]})
_REPAIR = {"op": "write_file", "path": "research_data/out.json", "content": _FIVE}
_DONE = {"control": "step_done", "approach": "searched wider"}
_NOTES = "应在搜索开始时设置明确的数量目标"


def _ticket_for(repo: Repo, output: str = '{"papers": [1, 2, 3]}', roles: str = "", *played: dict[str, Any]) -> str:
    """Return the ticket of an output with three papers where five are required; agents play the given entries."""
    Crew(repo).plays(*played, roles=roles or "executor")
    repo.write("research_data/out.json", output)
    repo.write("needs.yaml", "goal: papers\nmin_items: {papers: 5}\n")
    repo.commit("an output")
    judged = repo.run("critic", "research_data/out.json", "--requirements", "needs.yaml", "--json")
    ticket: str = judged.json["data"]["rewind_ticket"]["ticket_id"]
    return ticket


def test_line_283_the_bound_executor_repairs_the_output_until_the_critic_passes_it(repo: Repo) -> None:
    name = _ticket_for(
        repo,
        '{"papers": [1, 2, 3]}',
        "executor",
        {
            "role": "executor",
            "attempt": 1,
            "ops": [{**_REPAIR, "content": '{"papers": [1, 2, 3, 4]}'}],
            "answer": _DONE,
        },
        {"role": "executor", "ops": [_REPAIR], "answer": _DONE},
    )
    done = repo.run("reflect", name, "--json")
    assert done.code == 0, done.json["envelope"]["message"]
    rounds = done.json["data"]["rounds"]
    assert [one["submission"]["status"] for one in rounds] == ["needs_another_iteration", "ready_for_re_evaluation"]
    assert [one["status"] for one in rounds[-1]["reflection"]["repair_actions"]] == ["completed"]
    revised = rounds[-1]["submission"]["revised_output_file"]
    assert json.loads((repo.path / revised).read_text()) == json.loads(_FIVE)
    assert "_v" in revised
    assert json.loads((repo.path / "research_data/out.json").read_text()) == {"papers": [1, 2, 3]}  # the user copies it
    [prompt] = (repo.path / ".reflectloop").rglob(f"{name}.agents/executor-repair.prompt.md")
    assert f"REWIND TICKET: {name}" in prompt.read_text()


def test_line_283_no_agents_leaves_the_repair_to_a_person(repo: Repo) -> None:
    name = _ticket_for(
        repo, '{"papers": [1, 2, 3]}', "executor", {"role": "executor", "ops": [_REPAIR], "answer": _DONE}
    )
    done = repo.run("reflect", name, "--no-agents", "--json")
    assert done.code == 32
    assert done.json["data"]["rounds"][0]["submission"]["revised_output_file"] is None


def test_line_287_an_executor_that_leaves_the_output_alone_has_three_rounds_at_most(repo: Repo) -> None:
    name = _ticket_for(repo, '{"papers": [1, 2, 3]}', "executor", {"role": "executor", "answer": _DONE})
    done = repo.run("reflect", name, "--json")
    assert done.code != 0
    assert len(done.json["data"]["rounds"]) == 1
    assert done.json["data"]["rounds"][0]["reflection"]["repair_actions"][0]["status"] == "failed"


def test_line_283_where_no_workspace_may_be_opened_rules_reflect_and_say_so(repo: Repo) -> None:
    name = _ticket_for(repo, roles="executor")
    assert repo.run("run", repo.steps("K=tvly-; echo key = ${K}A1b2C3d4E5f6G7h8")).code == 99
    done = repo.run("reflect", name, "--json")
    assert done.code == 32, done.stderr
    assert any("no agent was asked" in one for one in done.envelope["warnings"])


@pytest.mark.parametrize("left", ["ln -sf /etc/hostname research_data/out.json", "rm research_data/out.json"])
def test_line_283_an_output_that_is_no_file_any_more_is_not_taken(repo: Repo, left: str) -> None:
    name = _ticket_for(repo, '{"papers": [1]}', "executor", {"role": "executor", "run": left, "answer": _DONE})
    done = repo.run("reflect", name, "--json")
    assert done.code == 32, done.envelope["message"]
    assert done.json["data"]["rounds"][0]["submission"]["revised_output_file"] is None
    assert any("was not repaired" in one for one in done.envelope["warnings"])


def _analysis(repo: Repo, name: str) -> dict[str, Any]:
    """Return the report that the rules write, for a critic to answer with."""
    told: dict[str, Any] = repo.run("reflect", name, "--no-agents", "--json").json["data"]["rounds"][0]["reflection"]
    return told


def test_line_11_the_bound_critic_writes_the_analysis(repo: Repo) -> None:
    repo.write("t.json", samples.text("001-line-708-ticket.json"))
    report = _analysis(repo, "t.json")
    report["learning_notes"] = _NOTES
    for path in (repo.path / ".reflectloop").rglob("reflections/rewind_001*"):
        if path.is_file():
            path.unlink()
    Crew(repo).plays({"role": "critic", "answer": report}, roles="critic")
    done = repo.run("reflect", "rewind_001", "--json")
    assert done.json["data"]["rounds"][0]["reflection"]["learning_notes"] == _NOTES, done.json


def test_line_379_the_bound_researcher_is_asked_for_what_is_not_known_and_the_answer_is_kept(repo: Repo) -> None:
    found = {"answer": "the papers are listed in doc/papers.md", "sources": ["doc/papers.md:1"]}
    name = _ticket_for(
        repo,
        '{"papers": [1], "note": "I do not know where the papers are"}',
        "researcher executor",
        {"role": "researcher", "answer": found},
        {"role": "executor", "says": "doc/papers.md", "answer": {"control": "fail", "reason": "no"}},
    )
    done = repo.run("reflect", name, "--json")
    assert done.json["data"]["handling"]["class"] == "3.3.4"
    states = {one["measure"]: one["state"] for one in done.json["data"]["handling"]["measures"]}
    assert states["ask_research"] == states["store_answer"] == "done"
    [prompt] = (repo.path / ".reflectloop").rglob(f"{name}.agents/executor-repair.prompt.md")
    assert "the papers are listed in doc/papers.md" in prompt.read_text()


def test_line_12_an_executor_triggers_a_self_check_of_its_own_result(repo: Repo) -> None:
    checked = {"control": "self_check", "reason": "仅收集了 3 篇论文"}
    crew = Crew(repo).plays({"role": "executor", "attempt": 1, "answer": checked})
    assert crew.story().error is None
    [ticket] = (repo.path / ".reflectloop").rglob("tickets/rewind_*.context.json")
    assert json.loads(ticket.read_text())["trigger"] == "self_check"
    [prompt] = crew.papers("1/2/executor.prompt.md")
    assert "仅收集了 3 篇论文" in prompt.read_text()


_SAMPLE = samples.text("001-line-257-prompt.txt")


def test_line_252_the_prompt_that_asks_for_a_reflection_has_every_part_of_the_protocols(repo: Repo) -> None:
    path = repo.plan(samples.text("001-line-708-ticket.json"), "rewind_001.json")
    printed = repo.run("reflect", path, "--prompt").stdout
    for heading in ("REFLECTION REQUIRED", "ISSUES IDENTIFIED:", "REPAIR PLAN:", "OUTPUT FILES:"):
        assert heading in _SAMPLE
        assert heading in printed.splitlines()
    assert "REWIND TICKET: rewind_001\nVERDICT: REVISE\n" in printed
    assert "仅收集了 3 篇论文，需要至少 5 篇" in printed
    for number, word in enumerate(("Explore", "Reflect", "Classify", "Plan", "Execute", "Submit"), 1):
        assert f"{number}. {word} - " in _SAMPLE
        assert f"{number}. {word} - " in printed
    assert not list((repo.path / ".reflectloop").rglob("reflections/rewind_001*"))


@pytest.mark.parametrize(("target", "name"), [("a/out.json", "a/out_v2.json"), ("out", "out_v2"), (None, "")])
def test_line_423_the_revised_output_is_named_v2(target: str | None, name: str) -> None:
    assert reflection_prompt.revised_name(target) == name


def test_line_261_a_ticket_without_a_score_says_so() -> None:
    ticket = _ticket(None, samples.data("001-line-708-ticket.json"))  # type: ignore[arg-type]
    assert "QUALITY SCORE: none" in reflection_prompt.reflection_required(ticket)


def test_line_438_a_failed_mcp_call_in_an_agents_session_is_diagnosed(repo: Repo) -> None:
    call = {"session_id": "s", "cwd": str(repo.path), "tool_name": "mcp__arxiv__search_papers", "tool_input": {}}
    failed = json.dumps({**call, "error": "TimeoutError: arXiv API request timed out after 30 seconds"})
    done = reflectloop(repo.path, "hook", "PostToolUseFailure", "--client", "claude", stdin=failed)
    context = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert context.startswith("TOOL REFLECTION: mcp__arxiv__search_papers failed.")
    assert "timed out" in context
