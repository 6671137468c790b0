"""Tasks to look at: journals written by hand, and a run of which the second step fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reflectloop.state import events, journal, snapshot
from reflectloop.state.fold import Task, fold
from reflectloop.state.journal import Journal
from support import Answer, Repo


def opened(folder: Path, *steps: str) -> Journal:
    """A task whose first step is done and whose second has begun."""
    book = Journal(folder / "journal.jsonl")
    book.append(events.TaskOpened(task_id="T-1", plan_path="plan.yaml", title="Tïtle"))
    book.append(
        events.RunStarted(
            run_id="R", plan_hash="h", base_tree="t0", base_commit="c", isolation="full", steps=list(steps)
        )
    )
    finish(book, steps[0])
    book.append(events.StepStarted(run_id="R", step_id=steps[1], tree="t1"))
    return book


def finish(book: Journal, step: str, **more: Any) -> None:
    book.append(events.StepStarted(run_id="R", step_id=step, tree="t0"))
    said = {"success": True, "exit_code": 0, "tree": "t1", "duration_ms": 5, **more}
    book.append(events.StepFinished(run_id="R", step_id=step, **said))


def kept(folder: Path) -> None:
    snapshot.write(folder, snapshot.read_journal(folder), {})


def truth(folder: Path) -> Task:
    return fold(journal.read(folder / "journal.jsonl"))


def run(repo: Repo) -> Answer:
    return repo.run("run", repo.path.parent / "plan.yaml")


def task_folder(repo: Repo) -> Path:
    own = repo.path / ".reflectloop"
    return own / "tasks" / (own / "current").read_text().strip()


def items(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.lstrip().startswith("- ")]


def warnings(repo: Repo) -> list[str]:
    found: list[str] = repo.run("status", "--json").json["data"]["warnings"]
    return found


def journals(repo: Repo) -> list[Path]:
    return list((repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl"))


def forged(**changes: Any) -> Callable[[Path], object]:
    """A state written by somebody who knows how it is sealed."""

    def forge(path: Path) -> None:
        said = json.loads(path.read_text())
        said.pop("crc")
        path.write_bytes(journal.seal(said | changes))

    return forge
