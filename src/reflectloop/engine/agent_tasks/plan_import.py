"""Reads a plan that somebody wrote already: a design as `tp` writes it, or a plan file of any format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from reflectloop.agents.answer_models import PlanDesign
from reflectloop.errors import Fault, InvalidInput
from reflectloop.plan import drafts
from reflectloop.plan import load as plans
from reflectloop.plan.model import Plan
from reflectloop.plan.order import sequence


class ProposedPlan(NamedTuple):
    """A plan to show to a person, and what its designer says about it."""

    plan: Plan
    key_files: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()


def of_design(design: PlanDesign, goal: str = "") -> ProposedPlan:
    return ProposedPlan(design.as_plan(goal), design.key_files, tuple(risk for risk in design.risks if risk))


def read(path: Path) -> ProposedPlan:
    if path.suffix != ".json":
        return _of_plan_file(path)
    try:
        content = json.loads(path.read_bytes())
    except OSError as fault:
        raise InvalidInput(f"cannot read {path}: {fault.strerror}", next_step="reflectloop tp --from FILE") from fault
    except (ValueError, RecursionError) as fault:
        raise InvalidInput(f"{path} is no JSON: {fault}", next_step=f"correct {path}") from fault
    if isinstance(content, dict) and "plan" in content:
        return _of_plan_file(path)
    try:
        return of_design(PlanDesign.model_validate(content))
    except ValidationError as fault:
        faults = tuple(
            Fault(".".join(map(str, error["loc"])), None, error["msg"].removeprefix("Value error, "), InvalidInput.code)
            for error in fault.errors()
        )
        raise InvalidInput(
            f"{path} is no design: {faults[0]}", next_step=f"correct {path}", faults=faults[1:]
        ) from fault


def _of_plan_file(path: Path) -> ProposedPlan:
    """Return the whole plan; its steps are in the order in which they are executed, one after another."""
    plan = drafts.name_checks(plans.load(path).plan)
    steps = {step.id: step for step in plan.steps}
    order = sequence({step.id: step.depends_on for step in plan.steps})
    return ProposedPlan(plan.model_copy(update={"steps": tuple(steps[name] for name in order)}))
