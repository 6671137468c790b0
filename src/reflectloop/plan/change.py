"""PlanPatch: the only way to change a plan during a task; done steps stay, and a patch applies completely or not."""

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
    """A step's id and its new field values."""

    id: str


class PlanPatch(PlanModel):
    remove: tuple[str, ...] = ()
    update: tuple[Update, ...] = ()
    add: tuple[Step, ...] = ()


def apply(plan: Plan, patch: PlanPatch, done: Collection[str]) -> Plan:
    """Return the changed plan; raise INVALID_PLAN if the patch is empty, conflicting or changes done steps."""
    problems = _refusals(plan, patch, set(done))
    if problems:
        raise _refuse(problems)
    updates = {update.id: update.model_dump(exclude={"id"}) for update in patch.update}
    remaining = [step for step in plan.steps if step.id not in patch.remove]
    written = {step["id"]: step for step in plan.to_json()["steps"]}
    steps = [written[step.id] | updates.get(step.id, {}) for step in remaining]
    steps += [step.model_dump(mode="json", exclude_defaults=True) | {"id": step.id} for step in patch.add]
    value: dict[str, Any] = {"plan": plan.to_json() | {"steps": steps}}
    reading = PlanSource("native", YamlDocument(), value)
    try:
        changed = PlanFile.model_validate(value).plan
    except ValidationError as fault:
        raise _refuse(faults.field_faults(fault, reading)) from fault
    if meaning := faults.rule_faults(changed, reading):
        raise _refuse(meaning)
    return changed


def _refuse(problems: list[Fault]) -> InvalidPlan:
    return InvalidPlan(f"the change to the plan has {len(problems)} fault(s)", faults=tuple(problems))


def _refusals(plan: Plan, patch: PlanPatch, done: set[str]) -> list[Fault]:
    known = {step.id for step in plan.steps}
    updated = [update.id for update in patch.update]
    added = [step.id for step in patch.add]
    out: list[tuple[str, str]] = []
    if not (patch.remove or patch.update or patch.add):
        out.append(("", "the patch is empty"))
    out += [("remove", f"there is no step {name!r}") for name in patch.remove if name not in known]
    out += [("update", f"there is no step {name!r}") for name in updated if name not in known]
    out += [("add", f"step {name!r} already exists") for name in added if name in known]
    out += [("remove", f"step {name!r} is done and stays") for name in patch.remove if name in done]
    out += [("update", f"step {name!r} is done and stays as it is") for name in updated if name in done]
    both = set(patch.remove) & set(updated)
    out += [("update", f"step {name!r} is to be removed and updated") for name in sorted(both)]
    for where, names in (("remove", list(patch.remove)), ("update", updated), ("add", added)):
        out += [(where, f"step {name!r} is named twice") for name in sorted({n for n in names if names.count(n) > 1})]
    out += [("update", f"step {update.id!r}: an empty update") for update in patch.update if not update.model_extra]
    return [Fault(where, None, message) for where, message in out]
