"""The Reflectloop envelope as its document says it, named by line."""

from __future__ import annotations

import re
from typing import Any

import pytest
import seed_samples as samples
import yaml

from reflectloop.diagnosis import diagnosis, log_diagnosis
from scripted_task import DONE, WRITE, Crew
from support import Repo


def test_line_34_a_plan_of_actions_only_runs_with_an_executor_bound(repo: Repo) -> None:
    crew = Crew(repo).plays({"role": "executor", "step": "P-1", "ops": [WRITE], "answer": DONE})
    plan = yaml.safe_load(samples.text("000-line-52-plan.yaml"))
    del plan["new_plan"]["steps"][0]["commands"], plan["new_plan"]["steps"][0]["cwd"]
    done = crew.repo.run("run", repo.plan(yaml.safe_dump(plan)), "--json")
    assert done.code == 0, done.envelope["message"]
    assert [one["path"] for one in done.json["data"]["touched_files"]] == ["calc.py"]


def _published(repo: Repo, name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((repo.path / ".claude/state" / name).read_text())
    return found


def test_line_33_a_missing_plan_names_planning(repo: Repo) -> None:
    done = repo.run("run", "--json")
    assert done.code == 10
    assert "/thingking_web" in done.envelope["next"]
    assert "reflectloop tp GOAL" in done.envelope["next"]


@pytest.mark.parametrize("place", ["/proc/nope", "file/below"])
def test_line_35_a_sandbox_that_rights_or_the_path_prevent_is_sandbox_create_failed(repo: Repo, place: str) -> None:
    (repo.path.parent / "file").write_text("")
    root = place if place.startswith("/") else str(repo.path.parent / place)
    done = repo.run("run", repo.steps("true"), "--sandbox-root", root, "--json")
    assert (done.code, done.envelope["error_code"]) == (20, "SANDBOX_CREATE_FAILED")


def test_line_39_the_latched_answer_leaves_the_blocker_of_the_failure_published(repo: Repo) -> None:
    plan = {"envelope": {"status": "OK"}, "new_plan": {"steps": [{"id": "P-1", "commands": ["echo assert; exit 1"]}]}}
    repo.write(".claude/state/thinking/plan.latest.yaml", yaml.safe_dump(plan))
    assert repo.run("run").code == 30
    first = _published(repo, "thinking/blocker.latest.yaml")
    assert first["needs"] == ["REPLAN"]
    assert repo.run("run").code == 41
    assert _published(repo, "thinking/blocker.latest.yaml") == first
    assert _published(repo, "reflectloop/reflectloop.latest.yaml")["envelope"]["error_code"] == "STEP_FAILED"


_ROWS = re.findall(r"^\| (\".*?\") \| (\w+) \|", samples.text("000-line-114-needs.md"), re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "needs"), [(word, needs) for row, needs in _ROWS for word in re.findall(r'"(.*?)"', row)]
)
def test_line_114_words_of_the_output_say_what_is_needed(words: str, needs: str) -> None:
    judged = log_diagnosis.diagnose_log(f"tool: {words}: x\n", exit_code=1, rules=diagnosis.shipped())
    assert judged.failure
    assert judged.failure.needs == needs


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("expected 3 got 4", "REPLAN"),
        ("FAILED (failures=1)", "REPLAN"),
        ("ImportError: cannot import name 'a' from 'b'", "RESEARCH"),
        ("config file not found", "RESEARCH"),
        ("no module named x", "RESEARCH"),
        ("something else", "RESEARCH"),
    ],
)
def test_line_114_lines_that_tools_print_say_what_is_needed(line: str, needs: str) -> None:
    judged = log_diagnosis.diagnose_log(line + "\n", exit_code=1, rules=diagnosis.shipped())
    assert judged.failure
    assert judged.failure.needs == needs


def test_line_125_variables_named_like_credentials_are_said_to_be_set_and_never_shown(repo: Repo) -> None:
    repo.write("reflectloop.toml", '[run]\nenv_allow = ["TAVILY_MCP_URL"]\n')
    repo.commit("settings")
    value = "hidden"
    assert repo.run("run", repo.steps("true"), env={"BRAVE_API_KEY": value}).code == 0
    text = (repo.latest() / "result.yaml").read_text()
    wanted = yaml.safe_load(samples.text("000-line-126-env_status.yaml"))["env_status"]
    told = yaml.safe_load(text)["env_status"]
    assert {name: told[name] for name in wanted} == wanted
    assert value not in text


def test_line_11_every_output_begins_with_the_envelope_of_the_document(repo: Repo) -> None:
    wanted = list(yaml.safe_load(samples.text("000-line-15-envelope.yaml"))["envelope"])
    plan = {"envelope": {"status": "OK"}, "new_plan": {"steps": [{"id": "P-1", "commands": ["exit 3"]}]}}
    repo.write(".claude/state/thinking/plan.latest.yaml", yaml.safe_dump(plan))
    answer = repo.run("run", "--json")
    assert answer.code == 30
    for name in ("thinking/blocker.latest.yaml", "reflectloop/reflectloop.latest.yaml"):
        first, told = next(iter(_published(repo, name).items()))
        assert first == "envelope"
        assert list(told)[: len(wanted)] == wanted
        assert told["command"] == "reflectloop"
    assert next(iter(answer.json)) == "envelope"
    assert list(answer.envelope)[: len(wanted)] == wanted
    assert answer.envelope["command"] == "run"  # the command that was typed
