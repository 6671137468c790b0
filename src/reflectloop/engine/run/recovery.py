"""Finds where a run continues after its engine died, from its journal and the trees of its steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import secrets
from reflectloop.artifacts import next_command, views
from reflectloop.engine.steps.execution import FixAttempt, StepResult
from reflectloop.errors import MissingPlan, NothingToDo, SandboxCreateFailed, StateDamaged, StepFailed
from reflectloop.plan import load as plans
from reflectloop.plan.load import LoadedPlan
from reflectloop.plan.model import Plan
from reflectloop.sandbox import environment, isolation
from reflectloop.state import events
from reflectloop.state.events import Json, StepFinished
from reflectloop.state.fold import RunState, Task, TaskKind
from reflectloop.state.transitions import TaskState
from reflectloop.system import files
from reflectloop.verification.checks import CheckResult
from reflectloop.workspace import apply as applying
from reflectloop.workspace import workspace_registry
from reflectloop.workspace.folders import Folders, RunFolder
from reflectloop.workspace.store import Store

MOST_INTERRUPTIONS = 5  # in a row, of one step: then it is the step that ends the engine


class ResumePoint(NamedTuple):
    """A run to resume."""

    task: Task
    run: RunState
    folder: RunFolder
    plan: Path | None  # as it was when the run began; None: it is in the journal

    @property
    def half_done(self) -> list[str]:
        return [step.id for step in self.run.steps.values() if step.status == "running"]


def find(folders: Folders) -> ResumePoint:
    """Return the current task's last run, if it has not ended."""
    task = folders.load_current()
    run = task.last_run
    if run is None:
        raise NothingToDo("nothing has begun here", next_step="reflectloop run PLAN")
    if run.kind is TaskKind.IMPORTED:
        raise NothingToDo(f"task {task.id} was imported and has no commands", next_step="reflectloop run PLAN")
    folder = RunFolder(folders.own / "runs" / run.id)
    if run.status != "running" and folder.envelope.exists():
        raise NothingToDo(
            f"{run.id} has ended ({run.error_code or 'OK'}); there is nothing to resume",
            next_step=f"reflectloop show {run.id}",
        )
    if task.state is TaskState.ABORTED:
        raise NothingToDo(f"task {task.id} is aborted", next_step="reflectloop run PLAN")
    if run.kind.is_stepwise:
        refuse_unfinished(folders, task, run)
        return ResumePoint(task, run, folder if folder.logs.is_dir() else folders.open_run(run.id), None)
    return ResumePoint(task, run, folder, folder.saved_plan())


def refuse_unfinished(folders: Folders, task: Task, run: RunState) -> None:
    """Refuse to resume while steps are pending: agents or FileOps requests execute those. Also ends a pause."""
    left = run.unfinished_steps
    if not left:
        return
    paused = task.state is TaskState.PAUSED
    if paused:
        _end_pause(folders, task, run)
    by = "agents" if run.kind is TaskKind.AGENTS else "requests"
    raise NothingToDo(
        f"{'the pause is over; ' if paused else ''}step {left[0].id} of task {task.id} is {left[0].status}; "
        f"its steps are done by {by}",
        next_step=next_command.command(run),
    )


def _end_pause(folders: Folders, task: Task, run: RunState) -> None:
    resumed = folders.open_journal(task.id)
    try:
        resumed.append(events.RunResumed(run_id=run.id))
    finally:
        resumed.close()
    views.refresh(resumed.path.parent)


_MARK = b"[REDACTED"
_SUFFIXES = (".yaml", ".yml", ".json", ".md", ".txt")


def keep_plan(loaded: LoadedPlan, folder: RunFolder) -> None:
    """Copy the plan into the run folder, so a later resume uses this version even if the file changes.

    If it holds a possible secret, the copy is redacted, and resuming needs the file itself.
    """
    suffix = loaded.path.suffix.lower()
    hidden = hide_secrets(loaded)
    with files.room_for("a copy of the plan", folder.path):
        if hidden:
            plan = _redacted(plans.parse_source(loaded.path.read_bytes(), suffix).value)
            files.write_atomic(folder.path / "plan.json", json.dumps(plan, indent=2, ensure_ascii=False) + "\n")
        else:
            shutil.copyfile(loaded.path, folder.path / f"plan{suffix if suffix in _SUFFIXES else '.yaml'}")


def hide_secrets(loaded: LoadedPlan) -> bool:
    """Redact a plan's possible secrets from everything stored from now on; return True if it has any."""
    values = secrets.current_detector().values(loaded.path.read_bytes())
    if values:
        secrets.current_detector().hide(values)
    return bool(values)


def _redacted(value: Any) -> Any:  # noqa: ANN401 - whatever a plan has
    if isinstance(value, str):
        return secrets.current_detector().redact(value)
    if isinstance(value, dict):
        return {name: _redacted_entry(str(name), each) for name, each in value.items()}
    return [_redacted(each) for each in value] if isinstance(value, list) else value


def _redacted_entry(name: str, value: Any) -> Any:  # noqa: ANN401
    """Return what stands under a name: `DB_PASSWORD: …` is one only together."""
    if not isinstance(value, str):
        return _redacted(value)
    return secrets.current_detector().redact(f"{name}={secrets.current_detector().redact(value)}").partition("=")[2]


