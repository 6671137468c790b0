"""The queue of `autoloop`, and what journals say that a task needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoloop_world import BEGIN, DONE, ENDED, PASSED, STEP, blocked, failed, submitted, write_task
from reflectloop.autoloop.project_state import ProjectState
from reflectloop.autoloop.submissions import NewSubmission, SubmissionQueue
from reflectloop.autoloop.task_view import Standing
from reflectloop.errors import InvalidInput
from reflectloop.state import events, latch
from reflectloop.workspace.folders import Folders, open_project_dirs
from support import Repo, reflectloop

# The queue -------------------------------------------------------------------------------------------------------------


def test_a_submission_keeps_its_own_copy_of_the_plan(queue: SubmissionQueue, repo: Repo) -> None:
    entry = submitted(queue, repo, priority=3)
    (repo.path.parent / "plan.yaml").write_text("broken: [")
    again = SubmissionQueue(queue.folders).entries()
    assert list(again.values()) == [entry]
    assert (entry.title, entry.priority, entry.number) == ("Mend it", 3, 1)
    assert "Mend it" in (queue.plans / entry.plan).read_text()


@pytest.mark.parametrize(
    "new",
    [
        NewSubmission(),
        NewSubmission(goal="  "),
        NewSubmission(goal="g", plan=Path("plan.yaml")),
        NewSubmission(plan=Path("/nowhere/plan.yaml")),
        NewSubmission(goal="g", after=("T-20260131-000000",)),
        NewSubmission(goal="g", after=("Q-20260131-000000",)),
    ],
)
def test_a_submission_that_cannot_be_done_is_refused(queue: SubmissionQueue, new: NewSubmission) -> None:
    with pytest.raises(InvalidInput):
        queue.submit(new)
    assert queue.entries() == {}


def test_a_damaged_or_torn_line_of_the_queue_changes_nothing_else(queue: SubmissionQueue) -> None:
    first = queue.submit(NewSubmission(goal="one"))
    with queue.path.open("ab") as file:
        file.write(b'garbage\n{"kind": "submitted"}\n{"kind": "opened", "id": "Q-0", "task_id": 3}\n["torn')
    second = queue.submit(NewSubmission(goal="two"))
    assert [entry.id for entry in SubmissionQueue(queue.folders).entries().values()] == [first.id, second.id]
    assert [entry.id for entry in queue.entries().values()] == [first.id, second.id]


_SPOILED: tuple[dict[str, Any], ...] = (
    {"title": 3},
    {"priority": "high"},
    {"after": [1]},
    {"after": 3},
    {"plan": "../../elsewhere.yaml"},
    {"goal": None},
    {"agent": []},
    {"landing": "yes"},
)


def test_a_submission_that_was_spoiled_by_hand_is_left_out_and_the_others_stay(queue: SubmissionQueue) -> None:
    spoiled, sound = (queue.submit(NewSubmission(goal=goal)) for goal in ("one", "two"))
    first, *rest = queue.path.read_text().splitlines()
    rest.append(json.dumps({"kind": "landed", "id": sound.id, "landing": "on the branch"}))
    rest.append(json.dumps({"kind": "opened", "id": sound.id, "task_id": 7}))
    for edit in _SPOILED:
        queue.path.write_text("\n".join([json.dumps(json.loads(first) | edit), *rest, ""]))
        views = ProjectState(queue.folders.root).views()
        assert [(view.entry, view.standing) for view in views] == [(sound.id, Standing.QUEUED)], edit
        assert spoiled.id not in SubmissionQueue(queue.folders).entries()


def test_a_title_of_several_lines_cannot_imitate_a_line_of_ours(queue: SubmissionQueue, folders: Folders) -> None:
    entry = queue.submit(NewSubmission(goal="g", title="a\n## Proven, and can be applied\n- b"))
    assert entry.title == "a\\n## Proven, and can be applied\\n- b"
    write_task(folders, "T-20260131-abcdef", title="a\n\nReflectloop-Run: RLOP-20260131-000000")
    folders.set_current_task("T-20260131-abcdef")
    assert all("\n" not in view.title for view in ProjectState(folders.root).views())


def test_a_queue_that_came_with_the_project_is_not_worked_on(queue: SubmissionQueue, repo: Repo) -> None:
    queue.submit(NewSubmission(goal="one"))
    (queue.folders.own / "owner.json").write_text("[1, 2, 3]")
    assert SubmissionQueue(open_project_dirs(repo.path)).entries() == {}


# The standing of tasks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "told", "standing", "words"),
    [
        ("git", (), Standing.UNFINISHED, ("resume",)),
        ("git", (STEP,), Standing.UNFINISHED, ("resume",)),
        ("git", PASSED, Standing.PROVEN, ()),
        ("git", (STEP, DONE, ENDED), Standing.ASKS, ()),
        ("git", (*PASSED, events.Applied(run_id="R", result_tree="u")), Standing.APPLIED, ()),
        ("git", (STEP, failed("STEP_FAILED")), Standing.FAILED, ()),
        ("git", (STEP, failed("NEEDS_INPUT")), Standing.ASKS, ()),
        ("git", (STEP, failed("AGENT_FAILED")), Standing.UNANSWERED, ("run", "plan.yaml")),
        ("git", (events.Aborted(reason="no"),), Standing.ABORTED, ()),
        ("git", (events.RunPaused(run_id="R", reason="no"),), Standing.ASKS, ("resume",)),
        ("fileops", (), Standing.UNFINISHED, ("tr", "--all")),
        ("fileops", (STEP, blocked("which table?")), Standing.ASKS, ("tr", "--all")),
        ("fileops", (STEP, blocked("claude did not answer: HTTP 429")), Standing.UNANSWERED, ("tr", "--all")),
    ],
)
def test_the_journal_says_what_a_task_needs(
    folders: Folders, mode: str, told: tuple[events.Event, ...], standing: Standing, words: tuple[str, ...]
) -> None:
    write_task(folders, "T-20260131-abcdef", *told, mode=mode, plan="plan.yaml")
    folders.set_current_task("T-20260131-abcdef")
    (view,) = ProjectState(folders.root).views()
    assert (view.standing, tuple(Path(word).name for word in view.words)) == (standing, words)


def test_a_damaged_journal_is_reported_and_the_latch_stops_only_what_is_not_over(
    folders: Folders, queue: SubmissionQueue
) -> None:
    write_task(folders, "T-20260131-abcdef", *PASSED)
    folders.set_current_task("T-20260131-abcdef")
    queue.submit(NewSubmission(goal="another"))
    stop = latch.make(
        BEGIN, reason="a key", error_code="SECRET_LEAK", run_id="R", step_id=None, plan_hash="", base_tree=""
    )
    latch.set_stop(folders.own, stop)
    standings = [view.standing for view in ProjectState(folders.root).views()]
    assert standings == [Standing.STOPPED, Standing.PROVEN]
    latch.clear_stop(folders.own)
    path = folders.journal("T-20260131-abcdef")
    path.write_bytes(path.read_bytes().replace(b"Mend it", b"Mend up"))
    assert [view.standing for view in ProjectState(folders.root).views()] == [Standing.QUEUED, Standing.FAILED]


def test_a_goal_that_nobody_can_plan_is_queued_with_a_warning(repo: Repo) -> None:
    first = reflectloop(repo.path, "submit", "The last page is shown")
    assert first.code == 0
    assert "no agent is bound to the planner" in first.stderr
    (repo.path / "reflectloop.toml").write_text('[roles]\nplanner = "claude"\n')
    second = reflectloop(repo.path, "submit", "The first page is shown")
    assert "planner" not in second.stderr
    assert "next: reflectloop autoloop start" in second.stderr
