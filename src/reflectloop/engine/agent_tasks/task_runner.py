"""`tr`: executes one step of the current task, or all of them, then reviews and judges the whole change."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

from reflectloop import config, secrets
from reflectloop.agents.answer_models import Item
from reflectloop.artifacts import next_command
from reflectloop.engine.agent_tasks import final_review, reviews, step_pipeline
from reflectloop.engine.agent_tasks.attempt import AttemptOutcome
from reflectloop.engine.agent_tasks.reviews import ReviewResult
from reflectloop.engine.agent_tasks.task_session import TaskSession, Tell, next_step, open_task_session, refuse_if_asked
from reflectloop.engine.pipeline import judge_task
from reflectloop.engine.requests import imported_task
from reflectloop.engine.requests.fileops_session import FileopsTarget
from reflectloop.engine.run.request import RunObserver, RunOutcome, RunRequest
from reflectloop.engine.steps import prompts
from reflectloop.errors import GateRejected, Interrupted, NeedsInput, NothingToDo, ReflectloopError, VerificationFailed
from reflectloop.state import events
from reflectloop.state.fold import RunState, Task
from reflectloop.system import git
from reflectloop.terms import RemarkKind
from reflectloop.workspace.folders import Folders, RunFolder, open_project_dirs

_REPAIRABLE = (VerificationFailed, GateRejected)


class TaskResult(NamedTuple):
    """The task after `tr`; `error` says what stops it, if something does."""

    task: Task
    run: RunState
    ended: tuple[AttemptOutcome, ...]
    outcome: RunOutcome | None = None  # of the gates
    report: Path | None = None
    error: ReflectloopError | None = None


def work(place: FileopsTarget, tell: Tell, observer: RunObserver | None = None, *, every: bool = False) -> TaskResult:
    """Execute steps until one is done (all with `every`) or blocked; judge the change when none is left."""
    try:
        with git.room_left(open_project_dirs(place.start).own):
            return _work(place, tell, observer, every=every)
    except KeyboardInterrupt as stop:
        message = "interrupted: changes of the current step were discarded; the attempt does not count"
        raise Interrupted(message, next_step=next_command.BY_AGENTS) from stop


def _work(place: FileopsTarget, tell: Tell, observer: RunObserver | None, *, every: bool) -> TaskResult:
    folders = open_project_dirs(place.start)
    ended: list[AttemptOutcome] = []
    appended, repaired = 0, 0
    judged = _judge_request(place)
    opened = imported_task.open_if_imported(place, events.MADE_BY_TP)
    if opened:
        tell(f"the imported task is continued as {opened}; what it says is done was not verified")
    if _is_untold(folders) or _waits(folders):
        outcome = judge_task(judged, observer)
        return _task_result(folders, ended, None, outcome, outcome.error)
    while True:
        with open_task_session(place, tell) as session:
            last, error = _steps(session, ended, appended, every=every)
        if error or last is None:
            return _task_result(folders, ended, last, None, error)
        if last.appended:
            appended += 1
            continue
        outcome = judge_task(dataclasses.replace(judged, remarks=_remarks(last.result)), observer)
        refusal = _repairable(outcome, repaired)
        if refusal is None or not config.load(folders.root).roles.executor:
            return _task_result(folders, ended, last, outcome, outcome.error)
        repaired += 1
        tell(f"the gates refuse it, and a step is appended: {refusal.message}")
        with open_task_session(place, tell) as session:
            final_review.append(session, "Repair what the gates refuse", _refusal_text(refusal))


def _remarks(review: ReviewResult) -> tuple[tuple[RemarkKind, str], ...]:
    """Return what the final review noticed for the gates."""
    clean = secrets.current_detector().redact
    return tuple(
        (item.kind, clean(f"{item.place}: {item.problem}".removeprefix(": "))) for item in review.items if item.kind
    )


def _judge_request(place: FileopsTarget) -> RunRequest:
    return RunRequest(place.start, isolation=place.isolation, sandbox_root=place.sandbox_root, caller=place.caller)


def _is_untold(folders: Folders) -> bool:
    """Return whether an engine died after the run was decided and before its artifacts were written."""
    task = folders.load_current()
    last = task.last_run
    if last is None or not last.kind.is_stepwise or last.status == "running":
        return False
    return not RunFolder(folders.own / "runs" / last.id).envelope.exists()


def _waits(folders: Folders) -> bool:
    """Return whether the change waits for a person's approval: agents have nothing to do, and none is asked again."""
    run = folders.load_current().last_run
    return run is not None and run.kind.is_stepwise and run.status == "running" and run.waits_for_approval


