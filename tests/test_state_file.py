"""`state.json` is read instead of the part of the journal that it covers, and ignored otherwise."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.artifacts import views
from reflectloop.errors import StateDamaged
from reflectloop.state import events, journal, snapshot
from reflectloop.state.fold import Latch, RunState, StepState, Task
from reflectloop.state.journal import Journal, JournalEntry
from reflectloop.state.transitions import TaskState
from tasks import finish, forged, kept, opened, truth

GOLDEN = Path(__file__).parent / "golden"


def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many lines each reading of a journal took apart."""
    counts: list[int] = []
    real = journal.parse

    def counted(path: Path, raw: bytes, before: int = 0) -> list[JournalEntry]:
        counts.append(raw.count(b"\n"))
        return real(path, raw, before)

    monkeypatch.setattr(journal, "parse", counted)
    return counts


def test_a_state_that_covers_the_journal_is_read_instead_of_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, counts = truth(folder), parsed(monkeypatch)
    assert snapshot.load_task(folder) == expected
    assert counts == [0]


def test_only_the_lines_after_a_state_are_folded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = Journal(folder / "journal.jsonl")
    book.append(
        events.StepFinished(run_id="R", step_id="b", success=True, exit_code=0, tree="t2", duration_ms=1, reason="")
    )
    finish(book, "c", success=False, exit_code=3, reason="exited 3")
    book.close()
    expected, counts = truth(folder), parsed(monkeypatch)
    found = snapshot.load_task(folder)
    assert found == expected
    assert found.runs["R"].steps["c"].reason == "exited 3"
    assert counts == [3]


def test_an_incomplete_last_line_is_not_part_of_a_state(folder: Path) -> None:
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b'{"v":1,"seq":6,"at"')
    kept(folder)
    said = json.loads((folder / "state.json").read_text())
    assert said["revision"] == 5
    assert snapshot.load_task(folder) == truth(folder)


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """By somebody who does not know of the checksum."""

    def edit(path: Path) -> None:
        said = json.loads(path.read_text())
        change(said)
        path.write_text(json.dumps(said, separators=(",", ":")) + "\n")

    return edit


def _finish_all(said: dict[str, Any]) -> None:
    for step in said["task"]["runs"]["R"]["steps"].values():
        step["status"] = "done"


UNUSABLE = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "noise": lambda path: path.write_bytes(random.Random(1).randbytes(500)),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "edited by hand": edited(_finish_all),
    "laid out anew": lambda path: path.write_text(json.dumps(json.loads(path.read_text()), indent=2)),
    "of a newer schema": forged(schema_version=2),
    "of no schema": forged(schema_version=None),
    "with fields nobody knows": forged(more=1),
    "without a task": forged(task=None),
    "ahead of the journal": forged(revision=9),
    "of another journal": forged(journal_sha256="0" * 64),
}


def test_a_journal_that_was_cut_at_the_end_of_a_line_is_refused(folder: Path) -> None:
    path = folder / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]))
    for read in (snapshot.load_task, snapshot.load_from_journal, lambda place: journal.read(place / "journal.jsonl")):
        with pytest.raises(
            StateDamaged, match=rf"journal.jsonl:{len(lines) - 1}: lines are missing at its end"
        ) as refused:
            read(folder)
    assert "remove" in refused.value.next_step
    (folder / "state.json").unlink()
    assert snapshot.load_task(folder) == truth(folder)


@pytest.mark.parametrize("how", UNUSABLE)
def test_an_unusable_state_is_ignored_and_rebuilt(folder: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    UNUSABLE[how](folder / "state.json")
    expected, counts = truth(folder), parsed(monkeypatch)
    assert snapshot.load_task(folder) == expected
    assert counts[-1] == 5
    if how != "a folder":
        kept(folder)
        assert snapshot.load_task(folder) == expected
        assert counts[-1] == 0


@given(st.data())
def test_a_state_with_a_flipped_bit_is_ignored(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    place = tmp_path_factory.mktemp("flip")
    opened(place, "a", "b").close()
    kept(place)
    raw = bytearray((place / "state.json").read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 2))] ^= 1 << data.draw(st.integers(0, 7))
    (place / "state.json").write_bytes(raw)
    assert snapshot.read_document(place) is None
    assert snapshot.load_task(place) == truth(place)


def test_a_damaged_journal_is_an_error_with_its_line_whatever_the_state_says(folder: Path) -> None:
    path = folder / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"t0", b"t9")
    path.write_bytes(b"".join(lines))
    with pytest.raises(StateDamaged, match=r"journal\.jsonl:3:"):
        snapshot.load_task(folder)
    assert "journal.jsonl:3:" in views.refresh(folder)[0]


def test_a_state_does_not_outlive_a_replaced_journal(folder: Path) -> None:
    (folder / "journal.jsonl").unlink()
    assert snapshot.load_task(folder) == Task()


def test_every_field_of_a_task_comes_back(tmp_path: Path) -> None:
    ended = events.StepFinished(
        run_id="R", step_id="a", success=False, exit_code=1, tree="t", duration_ms=1, checks=[{"name": "x", "held": 1}]
    )
    run = RunState(
        id="R",
        plan_hash="h",
        base_tree="t",
        isolation="full",
        started="now",
        steps={"a": StepState("a", "failed", 1, "t", "s", 1, 2, 1, ended, "why")},
        status="failed",
    )
    run.order, run.titles, run.objective = ["a"], {"a": "A"}, {"objective": {"goal": "g"}}
    latch = Latch(
        grade="failure", reason="r", error_code="STEP_FAILED", run_id="R", step_id="a", plan_hash="h", base_tree="t"
    )
    task = Task(
        id="T",
        plan_path="p",
        title="t",
        runs={"R": run},
        latch=latch,
        forgiven=1,
        state=TaskState.PAUSED,
        left=TaskState.EXECUTING,
    )
    snapshot.write(tmp_path, snapshot.JournalView(task, b""), {"todo.md": ["0"]})
    found = snapshot.read_document(tmp_path)
    assert found
    assert found.task == task
    assert found.views == {"todo.md": ["0"]}


def test_the_golden_state_of_schema_1_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copyfile(GOLDEN / "journal-v1.jsonl", tmp_path / "journal.jsonl")
    shutil.copyfile(GOLDEN / "state-v1.json", tmp_path / "state.json")
    expected, counts = truth(tmp_path), parsed(monkeypatch)
    assert snapshot.load_task(tmp_path) == expected
    found = snapshot.read_document(tmp_path)
    assert found
    lines = (tmp_path / "journal.jsonl").read_bytes().count(b"\n")
    assert counts == [lines - found.revision]
    assert found.task.title == "Golden"
    assert found.views["todo.md"] == ["ab" * 32]
    assert snapshot.views(tmp_path) == found.views
