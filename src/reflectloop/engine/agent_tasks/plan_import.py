"""A design that somebody has made already: as `tp` writes it, or a plan file, if all of it can be carried."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from reflectloop.agents.answer_models import DesignCriterion, PlanDesign, PlannedStep
from reflectloop.errors import Fault, InvalidInput
from reflectloop.plan import load as plans
from reflectloop.plan.model import Check, Plan, PlanBudget, PlanLimits, Step
from reflectloop.plan.order import sequence

# What a plan may say that a task of agents has no place for: run by `run`, it is kept to.
_OF_PLAN = ("must_not_change", "may_change_protected", "verification", "isolation", "jobs")
_OF_STEP = ("cwd", "env", "timeout_s", "idle_s", "read_only", "network")
_OF_LIMITS = tuple(name for name in PlanLimits.model_fields if name not in PlanBudget.model_fields)
_CARRIED = {"run", "kind", "check", "expect", "claim"}  # of a check


class ImportedPlan(NamedTuple):
    design: PlanDesign
    limits: PlanBudget = PlanBudget()  # a plan's own; a design has none, since who designs does not set its own limits


def read(path: Path) -> ImportedPlan:
    if path.suffix != ".json":
        return of_plan(plans.load(path).plan, path)
    try:
        said = json.loads(path.read_bytes())
    except OSError as fault:
        raise InvalidInput(f"cannot read {path}: {fault.strerror}", next_step="reflectloop tp --from FILE") from fault
    except (ValueError, RecursionError) as fault:
        raise InvalidInput(f"{path} is no JSON: {fault}", next_step=f"correct {path}") from fault
    if isinstance(said, dict) and "plan" in said:
        return of_plan(plans.load(path).plan, path)
    return ImportedPlan(_design(said, path))


def _design(said: object, path: Path) -> PlanDesign:
    try:
        return PlanDesign.model_validate(said)
    except ValidationError as fault:
        faults = tuple(_fault(dict(one)) for one in fault.errors())
        raise InvalidInput(
            f"{path} is no design: {faults[0]}", next_step=f"correct {path}", faults=faults[1:]
        ) from fault


def _fault(one: dict[str, Any]) -> Fault:
    return Fault(".".join(map(str, one["loc"])), None, one["msg"].removeprefix("Value error, "), InvalidInput.code)


# A plan -----------------------------------------------------------------------------------------------------------


def of_plan(plan: Plan, path: Path) -> ImportedPlan:
    lost = list(dict.fromkeys(_lost(plan)))
    if lost:
        raise InvalidInput(
            f"{path} says what a task of agents has no place for: {', '.join(lost)}",
            next_step=f"reflectloop run {path}",
        )
    order = sequence({step.id: step.depends_on for step in plan.steps})
    steps = {step.id: step for step in plan.steps}
    design = {
        "title": plan.title,
        "goal": plan.objective.goal or plan.title,
        "track": plan.settled_track,
        "non_goals": plan.objective.non_goals,
        "done_when": plan.objective.done_when,
        "acceptance": [_criterion(plan, one) for one in plan.acceptance],
        "may_change": plan.may_change,
        "steps": [_step(plan, steps[name]) for name in order],
    }
    limits = PlanBudget(**plan.limits.model_dump(include=set(PlanBudget.model_fields)))
    return ImportedPlan(_design(design, path), limits)


def _criterion(plan: Plan, one: Any) -> DesignCriterion:  # noqa: ANN401
    return DesignCriterion(id=one.id, text=one.text, check=_line(plan.checks[one.check].run or "") if one.check else "")


def _step(plan: Plan, step: Step) -> PlannedStep:
    return PlannedStep(
        title=step.title or step.id,
        details=step.agent.prompt if step.agent else "",
        done=tuple(one.claim for one in step.verify if one.claim and one.claim not in plan.checks),
        commands=tuple(_line(command) for command in step.commands),
        checks=tuple(_line(wanted.check.run or "") for wanted in plan.checks_of(step)),
    )


def _line(command: str | tuple[str, ...]) -> str:
    return command if isinstance(command, str) else shlex.join(command)


def _lost(plan: Plan) -> Iterator[str]:
    yield from _said(plan, _OF_PLAN)
    yield from (
        f"limits.{name}"
        for name in _said(plan.limits, tuple(set(PlanLimits.model_fields) - set(PlanBudget.model_fields)))
    )
    named = {wanted.name for step in plan.steps for wanted in plan.checks_of(step)}
    named |= {one.check for one in plan.acceptance if one.check}
    yield from (f"checks.{name}, which no step asks for" for name in plan.checks if name not in named)
    for step in plan.steps:
        yield from (f"step {step.id}: {name}" for name in _said(step, _OF_STEP))
        if step.agent and step.agent.role != "executor":
            yield f"step {step.id}: agent.role {step.agent.role}"
        for wanted in plan.checks_of(step):
            yield from (f"check {wanted.name}: {name}" for name in _lost_of(wanted.check, must_fail=wanted.must_fail))
    for one in plan.acceptance:
        if one.check:
            yield from (f"check {one.check}: {name}" for name in _lost_of(plan.checks[one.check], must_fail=False))


def _lost_of(check: Check, *, must_fail: bool) -> Iterator[str]:
    if must_fail:
        yield "expect: fail"
    if check.run is None:
        yield "no run"
    yield from _said(check, tuple(name for name in Check.model_fields if name not in _CARRIED))


def _said(model: BaseModel, names: tuple[str, ...]) -> Iterator[str]:
    """Those of the names that say other than the default."""
    for name in names:
        if getattr(model, name) != type(model).model_fields[name].get_default(call_default_factory=True):
            yield name
