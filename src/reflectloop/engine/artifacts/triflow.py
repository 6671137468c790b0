"""TriFlow's `state.json`: a task in its shape, and its shape as a task. Pure but for reading the file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError
from pydantic_core import ErrorDetails

from reflectloop.errors import Fault, InvalidInput
from reflectloop.plan.model import Plan
from reflectloop.state import events
from reflectloop.state.fold import RunState, StepState, Task
from reflectloop.terms import wrong_shape
from reflectloop.workspace.generated_files import GENERATED_BY

_LARGEST = 16 << 20
_STATUS = {
    "pending": "todo",
    "running": "doing",
    "done": "done",
    "failed": "blocked",
    "blocked": "blocked",
    "skipped": "done",
}

Index = Annotated[StrictInt, Field(ge=0)]
Status = Literal["todo", "doing", "done", "blocked"]
Words = StrictStr | tuple[StrictStr, ...]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TriflowObjective(_Strict):
    goal: StrictStr
    nonGoals: Words = ()  # noqa: N815 - their names
    doneWhen: Words = ()  # noqa: N815


class TriflowContext(_Strict):
    repoType: StrictStr = ""  # noqa: N815
    keyFiles: tuple[StrictStr, ...] = ()  # noqa: N815
    background: Words = ""


class TriflowPointer(_Strict):
    type: Literal["step", "substep", "none"]
    stepIndex: Index | None = None  # noqa: N815
    subIndex: Index | None = None  # noqa: N815


class Substep(_Strict):
    index: Index
    title: Annotated[StrictStr, Field(min_length=1)]
    status: Status
    attempts: Index = 0


class TopStep(Substep):
    substeps: tuple[Substep, ...] = ()


class TriflowState(_Strict):
    generatedBy: StrictStr = ""  # noqa: N815
    taskName: Annotated[StrictStr, Field(min_length=1)]  # noqa: N815
    objective: TriflowObjective
    context: TriflowContext = TriflowContext()
    constraints: tuple[StrictStr, ...] = ()
    current: TriflowPointer
    steps: Annotated[tuple[TopStep, ...], Field(min_length=1)]
    finalDone: tuple[StrictStr, ...] = ()  # noqa: N815

    def frame(self) -> dict[str, Any]:
        """What it says beside its steps."""
        return self.model_dump(mode="json", include={"objective", "context", "constraints", "finalDone"})

    def all_steps(self) -> dict[str, Substep]:
        """Every step and substep, by the name it gets here."""
        found: dict[str, Substep] = {}
        for step in self.steps:
            found[str(step.index)] = step
            found |= {f"{step.index}.{below.index}": below for below in step.substeps}
        return found


# Writing --------------------------------------------------------------------------------------------------------


def shape(task: Task, plan: Plan | None) -> dict[str, Any]:
    """A task as TriFlow would keep it. `plan` is that of its last run, where there is one."""
    run = list(task.runs.values())[-1] if task.runs else None
    steps = _steps(run, plan) if run else []
    frame = _frame(task, run, plan) | (run.objective if run else {})
    return {
        "generatedBy": GENERATED_BY,
        "taskName": task.title,
        "objective": frame["objective"],
        "context": frame["context"],
        "constraints": frame["constraints"],
        "current": _current(steps),
        "steps": steps,
        "finalDone": frame["finalDone"],
    }


def text(state: dict[str, Any]) -> str:
    return json.dumps(state, indent=2, ensure_ascii=False) + "\n"


def _frame(task: Task, run: RunState | None, plan: Plan | None) -> dict[str, Any]:
    asked = plan.objective if plan else None
    constraints = [f"may change only: {', '.join(plan.may_change)}"] if plan and plan.may_change else []
    constraints += [f"must not change: {', '.join(plan.must_not_change)}"] if plan and plan.must_not_change else []
    return {
        "objective": {
            "goal": (asked.goal if asked else "") or task.title,
            "nonGoals": list(asked.non_goals) if asked else [],
            "doneWhen": [asked.done_when] if asked and asked.done_when else [],
        },
        "context": {"repoType": run.mode if run else "", "keyFiles": [], "background": ""},
        "constraints": constraints,
        "finalDone": [one.text for one in plan.acceptance] if plan else [],
    }


def titles(run: RunState, plan: Plan | None) -> dict[str, str]:
    """What each step is called, where it is called anything."""
    return run.titles | ({step.id: step.title for step in plan.steps if step.title} if plan else {})


def _steps(run: RunState, plan: Plan | None) -> list[dict[str, Any]]:
    named = titles(run, plan)
    if run.mode != events.IMPORTED:
        return [
            _step(number, step, named.get(step.id, step.id)) | {"substeps": []}
            for number, step in enumerate(run.steps.values(), 1)
        ]
    found: list[dict[str, Any]] = []
    for name, step in run.steps.items():
        *above, index = name.split(".")
        made = _step(int(index), step, named.get(name, name))
        if above:
            found[-1]["substeps"].append(made)
        else:
            found.append(made | {"substeps": []})
    return found


def _step(index: int, step: StepState, title: str) -> dict[str, Any]:
    """They know no skipped step: it is done, and its title says how."""
    told = f"{title} (skipped: {step.reason})" if step.status == "skipped" else title
    return {"index": index, "title": told, "status": _STATUS[step.status], "attempts": step.attempts}


def _current(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The first that is not done; of one that is split, the first part that is not."""
    step = next((one for one in steps if one["status"] != "done"), None)
    if step is None:
        return {"type": "none", "stepIndex": None, "subIndex": None}
    below = next((one for one in step["substeps"] if one["status"] != "done"), None)
    kind = "substep" if below else "step"
    return {"type": kind, "stepIndex": step["index"], "subIndex": below["index"] if below else None}


