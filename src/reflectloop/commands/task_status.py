"""`status`, `show`, `log`, `diff`: read back the state and the files of runs. Writes nothing."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reflectloop.artifacts import next_command
from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.state import events
from reflectloop.state.fold import RunState, Task, TaskKind
from reflectloop.state.transitions import TaskState
from reflectloop.system import clock, files
from reflectloop.system.git import Git, GitFailed
from reflectloop.terms import one_line
from reflectloop.workspace import tree_diff
from reflectloop.workspace.folders import Folders, RunFolder, open_project_dirs
from reflectloop.workspace.store import Store

if TYPE_CHECKING:
    from reflectloop.state import latch
    from reflectloop.workspace.patch import TouchedFile
    from reflectloop.workspace.workspace_registry import WorkspaceEntry

_POLL_S = 0.2


def all_tasks(start: Path) -> list[dict[str, Any]]:
    """Return every task with its state, oldest first."""
    folders = open_project_dirs(start)
    current = folders.current_task()
    return [_task_data(task, current) for task in folders.peek_tasks()]


def _task_data(task: Task, current: str | None) -> dict[str, Any]:
    run = task.last_run
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
    """Return the run of a run folder with its task; None if no journal names it."""
    for task in reversed(folders.load_tasks()):
        if folder.run_id in task.runs:
            return task, task.runs[folder.run_id]
    return None


def status(start: Path, *, everything: bool) -> dict[str, Any]:
    folders = open_project_dirs(start)
    current = folders.current_task()
    tasks = folders.peek_tasks() if everything else [folders.peek_current()] if current else []
    task = next((known for known in tasks if known.id == current), None)
    runs = [_run_data(folders, owner, run) for owner in tasks for run in owner.runs.values()]
    last_task = next((owner for owner in reversed(tasks) if owner.runs), None)
    spaces = _workspaces(folders)
    stop = _stop(folders)
    torn = folders.apply_was_killed
    newest = folders.find_verification(None)
    verifications = folders.verifications() if everything else [newest] if newest else []
    shown = [_verification_data(folder) for folder in verifications]
    then = next_command.for_verification(shown[-1]) if newest else None
    return {
        "stop": stop.as_json() if stop else None,
        "torn_apply": torn,
        "task": {"id": task.id, "title": task.title, "plan_path": task.plan_path} if task else None,
        "runs": runs,
        "verifications": shown,
        "step": _step(task) if task and task.last_run and task.last_run.kind.is_stepwise else None,
        "cost": _cost(folders, task) if task and task.spent else None,
        "known_fixes": _known_fixes(folders, runs),
        "workspaces": {"count": len(spaces), "bytes": sum(files.size_of(entry.folder) for entry in spaces)},
        "warnings": _edited_views(folders, current) if current else [],
        "next": next_command.UNLOCK
        if stop
        else "reflectloop apply"
        if torn
        else then or _next(folders, last_task, runs),
    }


def _workspaces(folders: Folders) -> list[WorkspaceEntry]:
    from reflectloop.workspace import workspace_registry  # noqa: PLC0415 - `diff` and `log` look at none

    return workspace_registry.entries(folders.own)


def _stop(folders: Folders) -> latch.Stop | None:
    from reflectloop.state import latch  # noqa: PLC0415

    return latch.read_stop(folders.own)


def _edited_views(folders: Folders, task: str) -> list[str]:
    from reflectloop.artifacts import edited_views  # noqa: PLC0415 - so do `diff` and `log`

    return [*edited_views.edited(folders.journal(task).parent), *edited_views.edited_at_top(folders)]


def _step(task: Task) -> dict[str, Any] | None:
    from reflectloop.engine.tasks import task_progress  # noqa: PLC0415 - loads the model of plans

    return task_progress.step_of(task)


def _cost(folders: Folders, task: Task) -> dict[str, Any] | None:
    from reflectloop.engine.tasks import task_progress  # noqa: PLC0415

    return task_progress.cost(folders, task)


def _verification_data(folder: RunFolder) -> dict[str, Any]:
    """Return what became of a verification; one that was interrupted has no outcome."""
    receipt = files.read_record(folder.path / "receipt.json")
    gated = files.read_record(folder.path / "gates.json")
    return {
        "run_id": folder.run_id,
        "command": "gate" if gated else "verify",
        "outcome": receipt.get("outcome") or receipt.get("decision"),
        "decision": receipt.get("decision"),
        "level": receipt.get("level"),
        "track": receipt.get("track"),
        "reasons": list(receipt.get("reasons", ())),
        "approvals": list(receipt.get("approvals", ())),
        "finished": receipt.get("finished"),
    }


def verification(start: Path, name: str | None) -> dict[str, Any] | None:
    """Return a verification in full: its verdict, or its gates, and its logs. None if the name is not one of these."""
    folder = open_project_dirs(start).find_verification(name)
    if folder is None:
        return None
    verdict = files.read_record(folder.path / "verdict.json")
    return {
        **_verification_data(folder),
        "verdict": verdict.get("data"),
        "gates": files.read_record(folder.path / "gates.json") or None,
        "folder": str(folder.path),
        "logs": [str(path) for path in _logs_of(folder)],
    }


def _known_fixes(folders: Folders, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the fixes that helped earlier against the failure of the last run."""
    if not runs or runs[-1]["status"] != "failed":
        return []
    card = folders.run_folder(runs[-1]["run_id"]).blocker
    fixes = _read_yaml(card).get("known_fixes") if card.exists() else None
    return [fix for fix in fixes or () if isinstance(fix, dict) and "id" in fix]


