"""The ninth step: the whole change is reviewed, then judged by the gates; what small faults remain become steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reflectloop import config, languages, secrets
from reflectloop.agents.answer_models import Item
from reflectloop.artifacts import usage
from reflectloop.engine.agent_tasks import reviews
from reflectloop.engine.agent_tasks.reviews import ReviewResult
from reflectloop.engine.agent_tasks.task_session import TaskSession
from reflectloop.engine.run.request import RunOutcome
from reflectloop.engine.steps.prompts import StepBrief, requested_changes
from reflectloop.fileops.plan_ops import NewStep
from reflectloop.plan.model import Plan
from reflectloop.state.fold import RunState, Task
from reflectloop.system import clock, files
from reflectloop.terms import Role
from reflectloop.workspace import generated_files
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.generated_files import HEAD

MOST_APPENDED = 2  # rounds in which steps are appended; what is larger is a task of its own
_SHOWN = 300


class FinalReview(NamedTuple):
    """The result of the final review, and the steps that were appended for it."""

    result: ReviewResult
    appended: tuple[str, ...] = ()


def review(session: TaskSession, appended: int) -> FinalReview:
    """Review the whole change; append a step that repairs it, within the limit."""
    task, run = session.read()
    folder = session.attempt_folder(task, "final", appended + 1)
    work = whole(session.plan(), task, run)
    case = reviews.ReviewInput(
        work, run.base_tree, session.workspace.tree, list(evidence(run)), folder, appended + 1, whole=True
    )
    result = reviews.review(session, case)
    if result.verdict == "RETRY" and appended < MOST_APPENDED and session.pool.has(Role.EXECUTOR):
        names = append(session, "Repair what the final review found", requested_changes(result.items))
        return FinalReview(result, names)
    return FinalReview(result)


def append(session: TaskSession, title: str, details: str) -> tuple[str, ...]:
    """Append a step that repairs the change; the checks of all finished steps prove it."""
    _, run = session.read()
    plan = session.plan()
    finished = [step for step in plan.steps if run.steps[step.id].status == "done"]
    commands = [wanted.check.run for step in finished for wanted in plan.checks_of(step) if not wanted.must_fail]
    draft = NewStep(
        title=title,
        details=secrets.current_detector().redact(details)[:15_000],
        checks=tuple(dict.fromkeys(command for command in commands if command is not None)),
    )
    names = session.journal.append_steps([draft], title)
    session.commit()
    return tuple(names)


def whole(plan: Plan, task: Task, run: RunState) -> StepBrief:
    titles = "\n".join(f"{name}. {run.titles.get(name, '')}" for name in run.steps)
    return StepBrief(plan.objective.goal, "all", task.title, titles)


def evidence(run: RunState) -> Iterator[str]:
    for step in run.steps.values():
        for check in step.ended.checks if step.ended else ():
            yield f"step {step.id}: {check.get('command', check.get('name'))}: {check.get('reason')}"


# The report -------------------------------------------------------------------------------------------------------


class FinalReportInput(NamedTuple):
    """The input of the final report."""

    task: Task
    run: RunState
    last: ReviewResult | None
    outcome: RunOutcome | None
    follow_up: Sequence[Item] = ()


def report(folders: Folders, case: FinalReportInput) -> Path:
    path = folders.own / "final" / f"{case.task.id}-report.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = secrets.current_detector().redact(languages.document("\n".join(_lines(case)) + "\n"))
    files.write_atomic(path, text)
    if config.load(folders.root).publish.triflow:
        _publish(folders.root / generated_files.REPORTS, path.name, text)
    return path


def _publish(folder: Path, name: str, text: str) -> None:
    """Write a copy of the report where TriFlow looks for it; a file that is not ours, or a link, is left alone."""
    target = folder / name
    if folder.is_symlink() or (target.exists() and not generated_files.is_report(target)):
        return
    folder.mkdir(exist_ok=True)
    files.write_atomic(target, f"{HEAD}\n{text}")


def _lines(case: FinalReportInput) -> Iterator[str]:
    task, run = case.task, case.run
    yield from (f"# {task.title}", "", f"Task {task.id}, {clock.stamp(clock.now())}: {task.state}.", "")
    yield from _judged(case.outcome)
    yield from ("", "## Steps", "")
    for step in run.steps.values():
        why = f": {step.reason[:_SHOWN]}" if step.reason else ""
        yield f"- {step.id}. {run.titles.get(step.id, '')} ({step.status}, {step.attempts} attempt(s){why})"
        for check in step.ended.checks if step.ended else ():
            yield f"  - `{check.get('command', check.get('name'))}`: {check.get('reason')}"
    if case.last:
        yield from ("", "## Final review", "", f"{case.last.verdict} by {', '.join(case.last.by)}.")
        yield from (f"- {item.severity}: {item.place}: {item.problem}" for item in case.last.items)
    if case.follow_up:
        yield from ("", "## For a follow-up task", "")
        yield from (f"- {item.place}: {item.problem}" for item in case.follow_up)
    yield from ("", "## Cost", "", *usage.table(task))


def _judged(outcome: RunOutcome | None) -> Iterator[str]:
    if outcome is None:
        yield "The gates have not judged it."
    elif outcome.error:
        yield f"The gates: {outcome.error.code}: {outcome.error.message}"
        yield f"Next: {outcome.error.next_step}"
    else:
        yield f"The gates let it through: {outcome.envelope.run_id}, {len(outcome.touched)} file(s) changed."
        yield from (f"- {path}" for path in outcome.touched)