def _steps(
    session: TaskSession, ended: list[AttemptOutcome], appended: int, *, every: bool
) -> tuple[final_review.FinalReview | None, ReflectloopError | None]:
    """Execute steps; return the final review, or what stops it. Both are None if only one step was asked for."""
    while True:
        refuse_if_asked(session.folders)
        outcome = step_pipeline.run_attempt(session)
        if outcome is None:
            return _reviewed(session, appended)
        ended.append(outcome)
        if outcome.how == "blocked":
            return None, NeedsInput(f"step {outcome.step} is blocked: {outcome.said}", next_step=outcome.unblock)
        if not every and outcome.how in ("done", "split") and next_step(session.read()[1]) is not None:
            return None, None


def _reviewed(session: TaskSession, appended: int) -> tuple[final_review.FinalReview | None, ReflectloopError | None]:
    last = final_review.review(session, appended)
    if last.result.verdict == "PASS" or last.appended:
        return last, None
    problems = prompts.one_line("; ".join(item.problem for item in last.result.items) or last.result.summary)
    return last, NeedsInput(
        f"the final review says {last.result.verdict}: {problems}",
        next_step="look at the report; then: reflectloop redo STEP --reason TEXT, or reflectloop abort --reason TEXT",
    )


def _repairable(outcome: RunOutcome, repaired: int) -> ReflectloopError | None:
    """Return the refusal that agents may repair: also a weakened test, which a person may approve if they cannot."""
    error = outcome.error
    if not isinstance(error, _REPAIRABLE) or error.stops or error.asks:
        return None
    return error if repaired < final_review.MOST_APPENDED else None


def _refusal_text(error: ReflectloopError) -> str:
    return "\n".join([f"{error.code}: {error.message}", *(str(fault) for fault in error.faults)])


def _task_result(
    folders: Folders,
    ended: list[AttemptOutcome],
    last: final_review.FinalReview | None,
    outcome: RunOutcome | None,
    error: ReflectloopError | None,
) -> TaskResult:
    task, done = _task(folders)
    result = last.result if last else None
    left: tuple[Item, ...] = result.items if result and result.verdict != "PASS" else ()
    over = outcome is not None or error is not None
    path = (
        final_review.report(folders, final_review.FinalReportInput(task, done, result, outcome, left)) if over else None
    )
    return TaskResult(task, done, tuple(ended), outcome, path, error)


def _task(folders: Folders) -> tuple[Task, RunState]:
    task = folders.load_current()
    return task, list(task.runs.values())[-1]


def reviewed(place: FileopsTarget, tell: Tell, *, whole: bool) -> ReviewResult:
    """Review the current task, or its current step, without changing anything: the command `review`."""
    with open_task_session(place, tell) as session:
        task, at = session.read()
        plan = session.plan()
        state = next_step(at) or list(at.steps.values())[-1]
        step = next(each for each in plan.steps if each.id == state.id)
        begun = at.base_tree if whole else step_pipeline.tree_before(at, step.id)
        about = final_review.whole(plan, task, at) if whole else session.brief(at, plan, step)
        folder = session.attempt_folder(task, "review", len(at.order) + 1)
        if begun == session.workspace.tree:
            raise NothingToDo("nothing has been changed yet that could be reviewed", next_step=next_command.BY_AGENTS)
        evidence = list(final_review.evidence(at))
        case = reviews.ReviewInput(about, begun, session.workspace.tree, evidence, folder, whole=whole)
        return reviews.review(session, case)
