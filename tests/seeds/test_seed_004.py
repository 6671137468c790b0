"""The verification pipeline (戒定慧识) as its document says it, named by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from scripted_task import DESIGN, PASSES, Crew
from support import Repo

_STEPS = [
    {"id": "left", "commands": ["printf 'def f(:' > left.py"]},
    {"id": "right", "commands": ["echo 'y = 2' > right.py"]},
    {"id": "after", "commands": ["echo ran > after.txt"], "depends_on": ["left", "right"]},
]
_BROKEN = {"plan": {"title": "Batches", "track": "direct", "jobs": 2, "steps": _STEPS}}


def _blocker(repo: Repo) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((repo.latest() / "blocker.yaml").read_text())
    return found


def test_line_159_a_batch_that_is_redone_in_one_run_stops_at_the_third_failure_with_its_attempts(repo: Repo) -> None:
    first = repo.run("run", repo.plan(json.dumps(_BROKEN)))
    assert first.code == 32, first.stderr
    for expected in (32, 42):
        assert repo.run("redo", "left", "--reason", "written again").code == 0
        assert repo.run("resume").code == expected
    told = _blocker(repo)
    assert [attempt["decision"] for attempt in told["attempts"]] == ["RETRY", "RETRY", "RETRY"]
    assert told["asked"]
    assert "the same fault came back" in told["root_cause_hypothesis"][0]
    assert repo.run("resume").code != 0


def test_line_159_the_change_of_a_run_that_is_redone_stops_at_the_third_refusal_with_the_stated_cause(
    repo: Repo,
) -> None:
    plan: dict[str, Any] = {"title": "Sum", "track": "feature", "objective": {"goal": "add a sum"}}
    plan |= {"acceptance": [{"id": "A", "text": "it adds", "check": "adds"}], "may_change": ["src/**"]}
    plan |= {"checks": {"adds": {"run": "python3 -c 'from src import sums'"}}}
    plan |= {"steps": [{"id": "a", "commands": ["echo 'x = (' > src/broken.txt"]}]}
    codes = [repo.run("run", repo.plan(json.dumps({"plan": plan}))).code]
    for _ in range(2):
        assert repo.run("redo", "a", "--reason", "the module was forgotten").code == 0
        codes.append(repo.run("resume").code)
    assert codes == [32, 32, 42]
    told = _blocker(repo)
    assert len(told["attempts"]) == 3
    assert told["attempts"][-1]["root_cause"] == "the module was forgotten"


def test_line_373_the_next_command_names_the_step_that_wrote_the_broken_file(repo: Repo) -> None:
    done = repo.run("run", "--json", repo.plan(json.dumps(_BROKEN)))
    assert done.envelope["next"] == "reflectloop redo left --reason TEXT"


def _reviewed(repo: Repo, *items: dict[str, Any]) -> dict[str, Any]:
    """Return the gates' report of a task whose final reviewer passes it with these remarks."""
    crew = Crew(repo).plays(
        {"role": "planner", "says": "Make a plan", "answer": {**DESIGN, "track": "fix"}},
        {"role": "reviewer", "says": "the whole change", "answer": {**PASSES, "items": list(items)}},
    )
    result = crew.story()
    assert result.outcome
    found: dict[str, Any] = json.loads((Path(result.outcome.folder.path) / "gates.json").read_text())
    return found


def test_line_217_a_reviewers_security_and_contract_remarks_send_the_output_back_to_the_rules(repo: Repo) -> None:
    told = _reviewed(
        repo,
        {"problem": "the file is world readable", "kind": "security"},
        {"problem": "the goal says integers", "kind": "contract"},
    )
    [back] = told["backtracks"]
    assert (back["gate"], back["result"]) == ("rules", "mended")
    assert "world readable; the goal says integers" in back["reason"]
    assert told["decision"] == "PASS"


def test_line_220_a_reviewers_missing_scenario_sends_the_output_back_to_the_proof(repo: Repo) -> None:
    told = _reviewed(repo, {"problem": "negative numbers are not tried", "kind": "scenario"})
    assert [back["gate"] for back in told["backtracks"]] == ["proof"]


def test_line_209_a_reviewers_new_constraint_becomes_an_anchor_and_sends_nothing_back(repo: Repo) -> None:
    told = _reviewed(repo, {"problem": "add() must take integers only", "kind": "constraint"})
    assert told["backtracks"] == []
    assert ("C", "add() must take integers only") in {(one["kind"], one["text"]) for one in told["anchors"]}