def _run_data(folders: Folders, task: Task, run: RunState) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "status": run.status,
        "started": run.started,
        "error_code": run.error_code,
        "steps_done": run.count("done") + run.count("skipped"),
        "steps_total": len(run.steps),
        "touched": _touched(folders, run) if run.status == "ok" else None,
        "applied": bool(run.applied),
        "outcome": run.outcome or None,
        "note": _note(folders, task, run),
    }


def _note(folders: Folders, task: Task, run: RunState) -> str:
    if run.kind is TaskKind.IMPORTED:
        return events.IMPORTED
    if run.status != "running":
        notes = ["waits for a person"] if run.waits_for_approval else []
        notes += [f"approved by {approval['by']}" for approval in run.approvals]
        return ", ".join([*notes, *(["applied"] if run.applied else [])])
    if task.state is TaskState.ABORTED:
        return "aborted"
    if task.state is TaskState.PAUSED:
        return "paused"
    if run.kind.is_stepwise:
        return _note_by_requests(folders, run)
    place = _workspace_at_work(folders, run.id)
    return f"running in {place}" if place else "not finished, and not running"


def _note_by_requests(folders: Folders, run: RunState) -> str:
    if _any_at_work(folders):
        return "an engine is at work on it"
    if run.waits_for_approval:
        return "waits for a person"
    if run.kind is TaskKind.AGENTS:
        return "to be continued by tr"
    left = any(step.status not in ("done", "skipped") for step in run.steps.values())
    return "to be continued by requests" if left else "every step is done; the final gates are open"


def _any_at_work(folders: Folders) -> bool:
    return any(entry.fate == "at work" and entry.alive for entry in _workspaces(folders))


def _touched(folders: Folders, run: RunState) -> int | None:
    """Return how many files a run touched; None if the user's repository no longer has its base."""
    if not run.end_tree or run.end_tree == run.base_tree:
        return 0
    git = Store(folders.own / "git", "").git()
    try:  # by name only: a patch would load the rules for secrets
        return len(tree_diff.changed_names(git, run.base_tree, run.end_tree, "--find-renames"))
    except GitFailed:
        return None


def _next(folders: Folders, task: Task | None, runs: list[dict[str, Any]]) -> str:
    if task is None:
        return folders.first_command()
    run = task.last_run
    touched = runs[-1]["touched"] if runs else None
    if run is None or run.status != "running":
        return next_command.for_status(task, run, "idle", touched=touched)
    if run.kind.is_stepwise:
        activity: next_command.Activity = "request at work" if _any_at_work(folders) else "idle"
    else:
        activity = "engine at work" if _workspace_at_work(folders, run.id) else "idle"
    return next_command.for_status(task, run, activity, touched=touched)


