"""Reads a plan that somebody wrote already: a design as `tp` writes it, or a plan file of any format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from reflectloop.agents import plan_text
from reflectloop.agents.answer_models import PlanDesign
from reflectloop.errors import Fault, InvalidInput
from reflectloop.plan import drafts, strict_yaml
from reflectloop.plan import load as plans
from reflectloop.plan.model import Plan
from reflectloop.plan.order import sequence
from reflectloop.terms import wrong_shape

_TEXTS = ("", ".md", ".markdown", ".txt")  # may hold a [PLAN]


class ProposedPlan(NamedTuple):
    """A plan to show to a person, and what its designer says about it."""

    plan: Plan
    key_files: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()


def of_design(design: PlanDesign, goal: str = "") -> ProposedPlan:
    return ProposedPlan(design.as_plan(goal), design.key_files, tuple(risk for risk in design.risks if risk))


def read(path: Path) -> ProposedPlan:
    """Return the plan in a file: a design as a planner writes it, in JSON or YAML, or a plan of any form."""
    content = _content(path)
    if path.suffix in _TEXTS and (plan := plan_text.parse_plan(_text(path)).plan):
        content = plan.model_dump(mode="json")
    elif not _is_design(content, path):
        return _of_plan_file(path)
    try:
        return of_design(PlanDesign.model_validate(content))
    except ValidationError as fault:
        shapes = ((error, wrong_shape(error["type"], error.get("ctx", {}), error["msg"])) for error in fault.errors())
        faults = tuple(
            Fault(".".join(map(str, error["loc"])), None, message, InvalidInput.code) for error, message in shapes
        )
        raise InvalidInput(
            f"{path} is no design: {faults[0]}", next_step=f"correct {path}", faults=faults[1:]
        ) from fault


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _content(path: Path) -> Any:  # noqa: ANN401 - any document
    try:
        raw = path.read_bytes()
    except OSError as fault:
        raise InvalidInput(f"cannot read {path}: {fault.strerror}", next_step="reflectloop tp --from FILE") from fault
    if path.suffix in (".yaml", ".yml"):
        try:
            return strict_yaml.parse(raw).value
        except strict_yaml.UnreadableYaml:
            return None  # reading it as a plan reports the fault with its line
    if path.suffix != ".json":
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as fault:
        raise InvalidInput(f"{path} is not JSON: {fault}", next_step=f"correct {path}") from fault


def _is_design(content: object, path: Path) -> bool:
    """Return whether a document is a design: JSON without `plan`, or YAML with a goal and steps without ids."""
    if path.suffix == ".json":
        return not (isinstance(content, dict) and "plan" in content)
    if not isinstance(content, dict) or "goal" not in content:
        return False
    steps = content.get("steps")
    return isinstance(steps, list) and not any(isinstance(step, dict) and "id" in step for step in steps)


def _of_plan_file(path: Path) -> ProposedPlan:
    """Return the whole plan; its steps are in the order in which they are executed, one after another."""
    plan = drafts.name_checks(plans.load(path).plan)
    steps = {step.id: step for step in plan.steps}
    order = sequence({step.id: step.depends_on for step in plan.steps})
    return ProposedPlan(plan.model_copy(update={"steps": tuple(steps[name] for name in order)}))
