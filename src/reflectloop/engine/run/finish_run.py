"""Ends a run, however it went: records it in the journal, stores or drops its change, closes and removes the rest."""

from __future__ import annotations

import os

from reflectloop.artifacts import publish, views
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.run import artifacts
from reflectloop.engine.run.context import AdmittedRun, ExecutedRun, JudgedRun, PreparedRun, RequestedRun
from reflectloop.engine.run.request import RunOutcome
from reflectloop.engine.steps.execution import CANCELLED
from reflectloop.engine.tasks import open_tasks
from reflectloop.errors import Interrupted, Latched, NoSpace, NothingToDo, ReflectloopError, SandboxEscape, SecretLeak
from reflectloop.sandbox import environment
from reflectloop.state import events, journal
from reflectloop.state.fold import fold
from reflectloop.system import files
from reflectloop.system.git import GitFailed
from reflectloop.workspace import workspace_registry
from reflectloop.workspace.workspace_registry import WorkspaceEntry


def finish(run: RequestedRun, error: ReflectloopError | None) -> RunOutcome:
    failure: FailureRecord | None = None
    if isinstance(run, PreparedRun):
        error = _store_change(run, error) or error
        try:
            error, failure = _record_end(run, error)
        except NoSpace as full:
            error = error or full  # the rest is still removed
        run.journal.close()
        run.warnings.extend(views.refresh(run.journal.path.parent))
        _learn(run, error)
    elif isinstance(run, AdmittedRun) and isinstance(error, SandboxEscape) and run.opened.workspaces:
        # An escape found in the workspace locks the project although nothing ran.
        open_tasks.stop_project(
            run.folders, error, open_tasks.FailurePlace(run.run_id, None, run.plan.hash, run.base.tree)
        )
    limits_by = run.opened.limits_by
    closing = [space.close for space in run.opened.workspaces]
    for close in [*closing, *(limiter.close for limiter in run.opened.limiters.values())]:
        with run.warn_on_failure("what the run held open"):
            close()
    _remove_workspaces(run, error)
    if not isinstance(error, Latched | NothingToDo):
        run.folders.set_latest(run.run_id)  # a refused run leaves the last failure in sight
    envelope = artifacts.envelope_of(run, error).model_copy(update={"limits_by": limits_by})
    known_fixes = artifacts.write(run, envelope, error, failure)
    envelope = envelope.model_copy(update={"warnings": list(dict.fromkeys(run.warnings))})
    touched = run.touched if isinstance(run, ExecutedRun) else ()
    word = str(artifacts.run_outcome(run, error)) if isinstance(run, JudgedRun) else ""
    return RunOutcome(envelope, run.folder, run.results, touched, error, tuple(known_fixes), word)


# The journal --------------------------------------------------------------------------------------------------------


def _record_end(
    run: PreparedRun, error: ReflectloopError | None
) -> tuple[ReflectloopError | None, FailureRecord | None]:
    """Journal how the run ended, and latch its task. Return the error: MAX_RETRIES after too many failures."""
    failure: FailureRecord | None = None
    if run.is_stepwise and error and not open_tasks.stops(error):
        return error, None  # the gates refused it: steps can be appended, and it is judged again
    if error:
        limits = run.plan.limits
        allowed = limits.runs if run.request.max_retries is None else run.request.max_retries + 1
        error = open_tasks.escalate(run.task, error, allowed, run.run_id)
    if isinstance(error, Interrupted) and not run.is_over:
        _pause(run, error)
        return error, None
    if error and not (run.task.latch and run.task.latch.run_id == run.run_id):
        failure = artifacts.failure_of(run, error)
        _set_latch(run, error, failure)
    # After the latch: a run that is over was also latched, whenever the engine may die.
    if not run.is_over:
        run.journal.append(
            events.RunFinished(
                run_id=run.run_id,
                error_code=error.code if error else None,
                end_tree=run.workspace.tree,
                duration_ms=run.elapsed_ms(),
            )
        )
    if not error:
        open_tasks.close(run.folders, run.task)
        publish.remove_home_latch(run.folders, run.config.publish)
    return error, failure


def _set_latch(run: PreparedRun, error: ReflectloopError, failure: FailureRecord) -> None:
    failed = next((result.id for result in run.results if result.error_code not in (None, CANCELLED)), None)
    place = open_tasks.FailurePlace(run.run_id, failed, run.plan.hash, run.base.tree)
    latched = open_tasks.set_latch(run.folders, run.journal, error, place, failure.signature if failed else "")
    if latched:
        grade = "stop" if open_tasks.stops(error) else "failure"
        run.warnings.extend(publish.set_home_latch(run.folders, run.config.publish, latched, grade))