# Reading --------------------------------------------------------------------------------------------------------


def read(path: Path) -> TriflowState:
    """A file of theirs, strictly; every fault at once, each with the place it stands at."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as fault:
        raise InvalidInput(f"cannot read {path}: {fault.strerror}", next_step="name a state.json") from fault
    if len(raw) > _LARGEST:
        raise InvalidInput(f"{path} is larger than {_LARGEST >> 20} MB", next_step="name a state.json")
    try:
        value = json.loads(raw, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as fault:
        raise InvalidInput(f"{path} is not JSON: {fault}", next_step=f"correct {path}") from fault
    try:
        state = TriflowState.model_validate(value)
    except ValidationError as fault:
        raise _refused(path, map(_in_words, fault.errors(include_url=False))) from fault
    found = list(_meaning(state))
    if found:
        raise _refused(path, found)
    return state


def _refused(path: Path, found: Iterable[tuple[str, str]]) -> InvalidInput:
    """Where two types are allowed and neither fits, that is one fault and not two."""
    told: dict[str, list[str]] = {}
    for place, words in found:
        told.setdefault(place, []).append(words)
    faults = tuple(Fault(place, None, ", or ".join(words), InvalidInput.code) for place, words in told.items())
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return InvalidInput(f"{path} has {count}", next_step=f"correct {path}, then import it again", faults=faults)


def _in_words(error: ErrorDetails) -> tuple[str, str]:
    """The place, as in `steps[0].title`, and what is wrong there."""
    if error["type"] == "extra_forbidden":
        return _place(error["loc"]), "unknown key"
    # Which of two allowed types was tried is of no use to anybody.
    loc = tuple(part for part in error["loc"] if part != "str" and not str(part).startswith("tuple["))
    return _place(loc), wrong_shape(error["type"], error.get("ctx", {}), error["msg"])


def _place(loc: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return found


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _meaning(state: TriflowState) -> Iterator[tuple[str, str]]:
    yield from _doubled("steps", state.steps)
    for number, step in enumerate(state.steps):
        yield from _doubled(f"steps[{number}].substeps", step.substeps)
    at = state.current
    there = next((one for one in state.steps if one.index == at.stepIndex), None)
    if at.type != "none" and there is None:
        yield "current.stepIndex", "must be the index of a step"
    if at.type == "substep" and there and at.subIndex not in [one.index for one in there.substeps]:
        yield "current.subIndex", f"must be the index of a substep of step {there.index}"


def _doubled(place: str, steps: tuple[Substep, ...]) -> Iterator[tuple[str, str]]:
    seen: set[int] = set()
    for number, step in enumerate(steps):
        if step.index in seen:
            yield f"{place}[{number}].index", f"{step.index} is the index of another one too"
        seen.add(step.index)
