"""After the line, whatever came of it: what the run means for its task, what is kept and what is cleared away."""

from __future__ import annotations

import os

from reflectloop.engine import tasks
from reflectloop.engine.artifacts import publish, views
from reflectloop.engine.run import artifacts
from reflectloop.engine.run.run_context import RunContext, RunOutcome
from reflectloop.engine.run.steps import CANCELLED
from reflectloop.errors import (
    Interrupted,
    Latched,
    NoSpace,
    NothingToDo,
    ReflectloopError,
    SandboxEscape,
    SecretLeak,
)
from reflectloop.sandbox import environment
from reflectloop.state import events, journal
from reflectloop.state.fold import fold
from reflectloop.system import files, process
from reflectloop.system.git import GitFailed
from reflectloop.workspace import workspace_registry


def finish(line: RunContext) -> RunOutcome:
    _keep_change(line)
    try:
        _settle_task(line)
    except NoSpace as full:
        line.error = line.error or full  # the rest is still cleared away
    if line.journal:
        line.journal.close()
        line.warnings += views.refresh(line.journal.path.parent)
    _learn(line)
    bound_by = next((limiter.mechanism for limiter in line.limiters.values()), None)
    closing = [space.close for space in line.spaces] + [limiter.close for limiter in line.limiters.values()]
    for close in closing:
        with line.tidying("what the run held open"):
            close()
    _clear_away(line)
    if not isinstance(line.error, Latched | NothingToDo):
        line.folders.set_latest(line.run_id)  # what was refused leaves the last failure in sight
    envelope = artifacts.envelope_of(line).model_copy(update={"limits_by": bound_by})
    artifacts.write(line, envelope)
    envelope = envelope.model_copy(update={"warnings": list(dict.fromkeys(line.warnings))})
    return RunOutcome(envelope, line.folder, line.steps, line.touched, line.error, tuple(line.known_fixes))


def _settle_task(line: RunContext) -> None:
    """Tell the journal how the run ended, and what that means for its task."""
    if not (line.begun and line.journal and line.task and line.loaded and line.base):
        _stop_unbegun(line)
        return
    if line.by_requests and line.error and not tasks.stops(line.error):
        return  # the last word was no: steps can be appended, and it is asked for again
    limits = line.loaded.plan.limits
    allowed = limits.runs if line.request.max_retries is None else line.request.max_retries + 1
    if line.error:
        line.error = tasks.escalate(line.task, line.error, allowed, line.run_id)
    if isinstance(line.error, Interrupted) and not line.over:
        _pause(line)
        return
    if line.error and not (line.task.latch and line.task.latch.run_id == line.run_id):
        failed = next((step.id for step in line.steps if step.error_code not in (None, CANCELLED)), None)
        line.failure = artifacts.failure_of(line)
        held = tasks.set_latch(
            line.folders, line.journal, line.error, _place(line, failed), line.failure.signature if failed else ""
        )
        if held:
            line.warnings += publish.set_home_latch(
                line.folders, line.config.publish, held, "stop" if tasks.stops(line.error) else "failure"
            )
    # After the latch: a run that is over was also held, whenever the engine may die.
    if not line.over:
        end = line.space.tree if line.space else line.base.tree
        code = line.error.code if line.error else None
        line.journal.append(
            events.RunFinished(run_id=line.run_id, error_code=code, end_tree=end, duration_ms=line.elapsed_ms())
        )
    if not line.error:
        tasks.close(line.folders, line.task)
        publish.remove_home_latch(line.folders, line.config.publish)


def _learn(line: RunContext) -> None:
    """How fixes did, and what changed where an earlier run had failed; for a run of which neither is true, nothing."""
    mended = any(step.fixes for step in line.steps)
    recovered = not line.error and line.task is not None and line.task.failures
    if line.begun and (mended or recovered):
        from reflectloop.engine.run import record_lessons  # noqa: PLC0415 - most runs teach nothing

        line.warnings += record_lessons.keep(line)


