"""Files written by an earlier version load, and mean the same as they did then."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from reflectloop import config
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.reflection.ticket import Ticket
from reflectloop.state import events, journal, latch, snapshot
from reflectloop.state.fold import Task
from reflectloop.trust import record
from reflectloop.workspace import workspace_registry
from support import Repo

GOLDEN = Path(__file__).parent / "golden" / "0.1.0.dev0"
TASKS = sorted(path.name for path in (GOLDEN / "records" / "tasks").iterdir())
PROVEN, BY_AGENTS, FAILED = "RLOP-20260102-0000a2", "RLOP-20260102-000010", "RLOP-20260102-000183"
SETTINGS = '[run]\nenv_allow = ["MY_VARIABLE"]\n[box]\nstrongest = "workspace"\n'


@pytest.fixture
def old(tmp_path: Path) -> Repo:
    """The project as the earlier version left it, under another path."""
    repo = Repo(tmp_path / "project")
    repo.git("clone", "-q", "-b", "main", str(GOLDEN / "project.bundle"), str(repo.path), cwd=tmp_path)
    shutil.copytree(GOLDEN / "records", repo.path / ".reflectloop", dirs_exist_ok=True)
    # A copied folder is not accepted as the engine's own; this names the copy as that version did.
    own = repo.path / ".reflectloop"
    (own / "owner.json").write_text(json.dumps([os.statvfs(own).f_fsid, own.stat().st_ino, os.geteuid()]))
    for name in ("config", "local"):
        shutil.copytree(GOLDEN / "home" / name, tmp_path / "home" / f".{name}")
    return repo


def facts(task: Task) -> dict[str, Any]:
    return {
        "title": task.title,
        "state": str(task.state),
        "latch": task.latch.grade if task.latch else None,
        "tokens": task.spent_in_all.tokens,
        "runs": {
            run.id: {
                "status": run.status,
                "decision": run.decision,
                "applied": run.applied,
                "steps": {step.id: [step.status, step.attempts] for step in run.steps.values()},
            }
            for run in task.runs.values()
        },
    }


@pytest.mark.parametrize("name", TASKS)
def test_a_journal_gives_the_same_state_as_then(name: str) -> None:
    folder = GOLDEN / "records" / "tasks" / name
    expected = json.loads((GOLDEN / "tasks.json").read_text())[name]
    assert facts(snapshot.load_from_journal(folder)) == expected
    document = snapshot.read_document(folder)
    assert document, "state.json is not accepted"
    assert facts(document.task) == expected
    assert snapshot.load_task(folder) == snapshot.load_from_journal(folder)


def test_the_journals_hold_every_kind_of_event_of_that_version() -> None:
    paths = GOLDEN.glob("records/tasks/*/journal.jsonl")
    kinds = {entry.event.kind for path in paths for entry in journal.read(path)}
    assert len(kinds) == 22
    assert kinds <= events.KINDS.keys()


@pytest.mark.parametrize("run_id", [PROVEN, BY_AGENTS, FAILED])
def test_a_receipt_and_its_chain_of_evidence_are_verified(old: Repo, run_id: str) -> None:
    answer = old.run("receipt", "verify", run_id, "--json")
    assert answer.code == 36, answer.stdout  # that version signed nothing
    assert "hashes agree" in answer.envelope["message"]
    assert "not authenticated" in answer.envelope["message"]
    evidence = old.path / ".reflectloop" / "runs" / run_id / "evidence.jsonl"
    evidence.write_bytes(evidence.read_bytes().replace(b'"exit_code":', b'"exit_code":9', 1))
    assert old.run("receipt", "verify", run_id).code == 12


def test_lessons_of_the_project_and_of_the_user_are_listed(old: Repo) -> None:
    lessons = {lesson["id"]: lesson for lesson in old.run("lessons", "list", "--json").json["data"]["lessons"]}
    kinds = "antipattern constraint failfix pattern preference problem rule_patch"
    assert sorted({lesson["kind"] for lesson in lessons.values()}) == kinds.split()
    fix = lessons["L-7c43a450da"]
    assert (fix["count"], fix["worked"], fix["failed"]) == (2, 1, 0)


def test_a_known_fix_of_then_is_tried_now(old: Repo) -> None:
    plan = old.steps("cat VERSION > RELEASE")
    answer = old.run("run", "--new", plan)
    assert answer.code == 0, answer.stderr
    assert "known fix L-7c43a450da tried: worked" in answer.stderr


def test_an_accepted_rule_stops_its_command(old: Repo) -> None:
    answer = old.run("run", "--new", "--json", old.steps("sh migrate.sh --all"))
    assert answer.envelope["error_code"] == "GATE_REJECTED"
    assert "learned.sh-migrate-sh-912198" in answer.stdout


def test_tickets_and_failure_records_are_read() -> None:
    paths = [path for path in GOLDEN.glob("records/tasks/*/tickets/*.json") if ".context." not in path.name]
    assert sorted(Ticket.model_validate_json(path.read_text()).ticket_id for path in paths) == [
        "rewind_20260102_030415_000100",
        "rewind_20260102_030748_0001d6",
    ]
    card = yaml.safe_load((GOLDEN / "records" / "runs" / FAILED / "blocker.yaml").read_text())
    failure = FailureRecord.model_validate(card["failure"])
    assert (failure.code, failure.signature) == ("STEP_FAILED", "912198670434804846")


def test_a_failed_run_is_shown_and_its_task_continues(old: Repo) -> None:
    assert "IntegrityError: rows lost" in old.run("log", FAILED, "a").stdout
    assert FAILED in old.run("show", FAILED).stdout
    known = {task["id"]: task["state"] for task in old.run("tasks", "--json").json["data"]}
    assert known.keys() == set(TASKS)
    assert known["T-20260102-0001ae"] == "BLOCKED"


def test_the_latch_still_stops_the_project(old: Repo) -> None:
    folder = old.path / ".reflectloop"
    shutil.copyfile(GOLDEN / "latch.json", folder / "latch.json")
    stop = latch.read_stop(folder)
    assert stop
    assert (stop.id, stop.error_code) == ("L-20260102-0001fa", "SECRET_LEAK")
    assert old.run("run", "--json", old.steps("true")).envelope["error_code"] == "LATCHED"


def test_trust_of_then_still_counts(old: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REFLECTLOOP_TRUST_PROJECT")
    path = record.path()
    path.write_text(path.read_text().replace("/tmp/golden/project", str(old.path.resolve())))
    path.chmod(0o600)
    path.parent.chmod(0o700)
    old.write("reflectloop.toml", SETTINGS)
    assert config.sources(old.path).is_trusted
    old.write("reflectloop.toml", SETTINGS.replace("MY_VARIABLE", "ANOTHER"))
    assert not config.sources(old.path).is_trusted


def test_workspaces_in_the_registry_are_known(old: Repo, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    for path in old.path.glob(".reflectloop/workspaces/*/workspace.json"):
        path.write_text(path.read_text().replace("/tmp/golden/temp/reflectloop", str(root)))
    entries = workspace_registry.entries(old.path / ".reflectloop")
    assert [(entry.name, entry.fate, entry.folder.parent) for entry in entries] == [
        (name, "kept", root) for name in ("RLOP-20260102-00012e", "RLOP-20260102-000141", FAILED)
    ]
