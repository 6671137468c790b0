"""Reads back what runs left: state by folding journals, artifacts from their folders. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.engine import next_command
from reflectloop.engine.artifacts import task_progress, views
from reflectloop.engine.folders import Folders, RunFolder, folders_at
from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.state import events, latch, snapshot
from reflectloop.state.fold import RunState, Task, TaskKind
from reflectloop.state.transitions import TaskState
from reflectloop.system import clock, files
from reflectloop.system.git import Git, GitFailed
from reflectloop.workspace import apply as applying
from reflectloop.workspace import patch, workspace_registry
from reflectloop.workspace.patch import TouchedFile
from reflectloop.workspace.store import Store

_TURN_S = 0.2
_GONE = "its engine is gone"
_PAUSED = "paused"
_BY_REQUESTS = "worked on by requests"
_BY_AGENTS = "worked on by tr"
_ABORTED = "aborted"
_AT_WORK = "an engine is at work on it"
_LAST_WORD = "every step is done; the last word is open"
_ONWARD = {_GONE: next_command.RESUME, _PAUSED: next_command.RESUME, _AT_WORK: "reflectloop status"}


def tasks(folders: Folders, load: Callable[[Path], Task] = snapshot.whole) -> list[Task]:
    """Every task there is, oldest first. By the whole journals, since work is applied by what they say."""
    found = sorted((folders.own / "tasks").glob("T-*/journal.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    return [load(path.parent) for path in found]


def all_tasks(start: Path) -> list[dict[str, Any]]:
    """Every task with its state, oldest first."""
    folders = folders_at(start)
    current = folders.current_task()
    return [_told(task, current) for task in tasks(folders, snapshot.load)]


def _told(task: Task, current: str | None) -> dict[str, Any]:
    run = list(task.runs.values())[-1] if task.runs else None
    return {
        "id": task.id,
        "title": task.title,
        "plan_path": task.plan_path,
        "state": str(task.state),
        "runs": len(task.runs),
        "steps_done": run.count("done") + run.count("skipped") if run else 0,
        "steps_total": len(run.steps) if run else 0,
        "current": task.id == current,
    }


def find_run(folders: Folders, folder: RunFolder) -> tuple[Task, RunState] | None:
    for task in reversed(tasks(folders)):
        if folder.run_id in task.runs:
            return task, task.runs[folder.run_id]
    return None


def status(start: Path, *, everything: bool) -> dict[str, Any]:
    folders = folders_at(start)
    current = folders.current_task()
    known = tasks(folders, snapshot.load) if everything else []
    if current and not everything:
        known = [snapshot.load(folders.journal(current).parent)]
    task = next((one for one in known if one.id == current), None)
    every = [(one, run) for one in known for run in one.runs.values()]
    runs = [_run(folders, one, run) for one, run in every]
    onwards = next_command.command(every[-1][1]) if every else ""
    spaces = workspace_registry.entries(folders.own)
    stop = latch.read_stop(folders.own)
    torn = applying.was_killed(folders.own / "tmp")
    at = task_progress.step_of(task) if task else None
    return {
        "stop": stop.as_json() if stop else None,
        "torn_apply": torn,
        "task": {"id": task.id, "title": task.title, "plan_path": task.plan_path} if task else None,
        "runs": runs,
        "step": at,
        "cost": task_progress.cost(folders, task) if task and task.spent else None,
        "known_fixes": _known_fixes(folders, runs),
        "workspaces": {"count": len(spaces), "bytes": sum(files.size_of(entry.folder) for entry in spaces)},
        "warnings": views.edited(folders.journal(current).parent) if current else [],
        "next": "reflectloop unlock --reason TEXT" if stop else "reflectloop apply" if torn else _next(runs, onwards),
    }


def _known_fixes(folders: Folders, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What helped against the failure that the last run ended with."""
    if not runs or runs[-1]["status"] != "failed":
        return []
    card = RunFolder(folders.own / "runs" / runs[-1]["run_id"]).blocker
    found = _read_yaml(card).get("known_fixes") if card.exists() else None
    return [one for one in found or () if isinstance(one, dict) and "id" in one]


def _run(folders: Folders, task: Task, run: RunState) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "status": run.status,
        "started": run.started,
        "error_code": run.error_code,
        "steps_done": run.count("done") + run.count("skipped"),
        "steps_total": len(run.steps),
        "touched": _touched(folders, run) if run.status == "ok" else None,
        "applied": bool(run.applied),
        "note": _note(folders, task, run),
    }


def _note(folders: Folders, task: Task, run: RunState) -> str:
    if run.kind is TaskKind.IMPORTED:
        return events.IMPORTED
    if run.status != "running":
        return "applied" if run.applied else ""
    if task.state is TaskState.ABORTED:
        return _ABORTED
    if task.state is TaskState.PAUSED:
        return _PAUSED
    if run.kind.is_stepwise:
        return _note_by_requests(folders, run)
    place = _at_work(folders, run.id)
    return f"running in {place}" if place else _GONE


def _note_by_requests(folders: Folders, run: RunState) -> str:
    if any(entry.fate == "at work" and entry.alive for entry in workspace_registry.entries(folders.own)):
        return _AT_WORK
    if run.kind is TaskKind.AGENTS:
        return _BY_AGENTS
    left = any(step.status not in ("done", "skipped") for step in run.steps.values())
    return _BY_REQUESTS if left else _LAST_WORD


def _touched(folders: Folders, run: RunState) -> int | None:
    """How many files a run touched; unknown where the user's repository no longer holds its base."""
    try:
        return len(patch.touched(Store(folders.own / "git", "").git(), run.base_tree, run.end_tree or run.base_tree))
    except GitFailed:
        return None