def _workspace_at_work(folders: Folders, run_id: str) -> Path | None:
    """Return the workspace in which an engine works on the run; None if no engine does."""
    from reflectloop.workspace import workspace_registry  # noqa: PLC0415

    entry = workspace_registry.find(folders.own, run_id)
    return entry.folder / "repo" if entry and entry.fate == "at work" and entry.alive else None


def refuse_running(folders: Folders, folder: RunFolder) -> None:
    """Raise NothingToDo if an engine still works on the run."""
    place = _workspace_at_work(folders, folder.run_id)
    if place is None:
        return
    known = find_run(folders, folder)
    steps = known[1].steps.values() if known else ()
    now = [step.id for step in steps if step.status == "running"]
    done = f", {known[1].count('done')} of {len(known[1].steps)} step(s) done" if known else ""
    at = f", now {', '.join(now)}" if now else ""
    raise NothingToDo(
        f"{folder.run_id} is still running in {place}{done}{at}", next_step=f"reflectloop log {folder.run_id}"
    )


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - most commands read only the journal

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        value: dict[str, Any] = yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 - a safe loader
    except FileNotFoundError as fault:
        raise NothingToDo(f"{path.parent.name} left no {path.name}: its engine was killed") from fault
    return value


def result(start: Path, name: str | None) -> dict[str, Any]:
    folders = open_project_dirs(start)
    folder = folders.find_run(name)
    if not folder.result.exists():
        refuse_running(folders, folder)
    content = _read_yaml(folder.result)
    if folder.blocker.exists():
        content["blocker"] = _read_yaml(folder.blocker)
    return content


def summary(start: Path, name: str | None) -> str:
    folders = open_project_dirs(start)
    folder = folders.find_run(name)
    if not folder.summary.exists():
        refuse_running(folders, folder)
        raise NothingToDo(
            f"{folder.run_id} left no summary: its engine was killed", next_step=f"reflectloop log {folder.run_id}"
        )
    return folder.summary.read_text()


def logs(start: Path, name: str | None, step: str | None) -> list[Path]:
    """Return the logs of a run or a verification, or those of one of its steps or checks."""
    folders = open_project_dirs(start)
    folder = folders.find_verification(name) or folders.find_run(name)
    paths = _logs_of(folder)
    if step:
        paths = [path for path in paths if _is_of(path, step)]
    if not paths:
        what = f"step {step!r} of {folder.run_id}" if step else folder.run_id
        raise NothingToDo(f"{what} has no logs", next_step=f"reflectloop show {folder.run_id}")
    return paths


def _logs_of(folder: RunFolder) -> list[Path]:
    """Return the logs, oldest first; of a verification also those of earlier ones whose results it used again."""
    data = files.read_record(folder.path / "verdict.json").get("data") or {}
    results = [check[side] for check in data.get("checks", ()) for side in ("base", "sealed")]
    results += [tests[side] for tests in data.get("own_tests", ()) for side in ("on_base", "on_patch")]
    used = {Path(result["log_path"]) for result in results if result and result.get("log_path")}
    paths = {*folder.logs.glob("*.log"), *(path for path in used if path.is_file())}
    return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))


def log_titles(start: Path, name: str | None, logs: Sequence[Path]) -> list[str]:
    """Return a title for each log: its name and, by the evidence, which run it is of and how that ended."""
    folders = open_project_dirs(start)
    folder = folders.find_verification(name) or folders.find_run(name)
    from reflectloop.verification import evidence  # noqa: PLC0415 - only titles of sealed runs need it

    file = folder.path / evidence.FILE
    records = list(map(json.loads, file.read_text("utf-8").splitlines() if file.exists() else ()))
    named = {Path(record["log"]).name: record["claim"] for record in records if record.get("log")}
    claims = {record.get("output_sha256"): record["claim"] for record in records}
    sealed = {
        path.name: named.get(path.name) or claims.get(evidence.digest_of(path))
        for path in logs
        if path.name.startswith("verify.")
    }
    stated = {**_commands_of_steps(records), **sealed}
    return [f"{path.name}: {claim}" if (claim := stated.get(path.name)) else path.name for path in logs]


