"""Requirements of the five documents that no other story shows, named by document and line."""

from __future__ import annotations

import json

import pytest
import seed_samples as samples

from reflectloop.verification.result import VerificationResult
from scripted_task import Crew
from support import Repo


def test_001_line_395_a_normal_iteration_is_recorded(repo: Repo) -> None:
    repo.write("out.json", '{"papers": [1, 2, 3]}')
    repo.write("better.json", '{"papers": [1, 2, 3, 4, 5]}')
    repo.write("needs.yaml", "goal: papers\nmin_items: {papers: 5}\n")
    judged = repo.run("critic", "out.json", "--requirements", "needs.yaml", "--json").json["data"]
    name = judged["rewind_ticket"]["ticket_id"]
    done = repo.run("reflect", name, "--revised", "better.json", "--json")
    assert done.code == 0, done.stderr
    assert done.json["data"]["handling"]["class"] == "3.3.5"
    [line] = (repo.path / ".reflectloop/attempts.jsonl").read_text().splitlines()
    assert json.loads(line)["ticket_id"] == name


def test_002_line_41_a_verification_result_has_the_documents_fields() -> None:
    sample = samples.data("002-line-42-result.json")
    read = VerificationResult.model_validate(sample).model_dump(mode="json")
    assert {name: read[name] for name in ("ok", "type", "summary", "suggestion")} == {
        name: sample[name] for name in ("ok", "type", "summary", "suggestion")
    }
    assert {name: read["details"][0][name] for name in sample["details"][0]} == sample["details"][0]


def test_002_line_98_a_planner_gets_files_words_failures_and_lessons_in_one_prompt(repo: Repo) -> None:
    repo.write("notes.txt", "frobnicate the sum\n")
    crew = Crew(repo).plays()
    assert repo.run("run", repo.steps("echo unlucky; exit 3")).code == 30
    repo.run("unlock", "--reason", "looked at it")
    repo.run("abort", "--reason", "planned anew")
    repo.run("lessons", "add", "--kind", "decision", "add() adds integers only", "--impact")
    prompt = (crew.plan("frobnicate: add() adds integers").folder / "planner.prompt.md").read_text()
    for part in (
        "notes.txt",
        "frobnicate the sum",
        "BEGIN what the last run failed with",
        "add() adds integers only",
    ):
        assert part in prompt, part


@pytest.mark.parametrize("broken", [False, True])
def test_004_line_369_a_batch_is_not_reflected_on(repo: Repo, broken: bool) -> None:
    steps = [
        {"id": "a", "commands": [f"echo 'def f(:' > a.{'py' if broken else 'txt'}"]},
        {"id": "b", "commands": ["echo 1 > b.txt"]},
        {"id": "c", "commands": ["echo 1 > c.txt"], "depends_on": ["a", "b"]},
    ]
    plan = {"plan": {"title": "Batches", "track": "direct", "jobs": 2, "steps": steps}}
    assert repo.run("run", repo.plan(json.dumps(plan))).code == (32 if broken else 0)
    [journal] = (repo.path / ".reflectloop/tasks").glob("*/journal.jsonl")
    gates = [json.loads(line) for line in journal.read_text().splitlines() if '"gate_decided"' in line]
    assert {event["gate"] for event in gates if event["subject"]} == ({"proof"} if broken else set())
