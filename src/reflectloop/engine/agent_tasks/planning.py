"""`tp`: makes a plan for a goal by two planners who do not see each other's design, and opens a task with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.agents.answer_models import PlanDesign
from reflectloop.artifacts import next_command
from reflectloop.engine.agent_tasks import design_merge, plan_import
from reflectloop.engine.agent_tasks.design_merge import AgreedDesign, Subject
from reflectloop.engine.agent_tasks.plan_import import ProposedPlan
from reflectloop.engine.agent_tasks.task_session import TaskSession, Tell, open_task_session
from reflectloop.engine.requests.fileops_session import FileopsTarget
from reflectloop.engine.run import admission
from reflectloop.engine.steps import planner_context, prompts
from reflectloop.engine.tasks.task_journal import NewTask
from reflectloop.errors import AgentUnavailable, Interrupted, InvalidInput, InvalidPlan, NeedsInput
from reflectloop.fileops.ops_context import Refusal
from reflectloop.plan.model import Plan, Step
from reflectloop.state import events
from reflectloop.state.transitions import TaskState
from reflectloop.system import clock, files, git
from reflectloop.terms import Role, Track
from reflectloop.workspace import secret_guard
from reflectloop.workspace.folders import Folders, open_project_dirs

_ENDED = (TaskState.DONE, TaskState.ABORTED)
DESIGNS = "designs"
_CALLS = "asked.json"
_ABORT = "reflectloop abort --reason TEXT"


class PlanningResult(NamedTuple):
    task_id: str | None  # None: the person did not agree
    proposed: ProposedPlan
    rounds: int
    folder: Path
    file: Path  # from which the task can be opened


class PlanRequest(NamedTuple):
    """A goal to be planned, or a file with a plan that exists already."""

    goal: str = ""
    design: Path | None = None


Agree = Callable[[ProposedPlan], bool]


def plan(target: FileopsTarget, request: PlanRequest, agree: Agree, tell: Tell) -> PlanningResult:
    """Make a plan, show it to a person, and open a task with it if they agree."""
    folders = open_project_dirs(target.start)
    try:
        with git.room_left(folders.own):
            return _plan(folders, target, request, agree, tell)
    except KeyboardInterrupt as stop:
        raise Interrupted(
            "interrupted: no task was opened",
            next_step=f"reflectloop tp; designs so far are in {folders.own / DESIGNS}",
        ) from stop


def _plan(folders: Folders, target: FileopsTarget, request: PlanRequest, agree: Agree, tell: Tell) -> PlanningResult:
    secret_guard.refuse_secret_text(request.goal, "the goal")
    _refuse_running(folders)
    with open_task_session(target, tell, "tp") as session:
        calls: list[Any] = _read_calls(request.design.parent) if request.design else []
        session.pool.note = calls.append  # there is no task yet to write them to
        folder = folders.own / DESIGNS / clock.run_id(clock.now()).replace("RLOP", "D")
        folder.mkdir(parents=True, exist_ok=True)
        file = request.design or folder / "design.json"
        if request.design:
            proposed, rounds = plan_import.read(request.design), 0
        else:
            settled = _design(session, request.goal, folder)
            _write_calls(folder, calls)
            design = _choose(settled, folder)
            text = files.json_text(design.model_dump(mode="json"))
            files.write_atomic(folder / "design.json", text + "\n")
            proposed, rounds = plan_import.of_design(design, request.goal), settled.rounds
        faults = refusals(session, proposed.plan)
        if faults:
            raise InvalidPlan(f"the plan cannot be executed: {faults[0]}", next_step=f"correct {file}")
        if not agree(proposed):
            return PlanningResult(None, proposed, rounds, folder, file)
        return PlanningResult(_open(session, proposed, calls), proposed, rounds, folder, file)


def _write_calls(folder: Path, calls: list[Any]) -> None:
    """Store what planning used: it belongs to the task, also if somebody opens that later from the design."""
    files.write_atomic(folder / _CALLS, json.dumps([event.payload() for event in calls]) + "\n")


def _read_calls(folder: Path) -> list[Any]:
    try:
        stored = json.loads((folder / _CALLS).read_bytes())
        return [events.AgentAsked(**{name: call[name] for name in call if name != "kind"}) for call in stored]
    except (OSError, ValueError, TypeError):  # a design that somebody wrote by hand
        return []


def _refuse_running(folders: Folders) -> None:
    """Refuse before an agent is asked, which costs money."""
    task = folders.load_current()
    if task.id and task.state not in _ENDED and not task.passed:
        last = task.last_run
        continues = next_command.command(last) if last else ""
        if last and last.status == "failed":
            continues = "reflectloop retry --reason TEXT"
        raise InvalidInput(
            f"task {task.id} is {task.state}: a plan that is not done is not overwritten",
            next_step=f"{continues}; or: {_ABORT}" if continues else _ABORT,
        )


def _design(session: TaskSession, goal: str, folder: Path) -> AgreedDesign[PlanDesign]:
    if not session.pool.has(Role.PLANNER):
        raise AgentUnavailable(
            "no agent is bound to the planner, and no rule makes a plan of a goal",
            next_step='planner = "NAME" under [roles] in reflectloop.toml; or: reflectloop tp --from PLAN.yaml',
            missing=("role:planner",),
        )
    near = planner_context.of(session.folders, session.workspace, goal)
    advice = planner_context.advice(session.folders.root, "design", goal)
    settled = design_merge.settle(
        session.pool, PlanDesign, Subject("the goal", folder), lambda: prompts.plan(goal, near, advice)
    )
    faults = refusals(session, settled.design.as_plan(goal)) if settled.design else []
    if not faults:
        return settled
    session.tell(f"the plan cannot be executed, and the planner is asked once more: {faults[0]}")
    prompt = prompts.plan(goal, near, advice, faults)
    return design_merge.settle(session.pool, PlanDesign, Subject("the goal", folder / "again"), lambda: prompt)


def _choose(settled: AgreedDesign[PlanDesign], folder: Path) -> PlanDesign:
    if settled.design:
        return settled.design
    raise NeedsInput(
        f"two planners do not agree after {settled.rounds} rounds: {'; '.join(settled.objections)}",
        next_step=f"choose one: reflectloop tp --from {folder}/design-first.json (or -second, or -merged-3)",
    )


# Refusals --------------------------------------------------------------------------------------------------------


def refusals(session: TaskSession, plan: Plan) -> list[str]:
    """Return what would stop this plan later."""
    return [*_unproven(session, plan), *_denied(session, plan), *_incomplete(plan)]


def _unproven(session: TaskSession, plan: Plan) -> list[str]:
    """Return the steps that nothing can show to be done."""
    bare = [number for number, step in enumerate(plan.steps) if not _is_shown(plan, step)]
    if not bare:
        return []
    from reflectloop.engine.gating.verify_command import detected  # noqa: PLC0415 - knows many ecosystems

    if any(check.kind == "test" for check in detected(session.folders.root, session.pool.caller)):
        return []  # the project's own tests are then run
    return [f"steps[{number}] names no checks, and the project has no tests that could show it" for number in bare]


def _is_shown(plan: Plan, step: Step) -> bool:
    return bool(plan.checks_of(step) or step.commands or step.looks_only)


def _denied(session: TaskSession, plan: Plan) -> list[str]:
    """Return commands that the policy refuses, of steps, checks and acceptance criteria."""
    refused = [*admission.refusals_of(plan, plan.steps, session.policy)]
    denied = [f"{command.place}: {command.message}" for command in refused]
    for name, check in plan.checks.items():
        verdict = session.policy.judge(check.run) if check.run is not None else None
        if verdict and not verdict.allowed and name.startswith("acceptance-"):
            denied.append(f"{name}: {verdict.reason} ({verdict.rule}): {check.description}")
    return denied


def _incomplete(plan: Plan) -> list[str]:
    """Return what the gates want a feature to say and it does not."""
    if plan.track is not Track.FEATURE:
        return []
    if not plan.acceptance:
        return ["acceptance: a feature names at least one criterion, with a check"]
    return [f"acceptance {item.id}: names no check" for item in plan.acceptance if not item.check]


# Opening ---------------------------------------------------------------------------------------------------------


def _open(session: TaskSession, proposed: ProposedPlan, calls: list[Any]) -> str:
    """Open the task, and record in its journal what planning used."""
    plan, journal = proposed.plan, session.journal
    objective = plan.objective
    stated: events.Json = {
        "objective": {
            "goal": objective.goal or plan.title,
            "nonGoals": list(objective.non_goals),
            "doneWhen": objective.done_when,
        },
        "context": {
            "repoType": "",
            "keyFiles": [name for name in proposed.key_files if _is_file(session, name)],
            "background": "",
        },
        "constraints": [f"risk: {risk}" for risk in proposed.risks],
        "finalDone": [],
    }
    details: dict[str, events.Json] = {step.id: _details(plan, step) for step in plan.steps}
    try:
        task_id = journal.open_task(NewTask(plan, stated, details, events.MADE_BY_TP), session.files.domain.base)
    except Refusal as refusal:
        raise InvalidInput(f"the task cannot be opened: {refusal.reason}", next_step="reflectloop status") from refusal
    session.commit()
    run = journal.task().last_run
    for event in calls:
        journal.note(event.replaced(run_id=run.id if run else ""))
    return task_id


def _details(plan: Plan, step: Step) -> events.Json:
    """Return a step as TriFlow's state file describes it."""
    return {
        "details": step.agent.prompt if step.agent else step.details,
        "done": [item.claim for item in step.verify if item.claim and item.claim not in plan.checks],
        "commands": [command if isinstance(command, str) else list(command) for command in step.commands],
        "checks": [wanted.check.description for wanted in plan.checks_of(step)],
    }


def _is_file(session: TaskSession, name: str) -> bool:
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts and (session.workspace.repo / path).is_file()
