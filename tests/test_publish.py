"""Files at the paths and in the formats of the older protocol, and reports in common formats."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree as ET

import yaml

from support import Repo

SEED_PLAN = """\
envelope:
  command: thingking_web
  status: OK
new_plan:
  steps:
    - id: P-1
      action: "Description of what this step does"
      commands:
        - "{python} -X utf8 script.py"
        - "{second}"
      cwd: "optional/subdirectory"
      verification:
        - "Expected output or state"
      depends_on: []
"""
ENVELOPE = [
    "command",
    "timestamp",
    "status",
    "error_code",
    "missing_inputs",
    "artifacts_read",
    "artifacts_written",
    "next",
]
STATE = Path(".claude/state")


def seed(repo: Repo, second: str = "true") -> None:
    repo.write("optional/subdirectory/script.py", "print('done'); open('made.txt', 'w').write('x')\n")
    repo.commit("script")
    repo.write(str(STATE / "thinking/plan.latest.yaml"), SEED_PLAN.format(python="python3", second=second))


def load(path: Path) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load(path.read_text())
    return found


def test_the_seeds_plan_leaves_every_file_of_success_at_the_seeds_paths(repo: Repo) -> None:
    seed(repo)
    answer = repo.run("run", "--json")
    assert answer.code == 0, answer.stdout
    run_id = answer.envelope["run_id"]
    result = load(repo.path / STATE / "reflectloop/reflectloop.latest.yaml")
    assert next(iter(result)) == "envelope"
    envelope = result["envelope"]
    assert isinstance(envelope, dict)
    assert list(envelope)[: len(ENVELOPE)] == ENVELOPE
    assert envelope["command"] == "reflectloop"
    assert envelope["timestamp"].endswith("Z")
    assert result["sandbox_mode"] == "worktree"
    assert set(result) >= {
        "run_id",
        "plan_source_hash",
        "sandbox_mode",
        "env_status",
        "steps",
        "result",
        "failure",
        "outputs",
    }
    folder = repo.path / STATE / "reflectloop/runs" / run_id
    assert (folder / "changes.patch").read_text().startswith("diff --git a/optional/subdirectory/made.txt")
    assert "done" in (folder / "logs/P-1.1.log").read_text()
    assert (folder / "summary.md").exists()
    assert all((repo.path / name).exists() for name in envelope["artifacts_written"])
    assert not (repo.path / STATE / "thinking/blocker.latest.yaml").exists()


def test_the_seeds_plan_leaves_every_file_of_failure_at_the_seeds_paths(repo: Repo) -> None:
    seed(repo, "echo 'assert 1 == 2'; exit 1")
    repo.write("reflectloop.toml", "[publish]\nclaude_home = true\n")
    answer = repo.run("run", "--json")
    assert answer.code == 30
    result = load(repo.path / STATE / "reflectloop/reflectloop.latest.yaml")
    assert result["result"] == "FAILED"
    blocker = load(repo.path / STATE / "thinking/blocker.latest.yaml")
    envelope = blocker["envelope"]
    assert isinstance(envelope, dict)
    assert (envelope["status"], envelope["error_code"], envelope["next"]) == ("ERROR", "STEP_FAILED", "/thinking")
    assert str(blocker["blocker_id"]).startswith("B-")
    assert blocker["needs"] == ["REPLAN"]
    lock = Path(os.environ["HOME"]) / ".claude/latch.lock"
    assert json.loads(lock.read_text())["project"] == str(repo.path)
    run_id = answer.envelope["run_id"]
    assert (repo.path / STATE / "reflectloop/runs" / run_id / "logs/P-1.2.log").exists()
    repo.write(str(STATE / "thinking/plan.latest.yaml"), SEED_PLAN.format(python="python3", second="echo mended"))
    assert repo.run("run").code == 0
    assert not lock.exists()
    assert not (repo.path / STATE / "thinking/blocker.latest.yaml").exists()


def test_needs_are_published_in_the_older_protocols_words(repo: Repo) -> None:
    seed(repo, "sleep 9")
    text = (repo.path / STATE / "thinking/plan.latest.yaml").read_text().replace("cwd:", "timeout_s: 1\n      cwd:")
    repo.write(str(STATE / "thinking/plan.latest.yaml"), text)
    assert repo.run("run").code == 31
    assert load(repo.latest() / "blocker.yaml")["needs"] == ["RETRY"]
    assert load(repo.path / STATE / "thinking/blocker.latest.yaml")["needs"] == ["RESEARCH"]


def test_a_missing_or_faulty_plan_is_published_too(repo: Repo) -> None:
    repo.write(str(STATE / "thinking/plan.latest.yaml"), "new_plan: {steps: []}\n")
    assert repo.run("run").code == 11
    blocker = load(repo.path / STATE / "thinking/blocker.latest.yaml")
    assert isinstance(blocker["envelope"], dict)
    assert blocker["envelope"]["error_code"] == "INVALID_PLAN"


def test_nothing_is_published_unless_configured(repo: Repo) -> None:
    assert repo.run("run", repo.steps("false")).code == 30
    assert not (repo.path / ".claude").exists()
    assert not (Path(os.environ["HOME"]) / ".claude").exists()


def test_a_home_latch_of_another_project_is_reported_and_not_obeyed(repo: Repo) -> None:
    lock = Path(os.environ["HOME"]) / ".claude/latch.lock"
    lock.parent.mkdir()
    lock.write_text('{"project": "/somewhere/else"}')
    repo.write("reflectloop.toml", "[publish]\nclaude_home = true\n")
    assert repo.run("run", "--max-retries", "0", repo.steps("false")).code == 42
    assert "/somewhere/else" in lock.read_text()
    assert repo.run("unlock", "--reason", "x").code == 0
    assert lock.exists()
    answer = repo.run("run", repo.steps("true"))
    assert answer.code == 0
    assert "belongs to /somewhere/else" in answer.stderr


def test_junit_and_sarif_say_what_happened(repo: Repo) -> None:
    plan = repo.plan(
        """
        plan:
          title: Reports & <such>
          steps:
            - {id: good, commands: ["true"], verify: [{run: "true"}]}
            - {id: bad, commands: ["printf '\\\\033[31mred\\\\001'; exit 3"]}
            - {id: never, commands: ["true"]}
        """
    )
    assert repo.run("run", plan).code == 30
    suite = ET.parse(repo.latest() / "junit.xml").getroot()
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    sarif = json.loads((repo.latest() / "results.sarif").read_text())
    assert sarif["version"] == "2.1.0"
    assert [found["ruleId"] for found in sarif["runs"][0]["results"]] == ["STEP_FAILED"]
    assert [rule["id"] for rule in sarif["runs"][0]["tool"]["driver"]["rules"]] == ["STEP_FAILED"]


def test_faults_of_a_plan_are_in_sarif_with_their_lines(repo: Repo) -> None:
    repo.write("plan.yaml", "plan:\n  title: T\n  steps:\n    - id: a\n      comands: [x]\n")
    assert repo.run("run", "plan.yaml").code == 11
    sarif = json.loads((repo.latest() / "results.sarif").read_text())
    lines = [
        found["locations"][0]["physicalLocation"]["region"]["startLine"]
        for found in sarif["runs"][0]["results"]
        if "locations" in found
    ]
    assert 5 in lines
    suite = ET.parse(repo.latest() / "junit.xml").getroot()
    assert suite.get("errors") == "1"
