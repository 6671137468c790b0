"""The newest facts of a brief: the current step, the evidence that is missing, and the next command."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reflectloop.artifacts import next_command
from reflectloop.engine.brief import contract, sizes
from reflectloop.engine.brief.history import TaskRecords
from reflectloop.engine.brief.model import BriefTicket, CurrentStep, LastVerification, Position
from reflectloop.engine.steps import attempt_history, prompts
from reflectloop.plan.model import Plan, Step, command_text
from reflectloop.state import latch
from reflectloop.state.fold import RunState, StepState, Task
from reflectloop.state.transitions import TaskState
from reflectloop.system import files
from reflectloop.system.git import GitFailed
from reflectloop.terms import OutcomeWord
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.store import Store

_MOST_FILES = 40
_MOST_MISSING = 20
_MOST_TICKETS = 5
_MOST_REASONS = 10
_LINE = 300  # characters


def without_task(folders: Folders, tokens: int) -> Position:
    """Return the position in a project without a task."""
    verification = _verification(folders, tokens)
    waiting = _after_verification(verification)
    return Position(
        state="there is no task",
        missing=_verified(verification),
        verification=verification,
        next=_stopped(folders) or waiting or next_command.NEW_RUN,
    )


def of(records: TaskRecords, task: Task, plan: Plan | None, tokens: int) -> Position:
    run, folders = task.last_run, records.folders
    if run is None:
        return Position(state=str(task.state), next=_stopped(folders) or next_command.NEW_RUN)
    changed = _changed(folders, run)
    share = tokens // 10
    return Position(
        state=str(task.state),
        steps_done=run.count("done") + run.count("skipped"),
        steps_total=len(run.steps),
        step=_current(records, task, run, plan, tokens // 2),
        changed_files=_fitting(changed[:_MOST_FILES], share),
        missing=_fitting(list(_missing(run, plan))[:_MOST_MISSING], share),
        tickets=tuple(_tickets(records, share // _MOST_TICKETS))[-_MOST_TICKETS:],
        verification=_verification(folders, share),
        next=_stopped(folders) or _next(task, run, touched=len(changed)),
    )


# The current step -------------------------------------------------------------------------------------------------


def _current(records: TaskRecords, task: Task, run: RunState, plan: Plan | None, tokens: int) -> CurrentStep | None:
    state = next(iter(run.unfinished_steps), None)
    if state is None or task.state in (TaskState.DONE, TaskState.ABORTED):
        return None
    step = next((known for known in plan.steps if known.id == state.id), None) if plan else None
    folder = records.steps / state.id
    past = attempt_history.recall(folder, state)
    return CurrentStep(
        id=state.id,
        title=prompts.one_line(run.titles.get(state.id) or (step.title if step else "")),
        status=state.status,
        details=sizes.cut(_details(step), tokens // 4),
        attempt=state.attempts,
        done_when=_fitting(_claims(plan, step), tokens // 8),
        checks=_fitting(contract.checks_of(plan, step), tokens // 8),
        tools=step.agent.tools if step and step.agent else (),
        question=prompts.one_line("; ".join(filter(None, (state.reason, state.unblock))))
        if state.status == "blocked"
        else "",
        answer=sizes.cut(state.answer, tokens // 8),
        findings=sizes.cut(_findings(records, run, state), tokens // 8),
        requested=sizes.cut(past.asked, tokens // 8),
        design=sizes.cut(_design(folder, state), tokens // 8),
    )


def _claims(plan: Plan | None, step: Step | None) -> list[str]:
    if plan is None or step is None:
        return []
    return [item.claim for item in step.verify if item.claim and item.claim not in plan.checks]


def _details(step: Step | None) -> str:
    if step is None:
        return ""
    prompt = step.agent.prompt if step.agent and step.agent.prompt != step.title else step.details
    commands = "\n".join(f"$ {command_text(command)}" for command in step.commands)
    return "\n".join(filter(None, (prompt, commands)))


def _design(folder: Path, state: StepState) -> str:
    """Return the approach that the planners settled for the present attempt."""
    with contextlib.suppress(OSError, ValueError):
        design = json.loads((folder / str(state.attempts) / "design.json").read_bytes())
        approach = design.get("approach") if isinstance(design, dict) else None
        return approach if isinstance(approach, str) else ""
    return ""


def _findings(records: TaskRecords, run: RunState, state: StepState) -> str:
    """Return what the steps before this one found by looking."""
    earlier = list(run.steps)[: list(run.steps).index(state.id)]
    texts = {name: attempt_history.findings_in(records.steps / name) for name in earlier}
    return "\n\n".join(f"step {name}: {text.strip()}" for name, text in texts.items() if text)


# Evidence ---------------------------------------------------------------------------------------------------------


def _missing(run: RunState, plan: Plan | None) -> Iterator[str]:
    """Yield what has not been shown yet."""
    known = {step.id: step for step in plan.steps} if plan else {}
    for state in run.unfinished_steps:
        checks = "; ".join(contract.checks_of(plan, known.get(state.id)))
        yield prompts.one_line(f"step {state.id} ({state.status}): {checks or 'no check is named for it'}", _LINE)
    if run.outcome == OutcomeWord.PASS or run.status == "ok":
        return
    if plan:
        for item in plan.acceptance:
            yield prompts.one_line(f"criterion {item.id}: {item.check or 'no check is named for it'}", _LINE)
    result = f"the gates say {run.outcome}" if run.outcome else "the gates have not judged it"
    yield f"sealed verification of the whole change: {result}"


def _verified(newest: LastVerification | None) -> tuple[str, ...]:
    if newest and newest.outcome == OutcomeWord.PASS:
        return ()
    result = f"the last one says {newest.outcome}" if newest else "none has run"
    return (f"sealed verification of your change: {result}",)


def _verification(folders: Folders, tokens: int) -> LastVerification | None:
    """Return the newest verification, if no run is newer."""
    folder = folders.find_verification(None)
    receipt = files.read_record(folder.path / "receipt.json") if folder else {}
    if folder is None or not receipt:
        return None
    reasons = [prompts.one_line(str(reason), _LINE) for reason in receipt.get("reasons", ())]
    outcome = str(receipt.get("outcome") or receipt.get("decision") or "")
    return LastVerification(run_id=folder.run_id, outcome=outcome, reasons=_fitting(reasons[:_MOST_REASONS], tokens))


def _fitting(lines: Sequence[str], tokens: int) -> tuple[str, ...]:
    return sizes.first_that_fit(lines, tokens, str)


def _changed(folders: Folders, run: RunState) -> list[str]:
    """Return the files that finished steps changed, or none if their trees are gone."""
    end = run.end_tree if run.status == "ok" else run.stands
    if not end or end == run.base_tree:
        return []
    from reflectloop.workspace import patch  # noqa: PLC0415 - loads the rules for secrets

    try:
        return sorted(
            file.path for file in patch.touched_files(Store(folders.own / "git", "").git(), run.base_tree, end)
        )
    except GitFailed:
        return []


def _tickets(records: TaskRecords, tokens: int) -> Iterator[BriefTicket]:
    """Yield the tickets of the task that nobody reflected on, oldest first; a damaged one is an error."""
    if not (records.folders.journal(records.task).parent / "tickets").is_dir():
        return
    from reflectloop.reflection import ticket_store  # noqa: PLC0415 - few tasks have tickets
    from reflectloop.reflection.ticket import Ticket  # noqa: PLC0415

    place = ticket_store.TicketDir(records.folders.journal(records.task).parent)
    paths = [path for path in place.tickets.glob("*.json") if ticket_store.TICKET_ID.fullmatch(path.stem)]
    for path in sorted(paths, key=lambda path: path.name):
        if not place.rounds(path.stem):
            ticket = ticket_store.read(path, Ticket)
            issues = [prompts.one_line(issue.description, _LINE) for issue in ticket.issues[:_MOST_REASONS]]
            listed = _fitting(issues, tokens) or tuple(issues[:1])
            yield BriefTicket(id=ticket.ticket_id, target=ticket.target or "", issues=listed)


# The next command -------------------------------------------------------------------------------------------------


def _stopped(folders: Folders) -> str:
    if latch.read_stop(folders.own):
        return next_command.UNLOCK
    return "reflectloop apply" if folders.apply_was_killed else ""


def _after_verification(newest: LastVerification | None) -> str | None:
    facts: Mapping[str, Any] = newest.model_dump() if newest else {"outcome": None}
    return next_command.for_verification(facts)


def _next(task: Task, run: RunState, *, touched: int) -> str:
    """Return the command that continues the task while no engine works on it."""
    if run.status == "failed" and not run.waits_for_approval and task.state is not TaskState.ABORTED:
        return next_command.for_task(run)
    return next_command.for_status(task, run, "idle", touched=touched)
