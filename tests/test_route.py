"""`route`: each way forward is reached, with the reason and the next command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reflectloop.commands import route
from reflectloop.commands.route import FailedRunFacts, of_failure
from reflectloop.diagnosis.diagnosis import FailedCommand, bare
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.pipeline import run
from reflectloop.engine.run.request import RunOutcome, RunRequest
from reflectloop.errors import NothingToDo
from reflectloop.lessons import lesson_scopes, lesson_store
from reflectloop.lessons.lesson import Occurrence, Page
from reflectloop.lessons.lesson_store import NewLesson
from reflectloop.state import events
from reflectloop.state.journal import Journal
from reflectloop.workspace.folders import Folders
from support import Repo

# Workspaces are removed in the background by a process that outlives its engine; here the engine is ourselves.
pytestmark = pytest.mark.filterwarnings("ignore:.*Popen.__del__:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def plain(repo: Repo) -> Repo:
    repo.weaken()
    repo.commit("settings")
    return repo


def ran(repo: Repo, command: str, *, new: bool = True) -> RunOutcome:
    return run(RunRequest(repo.path, repo.steps(command), new_task=new))


def card(code: str, said: str = "it failed", **more: object) -> FailedRunFacts:
    failure, again = bare(said, FailedCommand(code)), "reflectloop run 'my plan.yaml'"
    return FailedRunFacts("RLOP-1", failure, said, "my plan.yaml", again, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "way", "command", "then"),
    [
        ("INVALID_PLAN", "replan", "reflectloop plan check 'my plan.yaml'", "reflectloop run 'my plan.yaml'"),
        ("STEP_TIMEOUT", "retry", "reflectloop run 'my plan.yaml'", ""),
        ("INTERRUPTED", "retry", "reflectloop resume", ""),
        ("GATE_REJECTED", "ask", "reflectloop show RLOP-1", "reflectloop run 'my plan.yaml'"),
        ("AGENT_UNAVAILABLE", "ask", "reflectloop show RLOP-1", "reflectloop run 'my plan.yaml'"),
    ],
)
def test_each_kind_of_failure_has_its_route(code: str, way: str, command: str, then: str) -> None:
    found = of_failure(card(code))
    assert (found.route, found.command, found.then) == (way, command, then)
    assert found.why.startswith("it failed")


def test_an_unknown_failure_is_looked_up_by_its_signature() -> None:
    found = of_failure(card("NO_SPACE", "the disk is full"))
    signature = bare("the disk is full", FailedCommand("NO_SPACE")).signature
    assert found.route == "research"
    assert found.command.startswith(f"reflectloop lessons search --moment failure --signature {signature} ")


def test_the_same_failure_three_times_goes_to_a_person() -> None:
    found = of_failure(card("INVALID_PLAN", times_seen=3))
    assert (found.route, "seen 3 times (3.3.1)" in found.why) == ("ask", True)
    assert of_failure(card("INVALID_PLAN", times_seen=2)).route == "replan"
    assert of_failure(card("STEP_TIMEOUT", times_seen=3)).route == "retry"  # what passes later is no mistake


def test_a_known_fix_is_the_next_command(plain: Repo) -> None:
    failed = ran(plain, "no-such-command-here")
    assert failed.error
    told = route.route(plain.path)
    signature = dict(told.facts)["signature"]
    page = Page(kind="failfix", title="not there", signature=signature, commands=("make tools",))
    lesson_dir = lesson_scopes.open_scopes(plain.path, "project").writable("project")
    lesson_store.add_lessons(lesson_dir, [NewLesson(page, Occurrence(lesson=page.id, what="worked"))], "S-1")
    again = route.route(plain.path)
    assert (again.route, again.command, again.then) == ("research", "make tools", "reflectloop retry --reason TEXT")
    assert again.as_data()["known_fixes"] == ["make tools"]


def test_a_latched_run_is_routed_by_the_failure_that_latched_it(plain: Repo) -> None:
    first = ran(plain, "no-such-command-here", new=False)
    again = ran(plain, "no-such-command-here", new=False)
    assert again.error
    assert again.error.code == "LATCHED"
    found = route.route(plain.path)
    assert (found.route, found.run_id) == ("research", first.envelope.run_id)


def test_a_run_that_passed_has_no_route(plain: Repo) -> None:
    ran(plain, "no-such-command-here")
    ran(plain, "true")
    with pytest.raises(NothingToDo, match="nothing to route") as refused:
        route.route(plain.path)
    assert refused.value.next_step == "reflectloop status"


def test_an_unfinished_run_of_the_current_task_comes_first(plain: Repo) -> None:
    book = opened(plain.path)
    gone = route.route(plain.path)
    assert (gone.route, gone.command, "engine" in gone.why) == ("retry", "reflectloop resume", True)
    book.append(events.RunPaused(run_id="RLOP-20260101-aaaaaa", reason="lunch"))
    assert route.route(plain.path).why == "RLOP-20260101-aaaaaa is paused"
    book.append(events.RunResumed(run_id="RLOP-20260101-aaaaaa"))
    book.append(events.StepBlocked(run_id="RLOP-20260101-aaaaaa", step_id="P-1", reason="no key", unblock="get one"))
    asked = route.route(plain.path)
    assert (asked.route, asked.command) == ("ask", "reflectloop answer P-1 TEXT")
    assert "no key; get one" in asked.why
    book.close()


def opened(root: Path) -> Journal:
    own = root / ".reflectloop"
    Folders(root).ensure_owned()
    (own / "runs" / "RLOP-20260101-aaaaaa").mkdir(parents=True)
    book = Journal(own / "tasks" / "T-20260101-aaaaaa" / "journal.jsonl")
    book.append(events.TaskOpened(task_id="T-20260101-aaaaaa", plan_path="plan.yaml", title="t"))
    run_id = "RLOP-20260101-aaaaaa"
    more = {"plan_hash": "h", "base_tree": "t", "base_commit": "c", "isolation": "full", "steps": ["P-1"]}
    book.append(events.RunStarted(run_id=run_id, **more))  # type: ignore[arg-type]
    (own / "current").write_text("T-20260101-aaaaaa\n")
    return book


def test_the_answer_contains_the_whole_record() -> None:
    said = json.loads(json.dumps(of_failure(card("STEP_TIMEOUT")).as_data()))
    assert {"route", "why", "command", "then", "run_id", "needs", "category", "class", "signature"} <= said.keys()
    assert "facts" not in said
    assert isinstance(card("STEP_TIMEOUT").failure, FailureRecord)
