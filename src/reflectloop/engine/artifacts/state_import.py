"""`import-state`: a task that was begun elsewhere, taken into a journal of ours as what it is: somebody's word."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from reflectloop.engine import tasks
from reflectloop.engine.artifacts import triflow, views
from reflectloop.engine.folders import Folders, folders_at
from reflectloop.state import events, lock
from reflectloop.system import clock
from reflectloop.workspace import secret_guard


class StateImport(NamedTuple):
    task_id: str
    run_id: str
    title: str
    claimed: int  # steps that are done by its word; none of it was seen here
    total: int
    warnings: list[str]


def import_state(start: Path, path: Path) -> StateImport:
    """Open a task with the steps of a TriFlow state. Nothing runs, and nothing that it claims is proven by that."""
    state = triflow.read(path)
    secret_guard.refuse_words(state.model_dump_json(), str(path))
    folders = folders_at(start)
    folders.claim()
    with lock.hold(folders.own, "import-state"):
        return _opened(folders, state, tasks.plan_key(folders, path))


def _opened(folders: Folders, state: triflow.TriflowState, key: str) -> StateImport:
    at = clock.now()
    task_id, run_id = clock.task_id(at), clock.run_id(at)
    steps = state.all_steps()
    book = folders.open_journal(task_id)
    try:
        book.append(events.TaskOpened(task_id=task_id, plan_path=key, title=state.taskName))
        book.append(
            events.RunStarted(
                run_id=run_id,
                plan_hash="",
                base_tree="",
                base_commit="",
                isolation="none",
                steps=list(steps),
                mode=events.IMPORTED,
                titles={name: step.title for name, step in steps.items()},
                objective=state.frame(),
                imported={name: {"status": step.status, "attempts": step.attempts} for name, step in steps.items()},
            )
        )
    finally:
        book.close()
    folders.set_current_task(task_id)
    claimed = sum(step.status == "done" for step in steps.values())
    warnings = views.refresh(book.path.parent)
    return StateImport(task_id, run_id, state.taskName, claimed, len(steps), warnings)
