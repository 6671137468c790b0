"""A task that requests worked on is done when its change holds in a sealed run, and not before."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from reflectloop.commands import task_control, task_status
from reflectloop.engine.pipeline import run
from reflectloop.engine.requests import fileops_session
from reflectloop.engine.run.request import RunOutcome, RunRequest
from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.state import journal
from reflectloop.state.fold import fold
from support import Repo

_IDS = itertools.count()
SETTINGS = '[[verify.checks]]\nname = "suite"\nkind = "custom"\nrun = ["sh", "check.sh"]\n'
PREFLIGHT = {"op": "triflow_state_preflight"}
FINALIZE = {"op": "triflow_state_finalize"}


@pytest.fixture
def shop(repo: Repo) -> Repo:
    repo.write("price", "10\n")
    repo.write("check.sh", 'test "$(cat price)" -ge 10\n')
    repo.write("reflectloop.toml", SETTINGS)
    repo.commit("a shop")
    return repo


def send(repo: Repo, *ops: dict[str, Any]) -> dict[str, Any]:
    request = {"proto": "triflow.fileops.v1", "id": f"C-{next(_IDS)}", "purpose": "execute_step", "ops": list(ops)}
    return fileops_session.answer(fileops_session.FileopsTarget(repo.path), json.dumps(request).encode()).as_json()


def good(repo: Repo, *ops: dict[str, Any]) -> dict[str, Any]:
    found = send(repo, *ops)
    assert found["status"] == "ok", found
    return found


def init(*steps: str) -> dict[str, Any]:
    return {"op": "triflow_plan_init", "taskName": "Prices", "steps": [{"title": step} for step in steps]}


def price(value: str) -> list[dict[str, Any]]:
    return [
        {"op": "write_file", "path": "price", "content": f"{value}\n"},
        {"op": "run", "cmd": ["test", "-s", "price"]},
    ]


def conclude(repo: Repo) -> RunOutcome:
    return run(RunRequest(repo.path, resume=True))


def state(repo: Repo) -> str:
    current = (repo.path / ".reflectloop" / "current").read_text().strip()
    return str(fold(journal.read(repo.path / ".reflectloop" / "tasks" / current / "journal.jsonl")).state)


def test_a_task_of_requests_is_done_once_its_change_holds_sealed(shop: Repo) -> None:
    good(shop, init("Raise the price"), PREFLIGHT, *price("12"), FINALIZE)
    assert state(shop) == "FINAL_REVIEW"
    assert task_status.status(shop.path, everything=False)["next"] == "reflectloop resume"

    outcome = conclude(shop)

    assert outcome.error is None
    assert state(shop) == "DONE"
    assert outcome.envelope.evidence_level == "L3"
    assert [one.path for one in outcome.touched] == ["price"]
    assert "+12" in outcome.folder.patch.read_text()
    assert (shop.path / "price").read_text() == "10\n"


def test_a_change_that_does_not_hold_leaves_the_task_open_for_more_steps(shop: Repo) -> None:
    good(shop, init("Lower the price"), PREFLIGHT, *price("9"), FINALIZE)

    refused = conclude(shop)

    assert refused.error is not None
    assert refused.error.code == "VERIFICATION_FAILED"
    assert state(shop) == "FINAL_REVIEW"
    good(shop, {"op": "triflow_state_append_steps", "steps": [{"title": "Not so low"}]})
    good(shop, PREFLIGHT, *price("11"), FINALIZE)
    assert conclude(shop).error is None
    assert state(shop) == "DONE"


def test_a_task_with_a_step_left_is_not_concluded(shop: Repo) -> None:
    good(shop, init("One", "Two"), PREFLIGHT, *price("12"), FINALIZE)
    with pytest.raises(NothingToDo, match=r"step 2 of task .* is pending"):
        conclude(shop)
    assert task_status.status(shop.path, everything=False)["next"] == "reflectloop fileops REQUEST.json"


def test_what_the_request_that_made_the_plan_wrote_is_there_for_the_next(shop: Repo) -> None:
    good(shop, init("Go on"), {"op": "write_file", "path": "note.txt", "content": "kept\n"})
    found = good(shop, {"op": "read_file", "path": "note.txt"})
    assert found["data"]["0"]["content"] == "kept\n"
    assert found["proof"]["notes"] == []


def test_what_a_check_of_a_step_asks_must_hold_in_the_end_too(shop: Repo) -> None:
    step = {"title": "Raise it", "checks": ["grep -q 12 price"]}
    good(shop, {"op": "triflow_plan_init", "taskName": "Prices", "steps": [step, "Then spoil it"]})
    good(shop, PREFLIGHT, *price("12"), FINALIZE)
    good(shop, PREFLIGHT, *price("13"), FINALIZE)

    outcome = conclude(shop)

    assert outcome.error is not None
    assert "step-1.1" in outcome.error.message
    assert Path(outcome.folder.blocker).is_file()


def test_the_third_refusal_of_the_last_word_stops_the_project(shop: Repo) -> None:
    good(shop, init("Lower the price"), PREFLIGHT, *price("9"), FINALIZE)
    codes = [outcome.error.code for outcome in (conclude(shop) for _ in range(3)) if outcome.error]
    assert codes == ["VERIFICATION_FAILED", "VERIFICATION_FAILED", "MAX_RETRIES"]
    assert state(shop) == "LATCHED"


def test_what_was_done_for_a_task_that_was_given_up_is_no_part_of_the_next(shop: Repo) -> None:
    good(shop, init("Raise the price"), PREFLIGHT, *price("12"))
    task_control.abort(shop.path, "not wanted")
    found = good(shop, init("Something else"), {"op": "read_file", "path": "price"})
    assert found["data"]["1"]["content"] == "10\n"


def test_a_paused_task_takes_no_request_until_it_is_resumed(shop: Repo) -> None:
    good(shop, init("Raise the price"), PREFLIGHT)
    task_control.pause(shop.path)
    assert task_status.status(shop.path, everything=False)["runs"][-1]["note"] == "paused"
    with pytest.raises(NothingToDo, match="is paused"):
        send(shop, *price("12"))
    with pytest.raises(NothingToDo, match="done by requests"):
        conclude(shop)
    good(shop, *price("12"), FINALIZE)


def test_a_step_done_by_requests_can_be_gone_back_to(shop: Repo) -> None:
    good(shop, init("Raise the price", "Raise it more"), PREFLIGHT, *price("12"), FINALIZE)
    good(shop, PREFLIGHT, *price("15"), FINALIZE)
    steered = task_control.again(shop.path, "2", "rewind", "too much")
    assert steered.steps == ("2",)
    found = good(shop, PREFLIGHT, {"op": "read_file", "path": "price"})
    assert found["data"]["1"]["content"] == "12\n"
    with pytest.raises(InvalidInput, match="has no plan file to fork"):
        task_control.fork(shop.path, "1")


def test_a_check_that_does_not_hold_says_which_and_what_it_printed(shop: Repo) -> None:
    step = {"title": "Raise it", "checks": ["cat price; grep -q 12 price"]}
    good(shop, {"op": "triflow_plan_init", "taskName": "Prices", "steps": [step]}, PREFLIGHT)
    said = send(shop, FINALIZE)["fail"]
    assert "grep -q 12 price" in said["reason"]
    assert said["hint"] == "it printed: 10"