def _commands_of_steps(records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return what each log of a step is of: a command of the step, or one of its checks and how it ended."""
    out = {}
    for record in records:
        name = Path(record.get("log") or "").name
        if record["kind"] == "check":
            out[name] = record["claim"]
        elif record["kind"] == "exit":
            step = name.rsplit(".", 2)[0]
            out |= {f"{step}.{number}.log": one_line(text) for number, text in enumerate(record["command"], 1)}
    return out


def _is_of(log: Path, step: str) -> bool:
    """Return whether a log is of a step (`P-1.2.log`) or, in sealed runs, of a check (`verify.3.pytest.log`)."""
    first, _, rest = log.name.removesuffix(".log").partition(".")
    return log.name.rsplit(".", 2)[0] == step or (first == "verify" and rest.partition(".")[2] == step)


def follow(start: Path, name: str | None, step: str | None, show: Callable[[str], None]) -> None:
    """Show what the commands of a run print until the run ends; without a name, of the current task's last run."""
    folders = open_project_dirs(start)
    folder = folders.find_verification(name) or (folders.find_run(name) if name else _newest(folders))
    read: dict[Path, int] = {}  # bytes of each log that were shown
    while True:
        alive = _workspace_at_work(folders, folder.run_id) is not None
        for path in (log for log in _logs_of(folder) if step is None or _is_of(log, step)):
            with path.open("rb") as file:
                file.seek(read.get(path, 0))
                fresh = file.read()
            read[path] = read.get(path, 0) + len(fresh)
            if fresh:
                show(fresh.decode("utf-8", "replace"))
        if not alive:
            return
        clock.wait(_POLL_S)


def _newest(folders: Folders) -> RunFolder:
    """Return the folder of the current task's last run, ended or not."""
    run = folders.peek_current().last_run
    if run is None:
        raise NothingToDo("nothing has run here yet", next_step=next_command.NEW_RUN)
    return folders.run_folder(run.id)


def base_is_gone(run_id: str) -> InvalidInput:
    return InvalidInput(
        f"the repository no longer has the tree that {run_id} began with (git gc removed it)",
        next_step=f"git apply .reflectloop/runs/{run_id}/changes.patch, or run the plan again",
    )


class DiffView(NamedTuple):
    run_id: str
    base: str
    end: str
    git: Git

    @property
    def touched(self) -> tuple[TouchedFile, ...]:
        from reflectloop.workspace import patch  # noqa: PLC0415

        with self._base_known():
            return patch.touched_files(self.git, self.base, self.end)

    def stream(self, on_chunk: Callable[[bytes], None], *, exact: bool) -> None:
        """Stream the redacted patch; the exact one lies in the run's folder."""
        from reflectloop.workspace import patch  # noqa: PLC0415

        cleaned = patch.RedactedPatch(on_chunk)
        with self._base_known():
            patch.stream(self.git, self.base, self.end, cleaned.feed, exact=exact)
        cleaned.finish()

    @contextlib.contextmanager
    def _base_known(self) -> Iterator[None]:
        try:
            yield
        except GitFailed as fault:
            raise base_is_gone(self.run_id) from fault


def change(start: Path, name: str | None) -> DiffView:
    """Return the change of a run, ended or not."""
    folders = open_project_dirs(start)
    folder = folders.find_run(name)
    known = find_run(folders, folder)
    if known is None or known[1].end_tree is None:
        refuse_running(folders, folder)
        raise NothingToDo(f"{folder.run_id} changed nothing", next_step=f"reflectloop show {folder.run_id}")
    run = known[1]
    if run.error_code == "SECRET_LEAK":
        raise NothingToDo(f"{folder.run_id} leaked a secret; its change was not kept", next_step="reflectloop show")
    from reflectloop.workspace import patch  # noqa: PLC0415

    redacted = folder.path / patch.REDACTED
    if redacted.exists():
        raise NothingToDo(
            f"the change of {folder.run_id} may contain a secret and was not kept",
            next_step=f"less {redacted}, or look at its files: reflectloop shell {folder.run_id}",
        )
    end = run.end_tree or run.base_tree
    return DiffView(folder.run_id, run.base_tree, end, Store(folders.own / "git", "").git())