def _pause(run: PreparedRun, error: ReflectloopError) -> None:
    """Pause a run that somebody stopped: its half-done steps are dropped, and it can be resumed."""
    state = fold(journal.read(run.journal.path)).runs[run.run_id]
    for step in state.steps.values():
        if step.status == "running":
            run.journal.append(events.StepInterrupted(run_id=run.run_id, step_id=step.id))
    run.journal.append(events.RunPaused(run_id=run.run_id, reason=error.message))


def _learn(run: PreparedRun, error: ReflectloopError | None) -> None:
    """Record how known fixes performed and what made a previously failing task pass. No-op otherwise."""
    tried_fixes = any(step.fixes for step in run.results)
    recovered = not error and bool(run.task.failures)
    if tried_fixes or recovered:
        from reflectloop.engine.run import record_lessons  # noqa: PLC0415 - most runs teach nothing

        run.warnings.extend(record_lessons.keep(run, error))


# The change and the workspaces --------------------------------------------------------------------------------------


def _withholds_change(run: RequestedRun, error: ReflectloopError | None) -> bool:
    """Return whether nothing of the change may be stored: it holds a secret, or may hold one."""
    return isinstance(error, SecretLeak) or (isinstance(run, ExecutedRun) and bool(run.possible_secrets))


def _store_change(run: PreparedRun, error: ReflectloopError | None) -> ReflectloopError | None:
    """Move the change into the store. Return why that failed: the run did then not give what it promised."""
    if _withholds_change(run, error):
        return None
    try:
        run.store.take_in(run.workspace.quarantine)
        end = run.store.commit(run.workspace.tree, message=f"End of {run.run_id}")
        run.store.keep(f"{run.run_id}/end", end)
        run.store.keep(f"{run.run_id}/base", run.store.commit(run.workspace.base_tree, message="Base"))
    except ReflectloopError as fault:
        return error or fault
    except (GitFailed, OSError) as fault:
        return error or NoSpace(f"cannot keep the change of {run.run_id} in {run.store.path}: {fault}")
    return None


def _remove_workspaces(run: RequestedRun, error: ReflectloopError | None) -> None:
    """Remove the workspaces of this run and of dead ones, except what is kept to be looked at or reused."""
    for number, entry in enumerate(_own_workspaces(run)):
        with run.warn_on_failure(os.fspath(entry.folder)):
            _settle_workspace(run, entry, error, first=number == 0)
    with run.warn_on_failure("what earlier runs left"):
        for old in workspace_registry.stale(run.folders.own, run.config.workspace.keep_failed):
            if isinstance(run, AdmittedRun) and old.fate == "at work" and (old.engine_dir / "objects").is_dir():
                run.store.take_in(old.engine_dir / "objects")  # its run can be resumed
            # An engine killed in the very instant of starting a command may have left that running.
            environment.kill_leftovers(old.name, old.folder)
            workspace_registry.remove(old)


def _settle_workspace(run: RequestedRun, entry: WorkspaceEntry, error: ReflectloopError | None, *, first: bool) -> None:
    """Destroy a workspace after a leak, keep the first one after a failure or warm for the next run, remove others."""
    if isinstance(error, SecretLeak):
        left = workspace_registry.destroy(entry)
        if left:
            where = ", ".join(map(os.fspath, left))
            error.message += f"; what leaked may still lie in {where}, which could not be removed"
    elif error and isinstance(run, PreparedRun) and run.config.workspace.keep_failed and first:
        workspace_registry.set_status(entry, "kept")
        if _withholds_change(run, error):
            files.remove_tree(entry.engine_dir / "objects")
    elif not error and run.config.workspace.warm and first:
        space = run.opened.workspaces[0]
        workspace_registry.keep_warm(run.folders.own, entry, space.mark_ns, space.identity)
    else:
        workspace_registry.remove(entry)


def _own_workspaces(run: RequestedRun) -> list[WorkspaceEntry]:
    numbers = range(1, 1 + len(run.opened.workspaces))
    names = [run.run_id, *(f"{run.run_id}.{number}" for number in numbers)]
    return [entry for entry in workspace_registry.entries(run.folders.own) if entry.name in names]