def plan_then(point: ResumePoint, copy: Path, folders: Folders) -> LoadedPlan:
    """Return the plan a run began with: the copy that was kept, or the file where the copy had secrets taken out."""
    own = folders.root / point.task.plan_path
    read = plans.load(copy)
    if read.plan.hash == point.run.plan_hash:
        return read._replace(path=own)
    if _MARK not in copy.read_bytes():
        raise StateDamaged(
            f"{copy} is not the plan that {point.run.id} began with", next_step="reflectloop run PLAN --new"
        )
    if own.is_file():
        again = plans.load(own)
        if again.plan.hash == point.run.plan_hash:
            hide_secrets(again)
            return again
    raise MissingPlan(
        f"{own} is not the plan that {point.run.id} began with any more, and what may be a secret was taken out of the"
        " copy",
        next_step="put it back as it was, then: reflectloop resume; or: reflectloop run PLAN --new",
        missing=(str(own),),
    )


def import_objects(folders: Folders, store: Store, run_id: str, *, warm: bool) -> None:
    """Import the objects of a dead engine, which were scanned when it recorded them, and remove its workspaces.

    If `warm`, the run continues in one of them: its files are reset to the tree of the last finished step.
    """
    for entry in workspace_registry.entries(folders.own):
        if entry.name.split(".")[0] == run_id:
            environment.kill_leftovers(entry.name, entry.folder)
            if (entry.engine_dir / "objects").is_dir():
                store.take_in(entry.engine_dir / "objects")
            if warm:
                workspace_registry.keep_of_dead_engine(folders.own, entry)
            else:
                workspace_registry.remove(entry)


def refuse_lower(before: str, now: str) -> None:
    """Refuse to resume a run under weaker isolation than it began with."""
    if isolation.strength(now) < isolation.strength(before):
        raise SandboxCreateFailed(
            f"the run began at isolation {before}, and {now} is what there is now", next_step="reflectloop doctor"
        )


def refuse_deadly(point: ResumePoint) -> None:
    for name in point.half_done:
        if point.run.steps[name].interrupted + 1 >= MOST_INTERRUPTIONS:
            raise StepFailed(
                f"step {name}: the engine died {MOST_INTERRUPTIONS} times in a row while it ran",
                next_step=f"reflectloop log {point.run.id} {name}",
            )


def starts(run: RunState) -> dict[str, str]:
    """Return for each finished step the tree that it began with."""
    return {step.id: step.start for step in run.steps.values() if step.start}


def reached(run: RunState, store: Store) -> str:
    """Return the tree of all finished steps, merged: each step of a batch left a tree with its own change alone."""
    tree = run.base_tree
    for step in map(run.steps.__getitem__, run.order):
        if step.status == "done" and step.start and step.tree:
            tree = applying.merge(store, base=step.start, ours=tree, theirs=step.tree)
    return tree


def results(plan: Plan, run: RunState, logs: Path) -> list[StepResult]:
    """Return the results of finished steps, in the order of the journal."""
    titles = {step.id: step.title for step in plan.steps}
    ended = [step.ended for step in map(run.steps.__getitem__, run.order) if step.ended]
    return [_result(step, titles.get(step.step_id, ""), logs, _fixes(run, step.step_id)) for step in ended]


def _fixes(run: RunState, step_id: str) -> tuple[FixAttempt, ...]:
    return tuple(fix_attempt(fix) for fix in run.fixes if fix["step_id"] == step_id)


def fix_record(fix: FixAttempt) -> dict[str, Any]:
    """Return a fix that was tried as the journal stores it."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fix._asdict().items()}


def fix_attempt(stored: Json) -> FixAttempt:
    """Return the fix that `fix_record` stored."""
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()}
    return FixAttempt(**{name: fields[name] for name in FixAttempt._fields})  # type: ignore[arg-type]


def _result(ended: StepFinished, title: str, logs: Path, fixes: tuple[FixAttempt, ...]) -> StepResult:
    written = tuple(_logs_of(ended.step_id, logs))
    return StepResult(
        id=ended.step_id,
        title=title,
        exit_code=ended.exit_code,
        duration_ms=ended.duration_ms,
        tree=ended.tree,
        changed=ended.changed,
        logs=written,
        checks=tuple(_check(check, logs) for check in ended.checks),
        error_code=ended.error_code,
        reason=ended.reason,
        command=ended.command,
        tail=files.last_lines(written[-1]) if written and ended.error_code and ended.command else "",
        fixes=fixes,
        commands_run=ended.commands_run,
    )


def _logs_of(step_id: str, logs: Path) -> list[Path]:
    written = [path for path in logs.glob(f"{step_id}.*.log") if path.name[len(step_id) + 1 : -4].isdigit()]
    return sorted(written, key=lambda path: int(path.name[len(step_id) + 1 : -4]))


def check_record(check: CheckResult) -> Json:
    """Return the outcome of a check as the journal stores it."""
    fields: Json = check._asdict()
    redact = secrets.current_detector().redact
    return {
        **fields,
        "log": check.log.name if check.log else None,
        "reason": redact(check.reason),
        "command": redact(check.command),
    }


def _check(stored: Json, logs: Path) -> CheckResult:
    fields = {name: value for name, value in stored.items() if name in CheckResult._fields}
    log = fields.get("log")
    doubtful = fields.get("doubtful")
    fields |= {
        "log": logs / str(log) if log else None,
        "doubtful": tuple(doubtful) if isinstance(doubtful, list) else (),
    }
    return CheckResult(**fields)  # type: ignore[arg-type]
