"""TriFlow's files are published in its format and imported as claims."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from reflectloop.artifacts import triflow
from reflectloop.errors import InvalidInput
from support import Repo
from tasks import items, journals, run, task_folder, truth

NAMES = ("state.json", "todo.md", "plan_log.md")


@pytest.fixture
def shared(chain: Repo) -> Repo:
    """The same with TriFlow's files asked for."""
    chain.write("reflectloop.toml", "[publish]\ntriflow = true\n")
    chain.commit("settings")
    return chain


def published(repo: Repo) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((repo.path / "state.json").read_text())
    return found


def test_triflow_files_lie_at_the_top_of_the_project(shared: Repo) -> None:
    run(shared)
    assert published(shared) == {
        "generatedBy": "reflectloop; editing changes nothing",
        "taskName": "Chain",
        "objective": {"goal": "Get it done", "nonGoals": ["more"], "doneWhen": ["it is"]},
        "context": {"repoType": "git", "keyFiles": [], "background": ""},
        "constraints": [],
        "current": {"type": "step", "stepIndex": 2, "subIndex": None},
        "steps": [
            {"index": 1, "title": "The first", "status": "done", "attempts": 1, "substeps": []},
            {"index": 2, "title": "The second", "status": "blocked", "attempts": 1, "substeps": []},
            {"index": 3, "title": "The third", "status": "todo", "attempts": 0, "substeps": []},
        ],
        "finalDone": ["it works"],
    }
    assert items(shared.path / "todo.md") == [
        "- [x] 1. The first",
        "- [>] 2. The second (BLOCKED: exited 3)",
        "- [ ] 3. The third",
    ]
    assert "- b The second: failed" in (shared.path / "plan_log.md").read_text()


def test_triflow_files_are_in_no_workspace_and_no_patch(shared: Repo) -> None:
    run(shared)
    assert all((shared.path / name).exists() for name in NAMES)
    assert run(shared).code == 41, "the tree must not have changed by what was published"
    shared.run("skip", "b", "--reason", "x")
    assert shared.run("resume").code == 0
    log = (shared.latest() / "logs" / "c.1.log").read_text()
    patch = (shared.latest() / "changes.patch").read_text()
    for name in NAMES:
        assert name not in log
        assert name not in patch
    assert shared.run("apply").code == 0
    assert published(shared)["current"]["type"] == "none"


def test_no_triflow_file_is_written_unless_configured(chain: Repo) -> None:
    run(chain)
    assert not [name for name in NAMES if (chain.path / name).exists()]


def test_a_users_file_is_not_overwritten_and_stays_in_the_project(shared: Repo) -> None:
    shared.write("state.json", '{"taskName": "mine"}\n')
    shared.write("todo.md", "# My list\n")
    (shared.path / "plan_log.md").symlink_to("README.md")
    answer = run(shared)
    assert answer.stderr.count("was not written by reflectloop and was not changed") == 3
    assert (shared.path / "state.json").read_text() == '{"taskName": "mine"}\n'
    assert (shared.path / "todo.md").read_text() == "# My list\n"
    assert (shared.path / "README.md").read_text() == "# sample\n"
    log = (shared.latest() / "logs" / "a.1.log").read_text()
    assert all(name in log for name in NAMES)


def test_init_can_turn_triflow_on(repo: Repo) -> None:
    assert repo.run("init", "--triflow").code == 0
    settings = {one["name"]: one["value"] for one in repo.run("config", "--json").json["data"]}
    assert settings["publish.triflow"] is True
    assert repo.run("run", repo.steps("true")).code == 0
    assert published(repo)["taskName"] == "Test"


def test_init_names_what_is_left_to_do_if_settings_exist(repo: Repo) -> None:
    repo.write("reflectloop.toml", "")
    assert "set triflow = true under [publish]" in repo.run("init", "--triflow").stdout
    assert (repo.path / "reflectloop.toml").read_text() == ""


# import-state -----------------------------------------------------------------------------------------------------


def elsewhere(repo: Repo, tmp_path: Path) -> Repo:
    """A second project."""
    other = Repo(tmp_path / "other")
    shutil.copytree(repo.path, other.path, ignore=shutil.ignore_patterns(".reflectloop", *NAMES))
    return other


@pytest.mark.parametrize("skipped", [False, True])
def test_a_task_published_imported_and_published_again_is_the_same(
    shared: Repo, tmp_path: Path, *, skipped: bool
) -> None:
    run(shared)
    if skipped:
        shared.run("skip", "b", "--reason", "by hand")
    other = elsewhere(shared, tmp_path)
    done = other.run("import-state", shared.path / "state.json")
    assert done.code == 0, done.stderr
    assert "next: " in done.stdout
    assert published(other) == published(shared)
    if skipped:
        assert (other.path / "todo.md").read_text() == (shared.path / "todo.md").read_text()


def theirs(**changes: Any) -> dict[str, Any]:
    steps = [
        {"index": 1, "title": "One", "status": "done", "attempts": 2, "substeps": []},
        {
            "index": 2,
            "title": "Two",
            "status": "doing",
            "attempts": 1,
            "substeps": [
                {"index": 1, "title": "Two one", "status": "done", "attempts": 1},
                {"index": 2, "title": "Two two", "status": "todo", "attempts": 0},
            ],
        },
        {"index": 3, "title": "Three", "status": "blocked", "attempts": 3, "substeps": []},
    ]
    return {
        "taskName": "从别处来",
        "objective": {"goal": "G", "nonGoals": "none", "doneWhen": ["x", "y"]},
        "context": {"repoType": "python", "keyFiles": ["a.py"], "background": "B"},
        "constraints": ["no network"],
        "current": {"type": "substep", "stepIndex": 2, "subIndex": 2},
        "steps": steps,
        "finalDone": ["all green"],
    } | changes


