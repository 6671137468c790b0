"""TriFlow's `state.json`: write a task in its format, and read a task from it."""

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
from reflectloop.state.fold import RunState, StepState, StepStatus, Task
from reflectloop.system.patterns import lazy
from reflectloop.terms import wrong_shape
from reflectloop.workspace.generated_files import GENERATED_BY

_LARGEST = 16 << 20
_VERSIONS = (("schemaVersion",), ("schema_version",), ("version",), ("schema",))  # keys of formats that are not ours
_TOP = lazy(r"[0-9]{1,9}")
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
        """Return everything but the steps."""
        return self.model_dump(mode="json", include={"objective", "context", "constraints", "finalDone"})

    def all_steps(self) -> dict[str, Substep]:
        """Return every step and substep, by the id that it gets in our journal."""
        steps: dict[str, Substep] = {}
        for step in self.steps:
            steps[str(step.index)] = step
            steps |= {f"{step.index}.{below.index}": below for below in step.substeps}
        return steps


# Writing --------------------------------------------------------------------------------------------------------


def to_triflow(task: Task, plan: Plan | None) -> dict[str, Any]:
    """Return a task in TriFlow's format. `plan` is the plan of its last run, if it can be read."""
    run = task.last_run
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
    objective = plan.objective if plan else None
    constraints = [f"may change only: {', '.join(plan.may_change)}"] if plan and plan.may_change else []
    constraints += [f"must not change: {', '.join(plan.must_not_change)}"] if plan and plan.must_not_change else []
    return {
        "objective": {
            "goal": (objective.goal if objective else "") or task.title,
            "nonGoals": list(objective.non_goals) if objective else [],
            "doneWhen": [objective.done_when] if objective and objective.done_when else [],
        },
        "context": {"repoType": run.mode if run else "", "keyFiles": [], "background": ""},
        "constraints": constraints,
        "finalDone": [criterion.text for criterion in plan.acceptance] if plan else [],
    }


def titles(run: RunState, plan: Plan | None) -> dict[str, str]:
    """Return the titles of the steps that have one, by step id."""
    return run.titles | ({step.id: step.title for step in plan.steps if step.title} if plan else {})


def _steps(run: RunState, plan: Plan | None) -> list[dict[str, Any]]:
    """Return the steps, each with the parts that it was split into; parts of a part are shown as that part."""
    named = titles(run, plan)
    names = indexes(run)
    steps: dict[str, dict[str, Any]] = {}
    for index, name in names.items():
        *above, number = index.split(".")
        made = _step(int(number), _merged(run, name), named.get(name, name))
        if above:
            steps[above[0]]["substeps"].append(made)
        else:
            steps[index] = made | {"substeps": []}
    return list(steps.values())


def indexes(run: RunState) -> dict[str, str]:
    """Return the id of each step by its place in TriFlow's format, `2` or `2.3`; ids of that form are the places."""
    ids = [name for name in run.steps if _above(run, name) is None]
    plain = all(_TOP.fullmatch(name) for name in ids)
    places = {name: name if plain else str(number) for number, name in enumerate(ids, 1)}
    out: dict[str, str] = {}
    for name in ids:
        out[places[name]] = name
        parts = [part for part in run.steps if _above(run, part) == name]
        out |= {part if plain else f"{places[name]}.{number}": part for number, part in enumerate(parts, 1)}
    return out


def _above(run: RunState, name: str) -> str | None:
    """Return the step that a part belongs to, or None for a step that is no part."""
    above = name.rpartition(".")[0]
    if above not in run.steps or not (run.mode == events.IMPORTED or name in run.steps[above].parts):
        return None
    return above


def _merged(run: RunState, name: str) -> StepState:
    """Return a step; one that was split has the state of its parts."""
    step = run.steps[name]
    parts = [_merged(run, part) for part in step.parts]
    if not parts:
        return step
    states = [part.status for part in parts]
    status: StepStatus = "pending"
    if all(state in ("done", "skipped") for state in states):
        status = "done"
    elif any(state in ("blocked", "failed") for state in states):
        status = "blocked"
    elif any(state != "pending" for state in states):
        status = "running"
    reasons = [part.reason for part in parts if part.status in ("blocked", "failed")]
    return step._replace(status=status, reason="; ".join(reasons))