def _next(runs: list[dict[str, Any]], onwards: str) -> str:
    if not runs or runs[-1]["note"] in (events.IMPORTED, _ABORTED):
        return "reflectloop run PLAN"
    last = runs[-1]
    if last["note"].startswith("running"):
        return f"reflectloop log {last['run_id']}"
    if last["note"] in (_BY_REQUESTS, _BY_AGENTS, _LAST_WORD):
        return onwards
    if last["note"] in _ONWARD:
        return _ONWARD[last["note"]]
    if last["status"] == "ok":
        return (
            "reflectloop run PLAN" if last["applied"] or not last["touched"] else f"reflectloop apply {last['run_id']}"
        )
    return f"reflectloop show {last['run_id']}"


def _at_work(folders: Folders, run_id: str) -> Path | None:
    """Where a run is at work this moment; None when it has ended, well or not."""
    entry = workspace_registry.find(folders.own, run_id)
    return entry.folder / "repo" if entry and entry.fate == "at work" and entry.alive else None


def refuse_running(folders: Folders, folder: RunFolder) -> None:
    place = _at_work(folders, folder.run_id)
    if place is None:
        return
    found = find_run(folders, folder)
    steps = found[1].steps.values() if found else ()
    now = [step.id for step in steps if step.status == "running"]
    done = f", {found[1].count('done')} of {len(found[1].steps)} step(s) done" if found else ""
    at = f", now {', '.join(now)}" if now else ""
    raise NothingToDo(
        f"{folder.run_id} is still running in {place}{done}{at}", next_step=f"reflectloop log {folder.run_id}"
    )


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - only for who reads an artifact back; most look at the journal alone

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        value: dict[str, Any] = yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 - a safe loader
    except FileNotFoundError as fault:
        raise NothingToDo(f"{path.parent.name} left no {path.name}: its engine was killed") from fault
    return value


def result(start: Path, name: str | None) -> dict[str, Any]:
    folders = folders_at(start)
    folder = folders.find_run(name)
    if not folder.result.exists():
        refuse_running(folders, folder)
    found = _read_yaml(folder.result)
    if folder.blocker.exists():
        found["blocker"] = _read_yaml(folder.blocker)
    return found


def summary(start: Path, name: str | None) -> str:
    folders = folders_at(start)
    folder = folders.find_run(name)
    if not folder.summary.exists():
        refuse_running(folders, folder)
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


def follow(start: Path, name: str | None, step: str | None, show: Callable[[str], None]) -> None:
    """What a run's commands print, as it comes, until the run is over. By default the run that is at work."""
    folders = folders_at(start)
    folder = folders.find_run(name) if name else _newest(folders)
    told: dict[Path, int] = {}
    while True:
        alive = _at_work(folders, folder.run_id) is not None
        for path in sorted(
            folder.logs.glob(f"{step or '*'}.*.log"), key=lambda one: (one.stat().st_ctime_ns, one.name)
        ):
            with path.open("rb") as file:
                file.seek(told.get(path, 0))
                fresh = file.read()
            told[path] = told.get(path, 0) + len(fresh)
            if fresh:
                show(fresh.decode("utf-8", "replace"))
        if not alive:
            return
        clock.wait(_TURN_S)


def _newest(folders: Folders) -> RunFolder:
    """The current task's last run, which may not have come to its end."""
    current = folders.current_task()
    task = snapshot.load(folders.journal(current).parent) if current else Task()
    if not task.runs:
        raise NothingToDo("nothing has run here yet", next_step="reflectloop run PLAN")
    return RunFolder(folders.own / "runs" / list(task.runs)[-1])


def base_is_gone(run_id: str) -> InvalidInput:
    return InvalidInput(
        f"the repository no longer holds the tree {run_id} began with (git gc took it)",
        next_step=f"git apply .reflectloop/runs/{run_id}/changes.patch, or run the plan again",
    )


class DiffView(NamedTuple):
    run_id: str
    base: str
    end: str
    touched: tuple[TouchedFile, ...]
    git: Git

    def stream(self, on_chunk: Callable[[bytes], None], *, exact: bool) -> None:
        """The patch, redacted: this is a view, the exact one lies in the run's folder."""
        cleaned = patch.RedactedPatch(on_chunk)
        patch.stream(self.git, self.base, self.end, cleaned.feed, exact=exact)
        cleaned.finish()


def change(start: Path, name: str | None) -> DiffView:
    """What a run changed so far."""
    folders = folders_at(start)
    folder = folders.find_run(name)
    found = find_run(folders, folder)
    if found is None or found[1].end_tree is None:
        refuse_running(folders, folder)
        raise NothingToDo(f"{folder.run_id} changed nothing", next_step=f"reflectloop show {folder.run_id}")
    run = found[1]
    if run.error_code == "SECRET_LEAK":
        raise NothingToDo(f"{folder.run_id} leaked a secret; nothing of it was kept", next_step="reflectloop show")
    redacted = folder.path / patch.REDACTED
    if redacted.exists():
        raise NothingToDo(
            f"what {folder.run_id} changed may hold a secret, and was not kept",
            next_step=f"less {redacted}, or look at its files: reflectloop shell {folder.run_id}",
        )
    end = run.end_tree or run.base_tree
    git = Store(folders.own / "git", "").git()
    try:
        touched = patch.touched(git, run.base_tree, end)
    except GitFailed as fault:
        raise base_is_gone(folder.run_id) from fault
    return DiffView(folder.run_id, run.base_tree, end, touched, git)
