"""`route`: decide the way forward after the last run and name its command. Writes nothing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflectloop.artifacts import next_command
from reflectloop.commands import task_status
from reflectloop.diagnosis.failure_record import TOO_OFTEN, FailureRecord, Needs
from reflectloop.errors import Latched, MissingPlan, NothingToDo
from reflectloop.reflection import blocker_card, ticket_lessons
from reflectloop.state import latch
from reflectloop.state.fold import RunState, Task, TaskKind
from reflectloop.state.transitions import TaskState
from reflectloop.workspace.folders import Folders, open_project_dirs

Way = Literal["research", "replan", "ask", "unlock", "retry"]
_BROKEN_PLANS = ("INVALID_PLAN", "SANDBOX_ESCAPE")
_ADVICE: dict[Needs, str] = {
    "RESEARCH": "find out what is missing or incompatible, then change the plan or the machine",
    "REPLAN": "the plan does not work: write a changed one",
    "ASK": "a person must decide",
    "RETRY": "something outside failed: run it again when it is fixed",
}
# The commands that the older protocol's router calls.
_THINKING: dict[Way, str] = {"research": "/thingking_web", "replan": "/thingking_web"}


class FailedRunFacts(NamedTuple):
    """The facts about a failed run."""

    run_id: str
    failure: FailureRecord
    summary: str
    plan: str  # path as the user wrote it
    again: str  # the command that runs it again
    advised: str = ""  # the command that its error suggested
    times_seen: int = 1
    fixes: Sequence[str] = ()  # commands that helped before


class Route(NamedTuple):
    """The way forward after a failure."""

    route: Way
    why: str
    command: str  # to run now
    then: str = ""  # to run after it
    run_id: str = ""
    facts: tuple[tuple[str, Any], ...] = ()  # about the failure

    def as_data(self) -> dict[str, Any]:
        fields = {name: value for name, value in self._asdict().items() if name != "facts"}
        return {**fields, "thinking": _THINKING.get(self.route), **dict(self.facts)}


def of_failure(card: FailedRunFacts) -> Route:
    """Return the route for a failed run."""
    failure = card.failure
    facts = {
        "needs": failure.needs,
        "category": failure.category,
        "class": str(failure.error_class),
        "signature": failure.signature,
        "times_seen": card.times_seen,
        "known_fixes": list(card.fixes),
    }
    return _way(card)._replace(run_id=card.run_id, facts=tuple(facts.items()))


def _way(card: FailedRunFacts) -> Route:
    cause = card.failure.diagnosis.root_cause if card.failure.diagnosis else ""
    what = f"{card.summary}; likely: {cause}" if cause and cause not in card.summary else card.summary
    if card.times_seen >= TOO_OFTEN and card.failure.needs != "RETRY":
        often = f"the same failure, seen {card.times_seen} times (3.3.1): a stronger backend, or a person, must look"
        return Route("ask", f"{what}; {often}", f"reflectloop reflect {card.run_id}", card.again)
    if card.fixes:
        return Route(_way_of(card.failure.needs), f"{what}; this helped before", card.fixes[0], card.again)
    advice = card.advised if card.failure.needs == "ASK" and not card.advised.startswith("reflectloop ") else ""
    why = f"{what}; {advice or _ADVICE[card.failure.needs]}"
    return Route(_way_of(card.failure.needs), why, *_commands(card))


def _way_of(needs: Needs) -> Way:
    ways: dict[Needs, Way] = {"RESEARCH": "research", "REPLAN": "replan", "ASK": "ask", "RETRY": "retry"}
    return ways[needs]


def _commands(card: FailedRunFacts) -> tuple[str, str]:
    """Return the command to run now, and the one after it."""
    failure, diagnosis = card.failure, card.failure.diagnosis
    match failure.needs:
        case "RESEARCH":
            cause = diagnosis.root_cause if diagnosis else card.summary
            look_up = (
                f"reflectloop lessons search --moment failure --signature {failure.signature} {shlex.quote(cause)}"
            )
            return (diagnosis.next_command if diagnosis else None) or look_up, card.again
        case "REPLAN":
            plan = shlex.quote(card.plan)
            if failure.code == MissingPlan.code:
                return "reflectloop tp GOAL", "reflectloop tr --all"
            check = failure.code in _BROKEN_PLANS
            return (f"reflectloop plan check {plan}" if check else f"reflectloop reflect {card.run_id}"), (
                f"reflectloop run {plan}"
            )
        case "ASK":
            typed = card.advised.startswith("reflectloop ") and card.advised != card.again
            return card.advised if typed else f"reflectloop show {card.run_id}", card.again
    return (next_command.RESUME, "") if failure.code == "INTERRUPTED" else (card.again, "")


# From the project's files -----------------------------------------------------------------------------------------


def route(start: Path) -> Route:
    """Return the way forward: out of the project's latch, out of an open run, or out of the last failure."""
    folders = open_project_dirs(start)
    stop = latch.read_stop(folders.own)
    if stop:
        return Route(
            "unlock", f"{stop.error_code}: {stop.reason}; look into it first", next_command.UNLOCK, run_id=stop.run_id
        )
    task = folders.peek_current()
    last = task.last_run
    if last and last.waits_for_approval and task.state is not TaskState.ABORTED:
        return _of_review(last)
    unfinished = _of_unfinished(folders, task, last) if last and last.status == "running" else None
    return unfinished or of_failure(_facts(folders, task))


def _of_review(run: RunState) -> Route:
    why = f"{run.id} is REVIEW: a person may approve what the gates found; or change the plan and run it again"
    return Route("ask", why, next_command.approve(run.id), f"reflectloop apply {run.id}", run_id=run.id)


def _of_unfinished(folders: Folders, task: Task, run: RunState) -> Route | None:
    """Return the route for a run that has not ended: answer a blocked step, or continue; None if it left a blocker."""
    blocked = next((step for step in run.steps.values() if step.status == "blocked"), None)
    if blocked:
        why = f"step {blocked.id} is blocked: {blocked.reason}; {blocked.unblock}"
        return Route("ask", why, next_command.answer(blocked.id), run_id=run.id)
    if task.state is TaskState.PAUSED:
        return Route("retry", f"{run.id} is paused", next_command.RESUME, run_id=run.id)
    if run.kind is TaskKind.AGENTS and not folders.run_folder(run.id).blocker.exists():
        why = f"{run.id} still has steps to do, or its final review"
        return Route("retry", why, next_command.BY_AGENTS, run_id=run.id)
    if run.kind.is_stepwise:
        return None
    task_status.refuse_running(folders, folders.find_run(run.id))
    return Route(
        "retry", f"the engine of {run.id} is gone; its finished steps are kept", next_command.RESUME, run_id=run.id
    )


def _facts(folders: Folders, task: Task) -> FailedRunFacts:
    folder = folders.find_run(None)
    if not folder.blocker.exists():
        raise NothingToDo(f"nothing to route: {folder.run_id} left no blocker", next_step="reflectloop status")
    card = blocker_card.read(folders, folder.run_id)
    if card.failure.code == Latched.code and task.latch:  # it only says that an earlier failure holds the task
        card = blocker_card.read(folders, task.latch.run_id)
    return FailedRunFacts(
        card.run_id,
        card.failure,
        card.summary,
        plan=card.plan,
        again=card.again,
        advised=card.advised,
        times_seen=len(blocker_card.runs_with_signature(folders, card.failure.signature)),
        fixes=ticket_lessons.commands(folders, card.failure.signature),
    )
