"""Records lessons of a run: how its fixes performed, and what changed since an earlier run failed."""

from __future__ import annotations

from collections.abc import Iterator

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.run.context import JudgedRun, PreparedRun
from reflectloop.engine.steps.execution import FixAttempt
from reflectloop.errors import ReflectloopError
from reflectloop.lessons import lesson_scopes, lesson_store
from reflectloop.lessons.lesson import Occurrence, Page, What
from reflectloop.lessons.lesson_store import NewLesson
from reflectloop.plan import load as plans
from reflectloop.plan.model import Plan, Step, command_text
from reflectloop.reflection import blocker_card
from reflectloop.state.fold import RunState
from reflectloop.system import clock
from reflectloop.system.git import GitFailed
from reflectloop.workspace import patch
from reflectloop.workspace.folders import RunFolder

_LONGEST = 1_000  # of what is said to have helped
_SHOWN = 10  # files, in words
_LEARNT_FROM = frozenset(("STEP_FAILED", "STEP_TIMEOUT", "VERIFICATION_FAILED", "NEEDS_INPUT", "MAX_RETRIES"))


def keep(run: PreparedRun, error: ReflectloopError | None) -> list[str]:
    """Write to this run's occurrences file. Errors become warnings; they never change the run's outcome."""
    folders = {"project": lesson_scopes.project_dir(run.folders), "user": lesson_scopes.user_dir()}
    warnings = []
    for scope, folder in folders.items():
        try:
            new = [_fix_outcome(run, fix, error) for fix in _fixes(run) if fix.scope == scope]
            new += _recovery(run, error) if scope == "project" else []
            if new:
                lesson_store.add_lessons(folder, new, run.run_id)
        except (ReflectloopError, OSError, GitFailed) as fault:
            warnings.append(f"what this run taught was not kept: {fault}")
    return warnings


# Fixes that were tried --------------------------------------------------------------------------------------------


def _fixes(run: PreparedRun) -> Iterator[FixAttempt]:
    yield from (fix for step in run.results for fix in step.fixes)


def _fix_outcome(run: PreparedRun, fix: FixAttempt, error: ReflectloopError | None) -> NewLesson:
    """Return the outcome of a fix, by the time it was tried: written twice, after a crash, it counts once."""
    page = Page(kind="failfix", title=fix.title, signature=fix.signature, fix=fix.fix, commands=fix.commands)
    step = next(step.id for step in run.results if fix in step.fixes)
    what, note = _success(run, fix, error)
    return NewLesson(
        page, Occurrence(lesson=fix.lesson, what=what, at=fix.tried, run=run.run_id, step=step, level="L2", note=note)
    )


def _success(run: PreparedRun, fix: FixAttempt, error: ReflectloopError | None) -> tuple[What, str]:
    """Return whether a fix worked. If the gates refused the change, it is no success and no failure either."""
    if fix.outcome == "failed":
        return "failed", fix.reason
    if fix.outcome == "worked" and not (error and isinstance(run, JudgedRun)):
        return "worked", ""
    return "seen", "" if fix.outcome == "worked" else str(fix)


# What changed -----------------------------------------------------------------------------------------------------


def _recovery(run: PreparedRun, error: ReflectloopError | None) -> list[NewLesson]:
    """Return what was changed between a failed run and this one, which passes, as advice."""
    failed = [earlier for earlier in run.task.runs.values() if earlier.error_code in _LEARNT_FROM]
    if error or not failed or any(fix.outcome == "worked" for fix in _fixes(run)):
        return []
    record = _record(run, failed[-1])
    what = _change(run, failed[-1])
    if record is None or not what:
        return []
    redact = secrets.current_detector().redact
    page = Page(
        kind="failfix",
        title=blocker_card.failure_title(record),
        signature=record.signature,
        keywords=(record.category.lower(),),
        fix=redact(what)[:_LONGEST],
    )
    at = clock.stamp(run.started)
    return [NewLesson(page, Occurrence(lesson=page.id, at=at, run=run.run_id, level="L2", refs=(failed[-1].id,)))]


def _record(run: PreparedRun, failed: RunState) -> FailureRecord | None:
    """Return the failure record of a run; None if its blocker is gone or says nothing."""
    try:
        return blocker_card.record_of(RunFolder(run.folders.own / "runs" / failed.id))
    except ReflectloopError:
        return None


def _change(run: PreparedRun, failed: RunState) -> str:
    """Return what changed since the failed run; nothing if it is not known."""
    if failed.plan_hash != run.plan.hash:
        return "; ".join(_plan_changes(_plan_then(run, failed), run.plan))
    if failed.base_tree != run.base.tree:
        names = [file.path for file in patch.touched_files(run.store.git(), failed.base_tree, run.base.tree)]
        return f"the project was changed: {', '.join(names[:_SHOWN])}" if names else ""
    return run.request.retry_reason or ""


def _plan_then(run: PreparedRun, failed: RunState) -> Plan | None:
    try:
        return plans.load(RunFolder(run.folders.own / "runs" / failed.id).saved_plan()).plan
    except ReflectloopError:
        return None


def _plan_changes(before: Plan | None, now: Plan) -> Iterator[str]:
    if before is None:
        return
    old, new = ({step.id: step for step in plan.steps} for plan in (before, now))
    for name in dict.fromkeys((*old, *new)):
        if name not in new:
            yield f"step {name} was left out"
        elif name not in old:
            yield f"step {name} came: {_commands(new[name])}"
        elif old[name] != new[name]:
            yield f"step {name} was changed from {_commands(old[name])} to {_commands(new[name])}"
    if before.checks != now.checks:
        yield "the checks were changed"


def _commands(step: Step) -> str:
    return "`" + "; ".join(command_text(command) for command in step.commands) + "`"
