"""`tp`: a plan for a goal, by two planners who do not see each other's, shown to a person before anything is begun."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import policy
from reflectloop.agents.answer_models import PlanDesign, PlannedStep
from reflectloop.engine import next_command
from reflectloop.engine.agent_tasks import design_merge, plan_import, planner_context, prompts
from reflectloop.engine.agent_tasks import task_session as desks
from reflectloop.engine.agent_tasks.design_merge import AgreedDesign, Subject
from reflectloop.engine.agent_tasks.task_session import TaskSession, Tell
from reflectloop.engine.artifacts import views
from reflectloop.engine.folders import Folders, folders_at
from reflectloop.engine.requests.fileops_session import FileopsTarget
from reflectloop.errors import AgentUnavailable, Interrupted, InvalidInput, InvalidPlan, NeedsInput
from reflectloop.plan.model import PlanBudget
from reflectloop.state import events, journal
from reflectloop.state.fold import Task, fold
from reflectloop.state.transitions import TaskState
from reflectloop.system import clock, files, git
from reflectloop.terms import Role, Track
from reflectloop.workspace import secret_guard

_ENDED = (TaskState.DONE, TaskState.ABORTED)
DESIGNS = "designs"
_ASKED = "asked.json"


class PlanningResult(NamedTuple):
    task_id: str | None  # None: the person did not agree
    design: PlanDesign
    rounds: int
    folder: Path
    file: Path  # from which it can be begun


class PlanRequest(NamedTuple):
    """What is to be planned: a goal, or a design that somebody made already."""

    goal: str = ""
    design: Path | None = None


Agree = Callable[[PlanDesign], bool]


def plan(place: FileopsTarget, wish: PlanRequest, agree: Agree, tell: Tell) -> PlanningResult:
    folders = folders_at(place.start)
    try:
        with git.room_left(folders.own):
            return _plan(folders, place, wish, agree, tell)
    except KeyboardInterrupt as stop:
        said = "stopped by the user; no task was begun"
        raise Interrupted(said, next_step=f"reflectloop tp; designs so far are in {folders.own / DESIGNS}") from stop


def _plan(folders: Folders, place: FileopsTarget, wish: PlanRequest, agree: Agree, tell: Tell) -> PlanningResult:
    secret_guard.refuse_words(wish.goal, "the goal")
    _refuse_running(folders)
    with desks.opened(place, tell, "tp") as desk:
        asked: list[Any] = _asked_for(wish.design.parent) if wish.design else []
        desk.crew.note = asked.append  # there is no task yet to write them to
        folder = folders.own / DESIGNS / clock.run_id(clock.now()).replace("RLOP", "D")
        folder.mkdir(parents=True, exist_ok=True)
        made = plan_import.read(wish.design) if wish.design else None
        settled = AgreedDesign(made.design) if made else _designed(desk, wish.goal, folder)
        _keep_asked(folder, asked)
        design = _choose(settled, folder)
        file = wish.design or folder / "design.json"
        files.write_atomic(folder / "design.json", json.dumps(design.model_dump(mode="json"), indent=2) + "\n")
        faults = refusals(desk, design)
        if faults:
            raise InvalidPlan(f"the design cannot be worked by: {faults[0]}", next_step=f"correct {file}")
        if not agree(design):
            return PlanningResult(None, design, settled.rounds, folder, file)
        task_id = _open(desk, design, wish.goal or design.goal, made.limits if made else PlanBudget())
        _tell_costs(folders, task_id, asked)
        return PlanningResult(task_id, design, settled.rounds, folder, file)


def _keep_asked(folder: Path, asked: list[Any]) -> None:
    """What planning used, also where nobody agrees: whoever begins the design later begins with that."""
    files.write_atomic(folder / _ASKED, json.dumps([event.payload() for event in asked]) + "\n")


def _asked_for(folder: Path) -> list[Any]:
    try:
        said = json.loads((folder / _ASKED).read_bytes())
        return [events.AgentAsked(**{name: one[name] for name in one if name != "kind"}) for one in said]
    except (OSError, ValueError, TypeError):  # a design that somebody wrote by hand
        return []


def _refuse_running(folders: Folders) -> None:
    """Before anybody is asked for money."""
    current = folders.current_task()
    task = fold(journal.read(folders.journal(current))) if current else Task()
    if task.id and task.state not in _ENDED and not task.passed:
        last = list(task.runs.values())[-1] if task.runs else None
        goes_on = (
            "reflectloop retry --reason TEXT"
            if last and last.status == "failed"
            else next_command.command(last)
            if last
            else ""
        )
        raise InvalidInput(
            f"task {task.id} is {task.state}: a plan that is not done is not overwritten",
            next_step=" or: ".join(filter(None, (goes_on, "reflectloop abort --reason TEXT"))),
        )


def _designed(desk: TaskSession, goal: str, folder: Path) -> AgreedDesign[PlanDesign]:
    if not desk.crew.has(Role.PLANNER):
        raise AgentUnavailable(
            "no agent is bound to the planner, and no rule makes a plan of a goal",
            next_step='planner = "NAME" under [roles] in reflectloop.toml; or: reflectloop tp --from PLAN.yaml',
            missing=("role:planner",),
        )
    near = planner_context.of(desk.folders, desk.space, goal)
    advice = planner_context.advice(desk.folders.root, "design", goal)
    settled = design_merge.settle(
        desk.crew, PlanDesign, Subject("the goal", folder), lambda: prompts.plan(goal, near, advice)
    )
    faults = refusals(desk, settled.design) if settled.design else []
    if not faults:
        return settled
    desk.tell(f"the plan cannot be worked by, and is asked for once more: {faults[0]}")
    again = folder / "again"
    prompt = prompts.plan(goal, near, advice, faults)
    return design_merge.settle(desk.crew, PlanDesign, Subject("the goal", again), lambda: prompt)


def _choose(settled: AgreedDesign[PlanDesign], folder: Path) -> PlanDesign:
    if settled.design:
        return settled.design
    raise NeedsInput(
        f"two planners do not agree after {settled.rounds} rounds: {'; '.join(settled.objections)}",
        next_step=f"choose one: reflectloop tp --from {folder}/design-first.json (or -second, or -merged-3)",
    )


# Looking ---------------------------------------------------------------------------------------------------------


def refusals(desk: TaskSession, design: PlanDesign) -> list[str]:
    """What would stop this plan later, found before it is begun."""
    return [*_unproven(desk, design), *_denied(desk, design), *_incomplete(design)]


def _unproven(desk: TaskSession, design: PlanDesign) -> list[str]:
    """A step that nothing can show to be done."""
    bare = [number for number, one in enumerate(design.steps, 1) if not (one.checks or one.commands)]
    if not bare:
        return []
    from reflectloop.engine.gating.verify_command import detected  # noqa: PLC0415 - knows many ecosystems

    if any(one.kind == "test" for one in detected(desk.folders.root, desk.crew.caller)):
        return []  # the project's own tests are then run
    return [f"steps[{number - 1}] names no checks, and the project has no tests that could show it" for number in bare]


def _denied(desk: TaskSession, design: PlanDesign) -> list[str]:
    rules = policy.of(desk.crew.settings.policy, desk.folders.root).in_workspace
    named = [(f"steps[{i}].{what}", line) for i, one in enumerate(design.steps) for what, line in _lines(one)]
    named += [(f"acceptance[{i}].check", one.check) for i, one in enumerate(design.acceptance) if one.check]
    judged = ((place, line, rules.judge(line)) for place, line in named)
    return [f"{place}: {said.reason} ({said.rule}): {line}" for place, line, said in judged if not said.allowed]


def _lines(step: PlannedStep) -> list[tuple[str, str]]:
    return [("commands", one) for one in step.commands] + [("checks", one) for one in step.checks]


def _incomplete(design: PlanDesign) -> list[str]:
    """What the gates will want to be said, by track."""
    if design.track is Track.DIRECT:
        return []
    out = []
    if design.track is Track.FEATURE:
        out += [] if design.acceptance else ["acceptance: a feature names at least one criterion, with a check"]
        out += [f"acceptance {one.id}: names no check" for one in design.acceptance if not one.check]
    return out


# Beginning -------------------------------------------------------------------------------------------------------


def _open(desk: TaskSession, design: PlanDesign, goal: str, limits: PlanBudget) -> str:
    op: dict[str, Any] = {
        "op": "triflow_plan_init",
        "taskName": design.title,
        "objective": {"goal": goal, "nonGoals": design.non_goals, "doneWhen": design.done_when},
        "context": {"keyFiles": [one for one in design.key_files if _is_file(desk, one)]},
        "constraints": [f"risk: {one}" for one in design.risks if one],
        "steps": [one.model_dump(mode="json") for one in design.steps],
        "contract": {
            "track": str(design.track),
            "acceptance": [
                {"id": f"AC-{number}", "text": one.text or one.id, "check": one.check or None}
                for number, one in enumerate(design.acceptance, 1)
            ],
            "may_change": design.may_change,
            "limits": limits.model_dump(mode="json"),
        },
    }
    desk.domain.made_by = events.MADE_BY_TP
    response = desk.request("write_plan_files", op, summary=design.title)
    if response.status != "ok":
        why = "; ".join(f"{one.field}: {one.error}" for one in response.errors) or response.status
        raise InvalidInput(f"the plan cannot be begun: {why}", next_step="reflectloop status")
    task_id = desk.folders.current_task()
    assert task_id  # noqa: S101 - just opened
    return task_id


def _is_file(desk: TaskSession, name: str) -> bool:
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts and (desk.space.repo / path).is_file()


def _tell_costs(folders: Folders, task_id: str, asked: list[Any]) -> None:
    """What planning used belongs to the task that came of it."""
    path = folders.journal(task_id)
    run_id = list(fold(journal.read(path)).runs)[-1]
    book = folders.open_journal(task_id)
    try:
        for event in asked:
            book.append(dataclasses.replace(event, run_id=run_id))
    finally:
        book.close()
    views.refresh(path.parent)