def _step(index: int, step: StepState, title: str) -> dict[str, Any]:
    """Return one step. TriFlow has no skipped steps: such a step is done, and its title says so."""
    text = f"{title} (skipped: {step.reason})" if step.status == "skipped" else title
    return {"index": index, "title": text, "status": _STATUS[step.status], "attempts": step.attempts}


def _current(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the pointer to the first step that is not done, or to its first substep that is not."""
    step = next((step for step in steps if step["status"] != "done"), None)
    if step is None:
        return {"type": "none", "stepIndex": None, "subIndex": None}
    below = next((part for part in step["substeps"] if part["status"] != "done"), None)
    kind = "substep" if below else "step"
    return {"type": kind, "stepIndex": step["index"], "subIndex": below["index"] if below else None}


# Reading --------------------------------------------------------------------------------------------------------


def read(path: Path) -> TriflowState:
    """Read a TriFlow file strictly; raise InvalidInput with every fault and its place."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as fault:
        raise InvalidInput(f"cannot read {path}: {fault.strerror}", next_step="name a state.json") from fault
    if len(raw) > _LARGEST:
        raise InvalidInput(f"{path} is larger than {_LARGEST >> 20} MB", next_step="name a state.json")
    try:
        value = json.loads(raw, object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as fault:
        raise InvalidInput(f"{path} is not JSON: {fault}", next_step=f"correct {path}") from fault
    try:
        state = TriflowState.model_validate(value)
    except ValidationError as fault:
        # A list whose items are faulty is also called too short, which would only confuse.
        errors = [
            error for error in fault.errors(include_url=False) if error["type"] != "too_short" or not error["input"]
        ]
        raise _refused(path, map(_message, errors)) from fault
    faults = list(_meaning(state))
    if faults:
        raise _refused(path, faults)
    return state


def _refused(path: Path, reported: Iterable[tuple[str, str]]) -> InvalidInput:
    """Join the messages for one place: where two types are allowed and neither fits, that is one fault."""
    messages: dict[str, list[str]] = {}
    for place, message in reported:
        messages.setdefault(place, []).append(message)
    faults = tuple(Fault(place, None, ", or ".join(texts), InvalidInput.code) for place, texts in messages.items())
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return InvalidInput(f"{path} has {count}", next_step=f"correct {path}, then import it again", faults=faults)


def _message(error: ErrorDetails) -> tuple[str, str]:
    """Return the place, such as `steps[0].title`, and what is wrong there."""
    if error["type"] == "extra_forbidden" and error["loc"] in _VERSIONS:
        return _place(
            error["loc"]
        ), f"it was written by another version ({error['input']!r}), which this one cannot read"
    if error["type"] == "extra_forbidden":
        return _place(error["loc"]), "unknown key"
    # Drop which of two allowed types was tried.
    loc = tuple(part for part in error["loc"] if part != "str" and not str(part).startswith("tuple["))
    return _place(loc), wrong_shape(error["type"], error.get("ctx", {}), error["msg"])


def _place(loc: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return value


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def _meaning(state: TriflowState) -> Iterator[tuple[str, str]]:
    yield from _repeated("steps", state.steps)
    for number, step in enumerate(state.steps):
        yield from _repeated(f"steps[{number}].substeps", step.substeps)
    at = state.current
    target = next((step for step in state.steps if step.index == at.stepIndex), None)
    if at.type != "none" and target is None:
        yield "current.stepIndex", "must be the index of a step"
    if at.type == "substep" and target and at.subIndex not in [part.index for part in target.substeps]:
        yield "current.subIndex", f"must be the index of a substep of step {target.index}"


def _repeated(place: str, steps: tuple[Substep, ...]) -> Iterator[tuple[str, str]]:
    known: set[int] = set()
    for number, step in enumerate(steps):
        if step.index in known:
            yield f"{place}[{number}].index", f"{step.index} is the index of another one too"
        known.add(step.index)