def _pause(line: RunContext) -> None:
    """A run that somebody stopped is not over: its half steps are dropped, and it can be gone on with."""
    assert line.journal and line.error  # noqa: S101, PT018
    run = fold(journal.read(line.journal.path)).runs[line.run_id]
    for step in run.steps.values():
        if step.status == "running":
            line.journal.append(events.StepInterrupted(run_id=line.run_id, step_id=step.id))
    line.journal.append(events.RunPaused(run_id=line.run_id, reason=line.error.message))


def _place(line: RunContext, step_id: str | None) -> tasks.FailurePlace:
    assert line.loaded and line.base  # noqa: S101, PT018
    return tasks.FailurePlace(line.run_id, step_id, line.loaded.plan.hash, line.base.tree)


def _stop_unbegun(line: RunContext) -> None:
    """An escape found in the laid-out workspace stops the project although nothing ran."""
    if isinstance(line.error, SandboxEscape) and line.spaces:
        tasks.stop_project(line.folders, line.error, _place(line, None))


def _keep_change(line: RunContext) -> None:
    """What was proven harmless goes into the store; where that fails, the run did not give what it promised."""
    if not (line.store and line.space and line.begun) or isinstance(line.error, SecretLeak) or line.suspect:
        return
    try:
        line.store.take_in(line.space.quarantine)
        end = line.store.commit(line.space.tree, message=f"End of {line.run_id}")
        line.store.keep(f"{line.run_id}/end", end)
        line.store.keep(f"{line.run_id}/base", line.store.commit(line.space.base_tree, message="Base"))
    except ReflectloopError as fault:
        line.error = line.error or fault
    except (GitFailed, OSError) as fault:
        line.error = line.error or NoSpace(f"cannot keep the change of {line.run_id} in {line.store.path}: {fault}")


def _clear_away(line: RunContext) -> None:
    """A leak leaves nothing; a failed run's workspace is kept to be looked at; one that served is kept warm."""
    for number, entry in enumerate(_mine(line)):
        with line.tidying(os.fspath(entry.folder)):
            _settle_space(line, entry, first=number == 0)
    with line.tidying("what earlier runs left"):
        for old in workspace_registry.stale(line.folders.own, line.config.workspace.keep_failed):
            _save_recorded(line, old)
            # An engine killed in the very instant of starting a command may have left it.
            process.end_carrying(f"{environment.RUN}={old.name}")
            workspace_registry.remove(old)


def _save_recorded(line: RunContext, dead: workspace_registry.WorkspaceEntry) -> None:
    """The trees of a run that can be gone on with; its files are of no use."""
    if line.store and dead.fate == "at work" and (dead.desk / "objects").is_dir():
        line.store.take_in(dead.desk / "objects")


def _settle_space(line: RunContext, entry: workspace_registry.WorkspaceEntry, *, first: bool) -> None:
    if isinstance(line.error, SecretLeak):
        left = workspace_registry.destroy(entry)
        if left:
            where = ", ".join(map(os.fspath, left))
            line.error.message += f"; what leaked may still lie in {where}, which could not be removed"
    elif line.error and line.begun and line.config.workspace.keep_failed and first:
        workspace_registry.set_fate(entry, "kept")
        if line.suspect:
            files.remove_tree(entry.desk / "objects")
    elif not line.error and line.config.workspace.warm and first:
        _keep_warm(line, entry)
    else:
        workspace_registry.remove(entry)


def _keep_warm(line: RunContext, entry: workspace_registry.WorkspaceEntry) -> None:
    """One is enough: an older warm one makes room."""
    for other in workspace_registry.entries(line.folders.own):
        if other.fate == "warm":
            workspace_registry.remove(other)
    workspace_registry.set_fate(entry, "warm", line.spaces[0].mark_ns, line.spaces[0].identity)


def _mine(line: RunContext) -> list[workspace_registry.WorkspaceEntry]:
    names = [line.run_id, *(f"{line.run_id}.{number}" for number in range(1, 1 + len(line.spaces)))]
    return [entry for entry in workspace_registry.entries(line.folders.own) if entry.name in names]
