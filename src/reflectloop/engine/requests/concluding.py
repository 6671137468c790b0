"""The last word on a task that requests worked on: its plan is in the journal, its change in the tree they left."""

from __future__ import annotations

from collections.abc import Iterator

from reflectloop.engine import next_command
from reflectloop.engine.artifacts import views
from reflectloop.engine.folders import Folders
from reflectloop.engine.requests.request_log import RequestLog
from reflectloop.errors import NothingToDo
from reflectloop.fileops.plan_ops import PlanInitContract
from reflectloop.plan.load import LoadedPlan
from reflectloop.plan.model import Acceptance, Check, Objective, Plan, PlanLimits, Step
from reflectloop.state import events
from reflectloop.state.fold import RunState, Task, TaskKind
from reflectloop.state.transitions import TaskState
from reflectloop.workspace.store import Store

FORM = "fileops"


def refuse_open(folders: Folders, task: Task, run: RunState) -> None:
    """What still has a step left is gone on with by agents or requests, not by us; a pause ends here all the same."""
    left = [step for step in run.steps.values() if step.status not in ("done", "skipped")]
    if not left:
        return
    lifted = "the pause is over; " if task.state is TaskState.PAUSED else ""
    if lifted:
        _end_pause(folders, task, run)
    step, by = left[0], "agents" if run.kind is TaskKind.AGENTS else "requests"
    raise NothingToDo(
        f"{lifted}step {step.id} of task {task.id} is {step.status}; its steps are done by {by}",
        next_step=next_command.command(run),
    )


def _end_pause(folders: Folders, task: Task, run: RunState) -> None:
    book = folders.open_journal(task.id)
    try:
        book.append(events.RunResumed(run_id=run.id))
    finally:
        book.close()
    views.refresh(book.path.parent)


def plan_of(folders: Folders, task: Task, run: RunState) -> LoadedPlan:
    """The plan that `triflow_plan_init` gave, and every step's own checks by name."""
    contract = _contract(run)
    met = {f"acceptance-{one.id}": Check(run=one.check) for one in contract.acceptance if one.check}
    plan = Plan(
        title=task.title,
        objective=Objective(goal=_goal(run)),
        track=contract.track,
        acceptance=tuple(
            Acceptance(id=one.id, text=one.text, check=f"acceptance-{one.id}" if one.check else None)
            for one in contract.acceptance
        ),
        may_change=contract.may_change,
        limits=PlanLimits(**contract.limits.model_dump()),
        checks={**dict(_checks(run)), **met},
        steps=tuple(Step(id=name, title=run.titles.get(name, "")) for name in run.steps),
    )
    return LoadedPlan(plan, folders.journal(task.id), FORM, "", (), {})


def _contract(run: RunState) -> PlanInitContract:
    """What `triflow_plan_init` said; a task of before, or one that says nothing, owes nothing more."""
    said = run.objective.get("contract")
    return PlanInitContract.model_validate(said) if isinstance(said, dict) else PlanInitContract()


def _goal(run: RunState) -> str:
    said = run.objective.get("objective")
    return str(said.get("goal", "")) if isinstance(said, dict) else ""


def _checks(run: RunState) -> Iterator[tuple[str, Check]]:
    for step in run.steps.values():
        wanted = run.details.get(step.id, {}).get("checks") if step.status == "done" else None
        for number, command in enumerate(wanted if isinstance(wanted, list) else (), 1):
            yield f"step-{step.id}.{number}", Check(run=command)


def tree_of(folders: Folders, store: Store, task: Task, run: RunState) -> str:
    """What the last request left; where its pointer is lost, what the last finished step left."""
    answers = RequestLog(folders, store)
    behind = answers.is_behind(run.stands)
    if answers.now.task == task.id and answers.has(answers.now.tree) and not behind:
        return answers.now.tree
    return run.reached
