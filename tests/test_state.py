"""The journal: what was written is what is read, or it is said at which line it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.errors import StateDamaged
from reflectloop.state import events, journal
from reflectloop.state.fold import fold
from reflectloop.state.journal import Journal
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
    book.append(events.RunFinished(run_id="R", error_code=None, end_tree="t1", duration_ms=9))
    book.append(events.Applied(run_id="R", result_tree="t1"))
    return book


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    story(path).close()
    task = fold(journal.read(path))
    assert (task.id, task.title) == ("T-1", "Tïtle")
    assert task.runs["R"].steps["a"].status == "done"
    assert task.runs["R"].steps["b"].status == "pending"
    assert task.runs["R"].applied == "t1"


def test_a_line_torn_at_any_byte_is_dropped_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    story(path).close()
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        assert len(journal.read(path)) == 5
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


def test_a_missing_or_doubled_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    story(path).close()
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in (lines[:2] + lines[3:], [*lines[:2], lines[1], *lines[2:]]):
        path.write_bytes(b"".join(damaged))
        with pytest.raises(StateDamaged, match="missing or doubled"):
            journal.read(path)


def test_events_that_cannot_follow_are_refused(tmp_path: Path) -> None:
    book = story(tmp_path / "journal.jsonl")
    book.append(events.StepStarted(run_id="R", step_id="b", tree="t1"))
    book.close()
    with pytest.raises(StateDamaged, match="outside a running run"):
        fold(journal.read(tmp_path / "journal.jsonl"))


def test_a_journal_of_the_first_schema_loads_for_ever() -> None:
    task = fold(journal.read(GOLDEN))
    assert task.id == "T-20260101-0a0b0c"
    assert [run.status for run in task.runs.values()] == ["failed", "ok"]
    assert [step.status for step in task.runs["RLOP-20260101-000001"].steps.values()] == ["done", "failed"]


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
