"""`import-state`: import a TriFlow task into a new journal, with its progress as unverified claims."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from reflectloop.artifacts import triflow, views
from reflectloop.engine.tasks import open_tasks
from reflectloop.state import events, lock
from reflectloop.system import clock
from reflectloop.workspace import secret_guard
from reflectloop.workspace.folders import Folders, open_project_dirs


class StateImport(NamedTuple):
    task_id: str
    run_id: str
    title: str
    claimed: int  # steps that the file says are done; nothing was verified
    total: int
    warnings: list[str]


def import_state(start: Path, path: Path) -> StateImport:
    """Open a task with the steps of a TriFlow state. Nothing runs, and none of its claims count as evidence."""
    state = triflow.read(path)
    secret_guard.refuse_secret_text(state.model_dump_json(), str(path))
    folders = open_project_dirs(start)
    folders.ensure_owned()
    with lock.hold_lock(folders.own, "import-state"):
        return _open(folders, state, open_tasks.plan_key(folders, path))


def _open(folders: Folders, state: triflow.TriflowState, key: str) -> StateImport:
    at = clock.now()
    task_id, run_id = clock.task_id(at), clock.run_id(at)
    steps = state.all_steps()
    opened = events.TaskOpened(task_id=task_id, plan_path=key, title=state.taskName)
    started = events.RunStarted(
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
    warnings = views.append_events(folders, task_id, [opened, started], make_current=True)
    claimed = sum(step.status == "done" for step in steps.values())
    return StateImport(task_id, run_id, state.taskName, claimed, len(steps), warnings)
