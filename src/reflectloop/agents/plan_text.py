"""Parses a plan from a planner's reply: the `[PLAN]` form, or the protocol's Plan object. Pure.

[PLAN]
1. [ ] Read the pager (tools: read_file, search)
2. [ ] Round up (tools: apply_patch)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reflectloop.fileops import json_from_text
from reflectloop.plan.order import sequence
from reflectloop.system.patterns import lazy
from reflectloop.terms import dotted, shorten, wrong_shape

FORM = """\
[PLAN]
1. [ ] what is done first (tools: read_file, search)
2. [ ] what is done next (tools: apply_patch, run)"""
_MARK = lazy(r"(?im)^[ \t>*#_`]*\[PLAN\][ \t*_`:]*(?P<title>[^\n]*)$")
_NUMBERED = lazy(r"[ \t>]*(?P<number>\d+)[.)、．]\s*(?P<rest>.*)")
_BOX = lazy(r"\[(?P<mark>[ xX✓]?)\]\s*(?P<words>.*)")
_TOOLS = lazy(r"[(（]\s*(?:tools?|工具)\s*[:：]\s*(?P<names>[^()（）]*)[)）]\s*[.。]?\s*$", re.IGNORECASE)
_BETWEEN = lazy(r"[,，、;；]\s*|\s+")
_MARKS = frozenset(("steps",))
_MOST = 200  # steps
_LONGEST_TITLE = 200


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProtocolStep(_Strict):
    id: Annotated[str, Field(min_length=1)]
    description: Annotated[str, Field(min_length=1)]
    dependencies: tuple[str, ...] = ()
    status: Literal["pending", "in_progress", "done", "blocked"] = "pending"
    tools_expected: tuple[str, ...] = ()


class ProtocolPlan(_Strict):
    """A plan in the form of the planning protocol."""

    title: str = ""
    steps: Annotated[tuple[ProtocolStep, ...], Field(min_length=1, max_length=_MOST)]
    verification_policy: str = ""


class PlanReading(NamedTuple):
    plan: ProtocolPlan | None
    faults: tuple[str, ...] = ()


def parse_plan(text: str) -> PlanReading:
    """Return the plan in a reply, or each of its faults with its place."""
    mark = _MARK.search(text)
    if mark:
        value, wrong = _form(text[mark.end() :], mark["title"].strip(" *_`:"))
        return PlanReading(None, tuple(wrong)) if wrong else _checked(value, [])
    try:
        value, faults = json_from_text.read_object(text.encode("utf-8", "replace"), _MARKS)
    except json_from_text.NoJsonObject as fault:
        return PlanReading(
            None, (f"there is neither a line [PLAN] nor a JSON object with 'steps': the reply {fault.message}",)
        )
    places = [f"{dotted(fault_in_json.place)}: {fault_in_json.message}" for fault_in_json in faults]
    return _checked(value, places)


def is_protocol_plan(value: object) -> bool:
    """Return True for a Plan object: its steps have descriptions where a design has titles."""
    steps = value.get("steps") if isinstance(value, dict) else None
    return isinstance(steps, list) and any(isinstance(step, dict) and "description" in step for step in steps)


def as_design(value: dict[str, Any]) -> dict[str, Any]:
    """Return a Plan object as a design: its steps in the order in which they are done. Raise ValueError for faults."""
    reading = _checked(value, [])
    if reading.plan is None:
        raise ValueError("; ".join(reading.faults))
    plan = reading.plan
    steps = {step.id: step for step in plan.steps}
    title = plan.title.strip() or shorten(plan.steps[0].description.splitlines()[0], _LONGEST_TITLE)
    return {
        "title": shorten(" ".join(title.split()), _LONGEST_TITLE),
        "goal": title,
        "steps": [
            {
                "title": shorten(" ".join(steps[name].description.split()), _LONGEST_TITLE),
                "details": steps[name].description,
                "tools": list(steps[name].tools_expected),
            }
            for name in sequence({step.id: step.dependencies for step in plan.steps})
        ],
    }


def _checked(value: Any, faults: list[str]) -> PlanReading:  # noqa: ANN401 - any JSON value
    try:
        plan = ProtocolPlan.model_validate(value)
    except ValidationError as fault:
        messages = [
            f"{dotted(error['loc'])}: {wrong_shape(error['type'], error.get('ctx', {}), error['msg'])}"
            for error in fault.errors()
            # A list whose items are faulty is also called too short, which would only confuse.
            if error["type"] != "too_short" or not error["input"]
        ]
        return PlanReading(None, (*faults, *messages))
    faults = [*faults, *_semantic_faults(plan)]
    return PlanReading(None if faults else plan, tuple(faults))


def _semantic_faults(plan: ProtocolPlan) -> Iterator[str]:
    known: set[str] = set()
    names = {step_in_plan.id for step_in_plan in plan.steps}
    for number, step in enumerate(plan.steps):
        if step.id in known:
            yield f"steps[{number}].id: '{step.id}' appears twice"
        known.add(step.id)
        for other in step.dependencies:
            if other not in names:
                yield f"steps[{number}].dependencies: there is no step '{other}'"
    yield from _cycle(plan)


def _cycle(plan: ProtocolPlan) -> Iterator[str]:
    """Yield a fault for steps that depend on each other: repeatedly remove steps without open dependencies."""
    waiting = {step.id: set(step.dependencies) for step in plan.steps}
    while free := [name for name, needs in waiting.items() if not needs & waiting.keys()]:
        for name in free:
            del waiting[name]
    if waiting:
        yield f"steps: {', '.join(waiting)} wait for each other"


def _form(text: str, title: str) -> tuple[dict[str, Any], list[str]]:
    steps: list[dict[str, Any]] = []
    faults: list[str] = []
    for line in text.splitlines():
        numbered = _NUMBERED.fullmatch(line)
        if numbered is None:
            if line.strip() and steps and not line[:1].isspace():
                break  # prose after the plan
            continue
        step, fault = _step(numbered["rest"].strip(), int(numbered["number"]), len(steps) + 1)
        faults += [fault] if fault else []
        steps.append(step)
    if not steps:
        faults.append("there is no step after [PLAN]: each is a line such as '1. [ ] what is done (tools: read_file)'")
    return {"title": title, "steps": steps}, faults


def _step(rest: str, number: int, expected: int) -> tuple[dict[str, Any], str]:
    box = _BOX.fullmatch(rest)
    text = box["words"] if box else rest
    tools = _TOOLS.search(text)
    names = [name for name in _BETWEEN.split(tools["names"].strip()) if name] if tools else []
    described = text[: tools.start()].strip() if tools else text.strip()
    step = {
        "id": f"step_{expected}",
        "description": described,
        "dependencies": [f"step_{expected - 1}"] if expected > 1 else [],
        "tools_expected": names,
    }
    return step, _fault_of(number, expected, boxed=box is not None, described=bool(described))


def _fault_of(number: int, expected: int, *, boxed: bool, described: bool) -> str:
    if number != expected:
        return f"step {expected} is numbered {number}"
    if not boxed:
        return f"step {number} has no box: write '{number}. [ ] …'"
    return "" if described else f"step {number} does not say what is done"
