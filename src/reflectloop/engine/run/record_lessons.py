"""What a run leaves among the lessons: how the fixes it tried did, and what changed where an earlier run had failed."""

from __future__ import annotations

from collections.abc import Iterator

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.folders import RunFolder
from reflectloop.engine.learning import blocker_card, lessons
from reflectloop.engine.run import recovery
from reflectloop.engine.run.run_context import RunContext
from reflectloop.engine.run.steps import FixAttempt, words
from reflectloop.errors import ReflectloopError
from reflectloop.lessons import lesson_store
from reflectloop.lessons.lesson import Occurrence, Page, What
from reflectloop.lessons.lesson_store import NewLesson
from reflectloop.plan import load as plans
from reflectloop.plan.model import Plan, Step
from reflectloop.state.fold import RunState
from reflectloop.system import clock
from reflectloop.system.git import GitFailed
from reflectloop.workspace import patch

_LONGEST = 1_000  # of what is said to have helped
_SHOWN = 10  # files, in words
_LEARNT_FROM = frozenset(("STEP_FAILED", "STEP_TIMEOUT", "VERIFICATION_FAILED", "NEEDS_INPUT", "MAX_RETRIES"))


def keep(line: RunContext) -> list[str]:
    """In the run's own file of sightings; what stands in the way is said, and changes nothing of how the run ended."""
    shelves = {"project": lessons.project_shelf(line.folders), "user": lessons.user_shelf()}
    told = []
    for scope, shelf in shelves.items():
        try:
            drafts = [_counted(line, fix) for fix in _tried(line) if fix.scope == scope]
            drafts += _recovered(line) if scope == "project" else []
            if drafts:
                lesson_store.keep(shelf, drafts, line.run_id)
        except (ReflectloopError, OSError, GitFailed) as fault:
            told.append(f"what this run taught was not kept: {fault}")
    return told


# Fixes that were tried --------------------------------------------------------------------------------------------


def _tried(line: RunContext) -> Iterator[FixAttempt]:
    yield from (fix for step in line.steps for fix in step.fixes)


def _counted(line: RunContext, fix: FixAttempt) -> NewLesson:
    """By the time it was tried, so that telling it twice, after a crash, counts once."""
    page = Page(kind="failfix", title=fix.title, signature=fix.signature, fix=fix.fix, commands=fix.commands)
    step = next(step.id for step in line.steps if fix in step.fixes)
    what, note = _luck(line, fix)
    return NewLesson(
        page,
        Occurrence(lesson=fix.lesson, what=what, at=fix.tried, run=line.run_id, step=step, level="L2", note=note),
    )


def _luck(line: RunContext, fix: FixAttempt) -> tuple[What, str]:
    """What gates then refused may be the fix's doing: no success, and no failure either."""
    if fix.outcome == "failed":
        return "failed", fix.reason
    if fix.outcome == "worked" and not (line.error and line.gates):
        return "worked", ""
    return "seen", "" if fix.outcome == "worked" else str(fix)


# What changed -----------------------------------------------------------------------------------------------------


def _recovered(line: RunContext) -> list[NewLesson]:
    """A run failed, something was changed, and now the same work passes: what was changed, as advice."""
    failed = [run for run in line.task.runs.values() if run.error_code in _LEARNT_FROM] if line.task else []
    if line.error or not failed or any(fix.outcome == "worked" for fix in _tried(line)):
        return []
    record = _record(line, failed[-1])
    what = _change(line, failed[-1])
    if record is None or not what:
        return []
    redact = secrets.current().redact
    page = Page(
        kind="failfix",
        title=blocker_card.named(record),
        signature=record.signature,
        keywords=(record.category.lower(),),
        fix=redact(what)[:_LONGEST],
    )
    at = clock.stamp(line.started)
    return [NewLesson(page, Occurrence(lesson=page.id, at=at, run=line.run_id, level="L2", refs=(failed[-1].id,)))]


def _record(line: RunContext, run: RunState) -> FailureRecord | None:
    """None where its card is gone or says nothing."""
    try:
        return blocker_card.record_of(RunFolder(line.folders.own / "runs" / run.id))
    except ReflectloopError:
        return None


def _change(line: RunContext, failed: RunState) -> str:
    """Empty where it cannot be said what helped."""
    assert line.loaded and line.base and line.store  # noqa: S101, PT018 - a run that began
    if failed.plan_hash != line.loaded.plan.hash:
        return "; ".join(_plan_changes(_plan_then(line, failed), line.loaded.plan))
    if failed.base_tree != line.base.tree:
        names = [one.path for one in patch.touched(line.store.git(), failed.base_tree, line.base.tree)]
        return f"the project was changed: {', '.join(names[:_SHOWN])}" if names else ""
    return line.request.retry_reason or ""


def _plan_then(line: RunContext, failed: RunState) -> Plan | None:
    try:
        return plans.load(recovery.plan_of(RunFolder(line.folders.own / "runs" / failed.id))).plan
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
    return "`" + "; ".join(words(one) for one in step.commands) + "`"
