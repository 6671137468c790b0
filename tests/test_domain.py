"""FileOps' domain ops: a plan worked on by requests, in which words finish nothing."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from reflectloop.secrets.rulefile import fill_sample
from support import Repo, reflectloop

_IDS = itertools.count()


class Desk:
    """Whoever sends requests."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo

    def send(self, *ops: dict[str, Any], purpose: str = "execute_step") -> dict[str, Any]:
        request = {"proto": "triflow.fileops.v1", "id": f"R-{next(_IDS)}", "purpose": purpose, "ops": list(ops)}
        done = reflectloop(self.repo.path, "fileops", "-", stdin=json.dumps(request))
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def good(self, *ops: dict[str, Any]) -> Any:
        found = self.send(*ops)
        assert found["status"] == "ok", found
        data: dict[str, Any] = found["data"]
        return data[max(data)] if data else {}

    def bad(self, *ops: dict[str, Any]) -> str:
        found = self.send(*ops)
        assert found["status"] in ("fail", "validation_error"), found
        return json.dumps(found)

    def journal(self) -> list[dict[str, Any]]:
        current = (self.repo.path / ".reflectloop" / "current").read_text().strip()
        path = self.repo.path / ".reflectloop" / "tasks" / current / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def state(self) -> str:
        known = json.loads(self.repo.run("tasks", "--json").stdout)["data"]
        return str(next(one["state"] for one in known if one["current"]))


INIT = {
    "op": "triflow_plan_init",
    "taskName": "Two files",
    "steps": ["Write one", {"title": "Write two", "checks": [["test", "-s", "two.txt"]]}],
}
PREFLIGHT = {"op": "triflow_state_preflight"}
FINALIZE = {"op": "triflow_state_finalize", "verification": "verify_pointer_moved"}
ONE = {"op": "write_file", "path": "one.txt", "content": "one\n"}
TWO = {"op": "write_file", "path": "two.txt", "content": "two\n"}
SHOWN = {"op": "run", "cmd": ["test", "-s", "one.txt"]}


@pytest.fixture
def desk(repo: Repo) -> Desk:
    return Desk(repo)


def test_a_plan_is_worked_on_by_requests_from_its_first_step_to_its_last(desk: Desk) -> None:
    desk.good(INIT)
    desk.good(PREFLIGHT)
    desk.good(ONE, SHOWN, FINALIZE)
    desk.good(PREFLIGHT)
    desk.good(TWO)
    desk.good(FINALIZE)
    assert desk.state() == "FINAL_REVIEW"
    assert [event["step_id"] for event in desk.journal() if event["kind"] == "step_finished"] == ["1", "2"]
    assert not (desk.repo.path / "one.txt").exists()


def test_words_finish_nothing(desk: Desk) -> None:
    desk.good(INIT)
    desk.good(PREFLIGHT)
    assert "words are no evidence" in desk.bad({**FINALIZE, "notes": "all good, 15/15 passed, verified end to end"})
    assert "does not pass" in desk.bad(*(dict(op) for op in (ONE, SHOWN, FINALIZE, PREFLIGHT, FINALIZE)))
    assert "no verification the engine knows" in desk.bad(ONE, SHOWN, {**FINALIZE, "verification": "trust_me"})
    assert desk.state() == "EXECUTING"


def test_a_check_of_the_step_is_run_by_the_engine_and_a_failed_one_takes_all_back(desk: Desk) -> None:
    desk.good({**INIT, "steps": [{"title": "Two", "checks": [["test", "-s", "two.txt"]]}]})
    desk.good(PREFLIGHT)
    assert "exit code 1, not 0" in desk.bad(ONE, FINALIZE)
    assert "one.txt" not in json.dumps(desk.good({"op": "list_dir", "path": "."}))
    desk.good(TWO, FINALIZE)
    assert desk.state() == "FINAL_REVIEW"


def test_a_running_plan_is_not_overwritten(desk: Desk) -> None:
    desk.good(INIT)
    assert "not overwritten" in desk.bad(INIT)
    assert desk.repo.run("abort", "--reason", "another one").code == 0
    desk.good(INIT)


def test_what_comes_out_of_order_is_refused(desk: Desk) -> None:
    assert "no plan" in desk.bad(PREFLIGHT)
    desk.good(INIT)
    assert "was not begun" in desk.bad(SHOWN | {"cmd": ["true"]}, FINALIZE)
    assert "the next step is 1" in desk.bad({**PREFLIGHT, "step": 2})
    assert "FINAL_REVIEW" in desk.bad({"op": "triflow_state_append_steps", "steps": ["More"]})


