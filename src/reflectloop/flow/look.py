"""Reads back what runs left: state by folding journals, artifacts from their folders. Writes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from reflectloop import secrets
from reflectloop.box import environment
from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.flow.folders import Folders, RunFolder, folders_at
from reflectloop.state import journal
from reflectloop.state.fold import Run, Task, fold
from reflectloop.workspace import apply as applying
from reflectloop.workspace import ledger, patch
from reflectloop.workspace.patch import Touched
from reflectloop.workspace.store import Store
from reflectloop.world import files, process
from reflectloop.world.git import GitFailed

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def tasks(folders: Folders) -> list[Task]:
    """Every task there is, oldest first."""
    found = sorted((folders.own / "tasks").glob("T-*/journal.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    return [fold(journal.read(path)) for path in found]


def find_run(folders: Folders, folder: RunFolder) -> tuple[Task, Run] | None:
    for task in reversed(tasks(folders)):
        if folder.run_id in task.runs:
            return task, task.runs[folder.run_id]
    return None


def status(start: Path, *, everything: bool) -> dict[str, Any]:
    folders = folders_at(start)
    current = folders.current_task()
    known = tasks(folders) if everything else []
    if current and not everything:
        known = [fold(journal.read(folders.journal(current)))]
    task = next((one for one in known if one.id == current), None)
    runs = [_run(folders, run) for one in known for run in one.runs.values()]
    spaces = ledger.entries(folders.own)
    return {
        "torn_apply": applying.was_killed(folders.own / "tmp"),
        "task": {"id": task.id, "title": task.title, "plan_path": task.plan_path} if task else None,
        "runs": runs,
        "workspaces": {"count": len(spaces), "bytes": sum(files.size_of(entry.folder) for entry in spaces)},
        "next": _next(runs),
    }


def _run(folders: Folders, run: Run) -> dict[str, Any]:
    note = "applied" if run.applied else ""
    at_work = ledger.find(folders.own, run.id)
    if run.status == "running" and not (at_work and at_work.alive):
        note = "its engine is gone"
    return {
        "run_id": run.id,
        "status": run.status,
        "started": run.started,
        "error_code": run.error_code,
        "steps_done": run.count("done"),
        "steps_total": len(run.steps),
        "touched": _touched(folders, run) if run.status == "ok" else None,
        "applied": bool(run.applied),
        "note": note,
    }


def _touched(folders: Folders, run: Run) -> int | None:
    """How many files a run touched; unknown where the user's repository no longer holds its base."""
    try:
        return len(patch.touched(Store(folders.own / "git", "").git(), run.base_tree, run.end_tree or run.base_tree))
    except GitFailed:
        return None


def _next(runs: list[dict[str, Any]]) -> str:
    if not runs:
        return "reflectloop run PLAN"
    last = runs[-1]
    if last["status"] == "ok":
        return (
            "reflectloop run PLAN" if last["applied"] or not last["touched"] else f"reflectloop apply {last['run_id']}"
        )
    return f"reflectloop show {last['run_id']}"


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = yaml.load(path.read_bytes(), Loader=_Loader)  # noqa: S506 - a safe loader
    except FileNotFoundError as fault:
        raise NothingToDo(f"{path.parent.name} left no {path.name}: its engine was killed") from fault
    return value


def result(start: Path, name: str | None) -> dict[str, Any]:
    folder = folders_at(start).find_run(name)
    found = _read_yaml(folder.result)
    if folder.blocker.exists():
        found["blocker"] = _read_yaml(folder.blocker)
    return found


def summary(start: Path, name: str | None) -> str:
    folder = folders_at(start).find_run(name)
    if not folder.summary.exists():
        raise NothingToDo(
            f"{folder.run_id} left no summary: its engine was killed",
            next_step=f"reflectloop log {folder.run_id}",
        )
    return folder.summary.read_text()


def logs(start: Path, name: str | None, step: str | None) -> list[Path]:
    folder = folders_at(start).find_run(name)
    found = sorted(folder.logs.glob("*.log"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    if step:
        found = [path for path in found if path.name.rsplit(".", 2)[0] == step]
    if not found:
        what = f"step {step!r} of {folder.run_id}" if step else folder.run_id
        raise NothingToDo(f"{what} has no logs", next_step=f"reflectloop show {folder.run_id}")
    return found


def shell(start: Path, name: str | None, command: tuple[str, ...]) -> int:
    """Hand the terminal to a shell in the workspace that was kept of a run."""
    folders = folders_at(start)
    folder = folders.find_run(name)
    entry = ledger.find(folders.own, folder.run_id)
    if entry is None or entry.fate != "kept" or not (entry.folder / "repo").is_dir():
        raise NothingToDo(
            f"the workspace of {folder.run_id} was not kept; the last failed ones are", next_step="reflectloop status"
        )
    env = environment.for_folder(entry.name, entry.folder, dict(os.environ))
    words = list(command) or [os.environ.get("SHELL", "bash")]
    if process.find(words[0], path=env["PATH"], cwd=entry.folder / "repo") is None:
        raise InvalidInput(f"{words[0]}: command not found")
    return process.interactive(words, cwd=entry.folder / "repo", env=env)


def base_is_gone(run_id: str) -> InvalidInput:
    return InvalidInput(
        f"the repository no longer holds the tree {run_id} began with (git gc took it)",
        next_step=f"git apply .reflectloop/runs/{run_id}/changes.patch, or run the plan again",
    )


class Changed(NamedTuple):
    run_id: str
    base: str
    end: str
    text: bytes
    touched: tuple[Touched, ...]


def change(start: Path, name: str | None, *, with_text: bool = True) -> Changed:
    """What a run changed so far, redacted: this is a view, the exact patch lies in the run's folder."""
    folders = folders_at(start)
    folder = folders.find_run(name)
    found = find_run(folders, folder)
    if found is None or found[1].end_tree is None:
        raise NothingToDo(f"{folder.run_id} changed nothing", next_step=f"reflectloop show {folder.run_id}")
    run = found[1]
    if run.error_code == "SECRET_LEAK":
        raise NothingToDo(f"{folder.run_id} leaked a secret; nothing of it was kept", next_step="reflectloop show")
    end = run.end_tree or run.base_tree
    git = Store(folders.own / "git", "").git()
    try:
        text = patch.between(git, run.base_tree, end) if with_text else b""
        touched = patch.touched(git, run.base_tree, end)
    except GitFailed as fault:
        raise base_is_gone(folder.run_id) from fault
    clean = secrets.current().redact(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return Changed(folder.run_id, run.base_tree, end, clean, touched)
