"""Reads a plan out of a planner's words: the `[PLAN]` form, or the Plan object of the protocol. Pure.

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
from reflectloop.terms import wrong_shape

FORM = """\
[PLAN]
1. [ ] what is done first (tools: read_file, search)
2. [ ] what is done next (tools: apply_patch, run)"""
_MARK = re.compile(r"(?im)^[ \t>*#_`]*\[PLAN\][ \t*_`:]*(?P<title>[^\n]*)$")
_NUMBERED = re.compile(r"[ \t>]*(?P<number>\d+)[.)、．]\s*(?P<rest>.*)")
_BOX = re.compile(r"\[(?P<mark>[ xX✓]?)\]\s*(?P<words>.*)")
_TOOLS = re.compile(r"[(（]\s*(?:tools?|工具)\s*[:：]\s*(?P<names>[^()（）]*)[)）]\s*[.。]?\s*$", re.IGNORECASE)
_BETWEEN = re.compile(r"[,，、;；]\s*|\s+")
_MARKS = frozenset(("steps",))
_MOST = 200  # steps


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProtocolStep(_Strict):
    id: Annotated[str, Field(min_length=1)]
    description: Annotated[str, Field(min_length=1)]
    dependencies: tuple[str, ...] = ()
    status: Literal["pending", "in_progress", "done", "blocked"] = "pending"
    tools_expected: tuple[str, ...] = ()


class ProtocolPlan(_Strict):
    """As the planning protocol has it."""

    title: str = ""
    steps: Annotated[tuple[ProtocolStep, ...], Field(min_length=1, max_length=_MOST)]
    verification_policy: str = ""


class PlanReading(NamedTuple):
    plan: ProtocolPlan | None
    faults: tuple[str, ...] = ()


def read(text: str) -> PlanReading:
    """The plan in a reply, or every fault of it with its place."""
    mark = _MARK.search(text)
    if mark:
        value, wrong = _form(text[mark.end() :], mark["title"].strip(" *_`:"))
        return PlanReading(None, tuple(wrong)) if wrong else _checked(value, [])
    try:
        value, faults = json_from_text.read(text.encode("utf-8", "replace"), _MARKS)
    except json_from_text.NoJsonObject as fault:
        return PlanReading(
            None, (f"there is neither a line [PLAN] nor a JSON object with 'steps': the reply {fault.words}",)
        )
    said = [f"{json_from_text.dotted(one.place)}: {one.words}" for one in faults]
    return _checked(value, said)


def _checked(value: Any, faults: list[str]) -> PlanReading:  # noqa: ANN401 - any JSON value
    try:
        plan = ProtocolPlan.model_validate(value)
    except ValidationError as fault:
        words = [
            f"{json_from_text.dotted(one['loc'])}: {wrong_shape(one['type'], one.get('ctx', {}), one['msg'])}"
            for one in fault.errors()
            # A list whose items are faulty is also called too short, which would only confuse.
            if one["type"] != "too_short" or not one["input"]
        ]
        return PlanReading(None, (*faults, *words))
    faults = [*faults, *_of_meaning(plan)]
    return PlanReading(None if faults else plan, tuple(faults))


def _of_meaning(plan: ProtocolPlan) -> Iterator[str]:
    known: set[str] = set()
    names = {one.id for one in plan.steps}
    for number, step in enumerate(plan.steps):
        if step.id in known:
            yield f"steps[{number}].id: '{step.id}' stands twice"
        known.add(step.id)
        for other in step.dependencies:
            if other not in names:
                yield f"steps[{number}].dependencies: there is no step '{other}'"
    yield from _cycle(plan)


def _cycle(plan: ProtocolPlan) -> Iterator[str]:
    """Take away what waits for nothing, again and again; what stays waits for itself."""
    waiting = {one.id: set(one.dependencies) for one in plan.steps}
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


def _step(rest: str, number: int, wanted: int) -> tuple[dict[str, Any], str]:
    box = _BOX.fullmatch(rest)
    words = box["words"] if box else rest
    tools = _TOOLS.search(words)
    names = [name for name in _BETWEEN.split(tools["names"].strip()) if name] if tools else []
    described = words[: tools.start()].strip() if tools else words.strip()
    step = {
        "id": f"step_{wanted}",
        "description": described,
        "dependencies": [f"step_{wanted - 1}"] if wanted > 1 else [],
        "tools_expected": names,
    }
    return step, _fault_of(number, wanted, boxed=box is not None, described=bool(described))


def _fault_of(number: int, wanted: int, *, boxed: bool, described: bool) -> str:
    if number != wanted:
        return f"step {wanted} is numbered {number}"
    if not boxed:
        return f"step {number} has no box: write '{number}. [ ] …'"
    return "" if described else f"step {number} does not say what is done"