def test_imported_progress_is_stored_as_a_claim(repo: Repo) -> None:
    repo.write("theirs.json", json.dumps(theirs()))
    answer = repo.run("import-state", "theirs.json", "--json")
    assert answer.code == 0, answer.stderr
    assert (answer.json["data"]["claimed"], answer.json["data"]["total"]) == (2, 5)
    assert answer.envelope["next"] == "reflectloop run PLAN"
    (told,) = truth(task_folder(repo)).runs.values()
    facts = {step.id: (step.status, step.attempts, step.reason, step.ended) for step in told.steps.values()}
    assert facts == {
        "1": ("done", 2, "imported", None),
        "2": ("pending", 1, "", None),
        "2.1": ("done", 1, "imported", None),
        "2.2": ("pending", 0, "", None),
        "3": ("failed", 3, "imported", None),
    }
    assert items(task_folder(repo) / "todo.md") == [
        "- [x] 1 One (imported)",
        "- [>] 2 Two",
        "- [x] 2.1 Two one (imported)",
        "- [ ] 2.2 Two two",
        "- [ ] 3 Three (BLOCKED: imported)",
    ]
    (known,) = repo.run("tasks", "--json").json["data"]
    assert (known["title"], known["state"], known["steps_done"]) == ("从别处来", "EXECUTING", 2)
    status = repo.run("status", "--json").json
    assert (status["data"]["runs"][0]["note"], status["envelope"]["next"]) == ("imported", "reflectloop run PLAN")
    assert repo.git("status", "--porcelain", "--", ".reflectloop") == ""


def test_an_imported_task_is_never_done_and_cannot_be_resumed(repo: Repo) -> None:
    done = [{"index": 0, "title": "One", "status": "done"}]
    repo.write("theirs.json", json.dumps(theirs(steps=done, current={"type": "none"})))
    assert repo.run("import-state", "theirs.json").code == 0
    assert repo.run("tasks", "--json").json["data"][0]["state"] == "EXECUTING"
    answer = repo.run("resume", "--json")
    assert (answer.code, answer.envelope["error_code"]) == (14, "NOTHING_TO_DO")
    assert repo.run("apply").code == 14


def test_substeps_and_all_else_come_back_when_published(repo: Repo) -> None:
    repo.write("reflectloop.toml", "[publish]\ntriflow = true\n")
    repo.write("in.json", json.dumps(theirs()))
    assert repo.run("import-state", "in.json").code == 0
    found = published(repo)
    found.pop("generatedBy")
    expected = theirs()
    expected["steps"][1]["status"] = "todo"  # nobody is doing it here
    assert found == expected
    assert items(repo.path / "todo.md")[3] == "  - [>] 2.2. Two two"


def test_every_fault_of_a_state_is_reported_with_its_place(tmp_path: Path) -> None:
    said = theirs(constraints="none", more=1)
    said["steps"][0]["status"] = "finished"
    said["steps"][1]["substeps"][1]["title"] = 7
    said["objective"].pop("goal")
    said["objective"]["nonGoals"] = 7
    path = tmp_path / "state.json"
    path.write_text(json.dumps(said))
    with pytest.raises(InvalidInput) as refused:
        triflow.read(path)
    assert {fault.path for fault in refused.value.faults} == {
        "constraints",
        "more",
        "steps[0].status",
        "steps[1].substeps[1].title",
        "objective.goal",
        "objective.nonGoals",
    }
    assert "has 6 faults" in refused.value.message
    assert "more: unknown key" in [str(fault) for fault in refused.value.faults]


def test_indexes_must_be_unique_and_the_pointer_must_point_somewhere(tmp_path: Path) -> None:
    said = theirs(current={"type": "step", "stepIndex": 9})
    said["steps"][2]["index"] = 1
    said["steps"][1]["substeps"][1]["index"] = 1
    path = tmp_path / "state.json"
    path.write_text(json.dumps(said))
    with pytest.raises(InvalidInput) as refused:
        triflow.read(path)
    places = [fault.path for fault in refused.value.faults]
    assert places == ["steps[2].index", "steps[1].substeps[1].index", "current.stepIndex"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"taskName": "a", "taskName": "b"}', "occurs twice"),
        ('{"taskName": NaN}', "NaN is not a number"),
        ("[]", "has 1 fault"),
    ],
)
def test_an_invalid_state_is_refused_and_opens_no_task(repo: Repo, text: str, said: str) -> None:
    repo.write("in.json", text)
    answer = repo.run("import-state", "in.json", "--json")
    assert (answer.code, answer.envelope["error_code"]) == (12, "INVALID_INPUT")
    assert said in answer.envelope["message"]
    assert repo.run("import-state", "nothing.json").code == 12
    assert not journals(repo)


def test_a_secret_in_a_state_is_refused(repo: Repo) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
    repo.write("in.json", json.dumps(theirs(constraints=[f"use {secret}"])))
    answer = repo.run("import-state", "in.json")
    assert answer.code == 12
    assert secret not in answer.stdout + answer.stderr
    assert not journals(repo)
