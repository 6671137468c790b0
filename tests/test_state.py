"""The journal: what was written is what is read, or it is said at which line it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflectloop.errors import StateDamaged
from reflectloop.state import events, journal, snapshot
from reflectloop.state.fold import advance, fold
from reflectloop.state.journal import Journal, JournalEntry
from reflectloop.state.transitions import TaskState, allowed
from support import Repo

GOLDEN = Path(__file__).parent / "golden" / "journal-v1.jsonl"


def story(path: Path) -> Journal:
    book = Journal(path)
    book.append(events.TaskOpened(task_id="T-1", plan_path="plan.yaml", title="Tïtle"))
    book.append(
        events.RunStarted(
            run_id="R", plan_hash="h", base_tree="t0", base_commit="c", isolation="workspace", steps=["a", "b"]
        )
    )
    book.append(events.StepStarted(run_id="R", step_id="a", tree="t0"))
    book.append(events.StepFinished(run_id="R", step_id="a", success=True, exit_code=0, tree="t1", duration_ms=5))
    book.append(events.StepSkipped(run_id="R", step_id="b", reason="not needed"))
    book.append(events.RunFinished(run_id="R", error_code=None, end_tree="t1", duration_ms=9))
    book.append(events.Applied(run_id="R", result_tree="t1"))
    return book


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    story(path).close()
    task = fold(journal.read(path))
    assert (task.id, task.title) == ("T-1", "Tïtle")
    assert task.runs["R"].steps["a"].status == "done"
    assert (task.runs["R"].steps["b"].status, task.runs["R"].steps["b"].reason) == ("skipped", "not needed")
    assert task.state is TaskState.DONE
    assert task.runs["R"].applied == "t1"


def test_an_incomplete_last_line_is_dropped_and_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    story(path).close()
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        assert len(journal.read(path)) == 6
        book = Journal(path)
        book.append(events.Applied(run_id="R", result_tree="t2"))
        book.close()
        assert fold(journal.read(path)).runs["R"].applied == "t2"


@given(st.data())
def test_a_flipped_bit_is_refused_with_its_line(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("flip") / "journal.jsonl"
    story(path).close()
    raw = bytearray(path.read_bytes())
    spots = [index for index, byte in enumerate(raw) if byte != 0x0A]
    spot = data.draw(st.sampled_from(spots))
    raw[spot] ^= 1 << data.draw(st.integers(0, 7))
    if raw.count(b"\n") != 6:
        return  # a new line break is another kind of damage
    path.write_bytes(raw)
    with pytest.raises(StateDamaged) as damaged:
        journal.read(path)
    line = raw.count(b"\n", 0, spot) + 1
    assert f"journal.jsonl:{line}:" in damaged.value.message


def test_a_missing_or_duplicated_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    story(path).close()
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in (lines[:2] + lines[3:], [*lines[:2], lines[1], *lines[2:]]):
        path.write_bytes(b"".join(damaged))
        with pytest.raises(StateDamaged, match="missing or duplicated"):
            journal.read(path)


def test_events_that_cannot_follow_are_refused(tmp_path: Path) -> None:
    book = story(tmp_path / "journal.jsonl")
    book.append(events.StepStarted(run_id="R", step_id="b", tree="t1"))
    book.close()
    with pytest.raises(StateDamaged, match="outside a running run"):
        fold(journal.read(tmp_path / "journal.jsonl"))


STEPS = ["a", "b", "c"]


def _held(run_id: str, grade: str) -> events.LatchSet:
    return events.LatchSet(
        id="L",
        grade=grade,
        reason="r",
        error_code="STEP_FAILED",
        run_id=run_id,
        step_id=None,
        plan_hash="h",
        base_tree="t",
    )


def _events() -> st.SearchStrategy[events.Event]:
    names = st.sampled_from(STEPS)
    runs = st.sampled_from(["R", "Q"])
    codes = st.sampled_from([None, "STEP_FAILED", "SECRET_LEAK", "INTERRUPTED"])
    run = {"plan_hash": "h", "base_tree": "t", "base_commit": "c", "isolation": "full", "steps": STEPS}
    return st.one_of(
        st.builds(lambda run_id: events.RunStarted(run_id=run_id, **run), runs),  # type: ignore[arg-type]
        st.builds(lambda run_id, name: events.StepStarted(run_id=run_id, step_id=name, tree="t"), runs, names),
        st.builds(
            lambda run_id, name, good: events.StepFinished(
                run_id=run_id, step_id=name, success=good, exit_code=0, tree="t", duration_ms=1
            ),
            runs,
            names,
            st.booleans(),
        ),
        st.builds(lambda run_id, name: events.StepInterrupted(run_id=run_id, step_id=name), runs, names),
        st.builds(lambda run_id, name: events.StepSkipped(run_id=run_id, step_id=name, reason="r"), runs, names),
        st.builds(
            lambda run_id, name: events.StepsReset(run_id=run_id, steps=[name], how="redo", reason="r"), runs, names
        ),
        st.builds(lambda run_id: events.RunReopened(run_id=run_id), runs),
        st.builds(lambda run_id: events.RunPaused(run_id=run_id, reason="r"), runs),
        st.builds(lambda run_id: events.RunResumed(run_id=run_id), runs),
        st.builds(
            lambda run_id, code: events.RunFinished(run_id=run_id, error_code=code, end_tree="t", duration_ms=1),
            runs,
            codes,
        ),
        st.builds(_held, runs, st.sampled_from(["failure", "stop"])),
        st.builds(lambda how: events.LatchCleared(how=how, reason="r"), st.sampled_from(["unlock", "retry"])),
        st.just(events.Aborted(reason="r")),
    )


@settings(max_examples=400)
@given(st.lists(_events(), max_size=40))
def test_no_sequence_of_events_leads_to_an_illegal_state(told: list[events.Event]) -> None:
    """What does not fit is refused and changes nothing that counts; DONE means that every step is done or skipped."""
    task = fold([JournalEntry(1, "", events.TaskOpened(task_id="T", plan_path="p", title="t"))])
    for number, event in enumerate(told, 2):
        before, left = task.state, task.left
        attempts = {name: step.attempts for run in task.runs.values() for name, step in run.steps.items()}
        try:
            advance(task, JournalEntry(number, "", event))
        except StateDamaged:
            return  # an engine that reads this goes no further
        if before in (TaskState.DONE, TaskState.ABORTED):
            assert task.state is before
        assert task.state is before or _reachable(before, task.state, left)
        assert all(
            step.attempts >= 0 and step.interrupted >= 0 for run in task.runs.values() for step in run.steps.values()
        )
        assert set(attempts) <= set(STEPS)
        if task.state is TaskState.DONE:
            last = list(task.runs.values())[-1]
            assert last.status == "ok"
            assert all(step.status in ("done", "skipped") for step in last.steps.values())


def _reachable(before: TaskState, after: TaskState, left: TaskState | None) -> bool:
    """By legal moves alone."""
    seen, edge = {before}, {before}
    while edge:
        edge = {state for one in edge for state in TaskState if allowed(one, state, left)} - seen
        seen |= edge
    return after in seen


def test_a_journal_of_the_first_schema_loads() -> None:
    task = fold(journal.read(GOLDEN))
    assert task.id == "T-20260101-0a0b0c"
    assert [run.status for run in task.runs.values()] == ["failed", "ok"]
    assert [step.status for step in task.runs["RLOP-20260101-000001"].steps.values()] == ["done", "failed"]


def test_a_journal_with_fixes_loads_without_those_of_a_discarded_attempt(tmp_path: Path) -> None:
    task = fold(journal.read(GOLDEN.with_name("journal-fixes-v1.jsonl")))
    (fix,) = task.runs["R"].fixes
    assert (fix["lesson"], fix["outcome"], fix["commands"], fix["changed"]) == (
        "L-0000000002",
        "worked",
        ["make it"],
        ["it"],
    )
    assert task.met == {"43": ["b"]}
    (tmp_path / "journal.jsonl").write_bytes(GOLDEN.with_name("journal-fixes-v1.jsonl").read_bytes())
    snapshot.write(tmp_path, snapshot.read_journal(tmp_path), {})
    kept = snapshot.read_document(tmp_path)
    assert kept
    assert kept.task == task


def test_a_fix_is_tried_while_its_step_runs_and_at_no_other_time(tmp_path: Path) -> None:
    book = story(tmp_path / "journal.jsonl")
    book.append(events.FixTried(run_id="R", step_id="a", lesson="L-1", outcome="worked"))
    book.close()
    with pytest.raises(StateDamaged, match="fix_tried"):
        fold(journal.read(tmp_path / "journal.jsonl"))


def test_status_is_computed_from_the_journal_alone(repo: Repo) -> None:
    assert repo.run("run", repo.steps("true", "false")).code == 30
    told = repo.run("status", "--json").json["data"]
    assert told["runs"][0]["steps_done"] == 1
    assert told["runs"][0]["error_code"] == "STEP_FAILED"
    assert told["task"]["title"] == "Test"
    assert told["workspaces"]["count"] == 1
    json.dumps(told)


def test_runs_of_one_plan_are_one_task_until_it_succeeds(repo: Repo) -> None:
    repo.run("run", repo.steps("false"))
    repo.run("run", repo.steps("true"))
    repo.run("run", repo.steps("true"))
    folders = sorted((repo.path / ".reflectloop" / "tasks").iterdir())
    assert sorted(len(fold(journal.read(folder / "journal.jsonl")).runs) for folder in folders) == [1, 2]