def test_attempts_are_counted_and_spent(desk: Desk) -> None:
    desk.good(INIT)
    assert [desk.good(PREFLIGHT)["attempt"] for _ in range(3)] == [1, 2, 3]
    asked = desk.send(PREFLIGHT)
    assert asked["status"] == "split"
    assert "3 attempts" in asked["split"]["reason"]


def test_a_blocked_step_says_what_would_unblock_it_and_waits_for_the_answer(desk: Desk) -> None:
    desk.good(INIT)
    desk.good(PREFLIGHT)
    desk.good({"op": "triflow_state_mark_blocked", "reason": "which table?", "unblock": "name the table"})
    assert desk.state() == "BLOCKED"
    asked = desk.send(PREFLIGHT)
    assert (asked["status"], asked["ask"]["question"]) == ("ask", "which table?")
    assert desk.repo.run("answer", "1", "the second").code == 0
    assert desk.good(PREFLIGHT)["answer"] == "the second"
    assert desk.repo.run("answer", "1", "again").code == 12


def test_a_split_step_gives_way_to_its_parts(desk: Desk) -> None:
    desk.good(INIT)
    assert desk.bad({"op": "triflow_state_apply_split", "substeps": ["a", "b"]})
    desk.good({"op": "triflow_state_apply_split", "substeps": ["a", "b", "c"]})
    assert desk.good(PREFLIGHT)["step"] == "1.1"
    desk.good(ONE, SHOWN, FINALIZE)
    assert desk.good(PREFLIGHT)["step"] == "1.2"


def test_a_split_step_is_done_only_when_its_own_checks_pass_after_its_parts(desk: Desk) -> None:
    desk.good({**INIT, "steps": [{"title": "Write two", "checks": ["test -f two.txt"]}]})
    desk.good(PREFLIGHT)
    desk.good({"op": "triflow_state_apply_split", "substeps": [{"title": t, "checks": ["true"]} for t in "abc"]})
    for part in ("1.1", "1.2"):
        assert desk.good(PREFLIGHT)["step"] == part
        desk.good(FINALIZE)
    desk.good(PREFLIGHT)
    assert "exit code 1, not 0" in desk.bad(FINALIZE)
    desk.good({"op": "triflow_state_apply_split", "substeps": [{"title": t, "checks": ["true"]} for t in "abc"]})
    for part in ("1.3.1", "1.3.2"):
        assert desk.good(PREFLIGHT)["step"] == part
        desk.good(FINALIZE)
    desk.good(PREFLIGHT)
    assert "exit code 1, not 0" in desk.bad(FINALIZE)
    desk.good(TWO, FINALIZE)
    assert desk.state() == "FINAL_REVIEW"


def test_the_final_review_may_append_two_steps_and_no_more(desk: Desk) -> None:
    desk.good({**INIT, "steps": ["Write one"]})
    desk.good(PREFLIGHT)
    desk.good(ONE, SHOWN, FINALIZE)
    assert desk.bad({"op": "triflow_state_append_steps", "steps": ["a", "b", "c"]})
    assert desk.good({"op": "triflow_state_append_steps", "steps": ["a", "b"]})["steps"] == ["2", "3"]
    assert desk.good(PREFLIGHT)["step"] == "2"


def test_a_request_that_fails_in_the_end_moved_nothing(desk: Desk) -> None:
    desk.good(INIT)
    before = desk.journal()
    desk.bad(PREFLIGHT, ONE, {"op": "run", "cmd": ["false"]})
    assert desk.journal() == before


def test_a_plan_with_a_password_in_it_is_refused_and_stored_nowhere(repo: Repo) -> None:
    """The journal keeps the plan, and its checks run from there: it can neither hold the password nor do without."""
    password = fill_sample("{lownum:16}", "domain")
    step = {"title": "Log in", "checks": [f"curl -u acme:{password} https://example.test"]}
    answer = Desk(repo).bad({**INIT, "steps": [step]})
    assert "may be a secret" in answer
    assert "env_allow" in answer
    assert password not in answer
    kept = [path for path in (repo.path / ".reflectloop").rglob("*") if path.is_file()]
    assert not any(password.encode() in path.read_bytes() for path in kept)
