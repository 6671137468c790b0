"""PlanPatch: the only way a plan changes while a task is at work; done steps stay, and nothing is half applied."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pydantic import ValidationError

from reflectloop.errors import Fault, InvalidPlan
from reflectloop.plan import faults
from reflectloop.plan.model import Plan, PlanFile, PlanModel, Step
from reflectloop.plan.reading import PlanSource
from reflectloop.plan.strict_yaml import YamlDocument


class Update(PlanModel, extra="allow"):
    """A step's id and the fields it is to have instead."""

    id: str


class PlanPatch(PlanModel):
    remove: tuple[str, ...] = ()
    update: tuple[Update, ...] = ()
    add: tuple[Step, ...] = ()


def apply(plan: Plan, patch: PlanPatch, done: Collection[str]) -> Plan:
    """The changed plan; INVALID_PLAN with every reason when the patch is empty, conflicting or touches what is done."""
    found = _refusals(plan, patch, set(done))
    if found:
        raise _refuse(found)
    updates = {update.id: update.model_dump(exclude={"id"}) for update in patch.update}
    kept = [step for step in plan.steps if step.id not in patch.remove]
    steps = [_said(step) | updates.get(step.id, {}) for step in kept] + [_said(step) for step in patch.add]
    value: dict[str, Any] = {
        "plan": plan.model_dump(mode="json", exclude_defaults=True, exclude={"steps"}) | {"steps": steps}
    }
    reading = PlanSource("native", YamlDocument(), value)
    try:
        changed = PlanFile.model_validate(value).plan
    except ValidationError as fault:
        raise _refuse(faults.of_shape(fault, reading)) from fault
    if meaning := faults.of_meaning(changed, reading):
        raise _refuse(meaning)
    return changed


def _said(step: Step) -> dict[str, Any]:
    return step.model_dump(mode="json", exclude_defaults=True) | {"id": step.id}


def _refuse(found: list[Fault]) -> InvalidPlan:
    return InvalidPlan(f"the change to the plan has {len(found)} fault(s)", faults=tuple(found))


def _refusals(plan: Plan, patch: PlanPatch, done: set[str]) -> list[Fault]:
    known = {step.id for step in plan.steps}
    updated = [update.id for update in patch.update]
    added = [step.id for step in patch.add]
    out: list[tuple[str, str]] = []
    if not (patch.remove or patch.update or patch.add):
        out.append(("", "an empty change changes nothing"))
    out += [("remove", f"there is no step {name!r}") for name in patch.remove if name not in known]
    out += [("update", f"there is no step {name!r}") for name in updated if name not in known]
    out += [("add", f"step {name!r} is there already") for name in added if name in known]
    out += [("remove", f"step {name!r} is done and stays") for name in patch.remove if name in done]
    out += [("update", f"step {name!r} is done and stays as it is") for name in updated if name in done]
    both = set(patch.remove) & set(updated)
    out += [("update", f"step {name!r} is to be removed and updated") for name in sorted(both)]
    for where, names in (("remove", list(patch.remove)), ("update", updated), ("add", added)):
        out += [(where, f"step {name!r} is named twice") for name in sorted({n for n in names if names.count(n) > 1})]
    out += [("update", f"step {update.id!r}: an empty update") for update in patch.update if not update.model_extra]
    return [Fault(where, None, message) for where, message in out]
