"""Finds the faults of a plan, in single fields and across fields; each with a message and its place."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import get_args, get_origin

import re2
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reflectloop.errors import Fault
from reflectloop.plan import strict_yaml
from reflectloop.plan.model import FILE_STATEMENTS, Check, Plan, PlanFile, StepCheck
from reflectloop.plan.order import find_cycle
from reflectloop.plan.reading import PlanSource
from reflectloop.terms import Track, closest, wrong_shape

PlacedMessage = tuple[strict_yaml.Path, str]

# Single fields: messages for pydantic's errors -------------------------------------------------------


def field_faults(fault: ValidationError, reading: PlanSource) -> list[Fault]:
    # Pydantic also reports "too short" for a list with invalid items.
    errors = [error for error in fault.errors(include_url=False) if error["type"] != "too_short" or not error["input"]]
    return [_message(error, reading) for error in errors]


def _message(error: ErrorDetails, reading: PlanSource) -> Fault:
    path = tuple(part for part in error["loc"] if part != "[key]")
    message = wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
    if error["type"] == "extra_forbidden":
        message = _unknown_key(path)
    return reading.fault(path, message[:1].lower() + message[1:])


def _unknown_key(path: strict_yaml.Path) -> str:
    key = str(path[-1])
    known = _fields_at(PlanFile, path[:-1])
    close = closest(key, known, 0.6)
    hint = f"did you mean '{close}'?" if close else f"known here: {', '.join(known)}"
    return f"unknown key '{key}'; {hint}"


def _fields_at(annotation: object, path: strict_yaml.Path) -> list[str]:
    """Return the keys allowed at a place, by the models' annotations."""
    while get_origin(annotation) is typing.Annotated:
        annotation = get_args(annotation)[0]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields
        if not path:
            return [name for name, info in fields.items() if not info.exclude]
        info = fields.get(str(path[0]))
        return _fields_at(info.annotation, path[1:]) if info else []
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is dict:
        return _fields_at(arguments[1], path[1:])
    if origin is tuple:
        return _fields_at(arguments[0], path[1:])
    return next((known for argument in arguments if (known := _fields_at(argument, path))), [])


# Rules across fields ----------------------------------------------------------------------------------


_LONGEST_PATH, _LONGEST_NAME = 3000, 255


def rule_faults(plan: Plan, reading: PlanSource) -> list[Fault]:
    return [reading.fault(("plan", *path), message, code) for path, message, code in _cross_faults(plan)]


def _cross_faults(plan: Plan) -> Iterator[tuple[strict_yaml.Path, str, str]]:
    for place, message in _rule_faults(plan):
        yield place, message, "INVALID_PLAN"
    places = [
        *((("steps", number, "cwd"), step.cwd) for number, step in enumerate(plan.steps)),
        *_paths_of_checks(plan),
    ]
    for place, name in places:
        if len(name.encode()) > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_NAME for part in name.split("/")):
            yield place, "is too long for a path", "INVALID_PLAN"
    for number, step in enumerate(plan.steps):
        if leaves_workspace(step.cwd):
            yield ("steps", number, "cwd"), f"cwd {step.cwd!r} leads out of the workspace", "SANDBOX_ESCAPE"
    for place, name in _paths_of_checks(plan):
        if leaves_workspace(name):
            yield place, f"path {name!r} leads out of the workspace", "SANDBOX_ESCAPE"


def partial_rule_faults(reading: PlanSource) -> list[Fault]:
    """Return the faults across fields of a plan that already has faults in single fields, as far as possible."""
    body = reading.value.get("plan")
    steps = body.get("steps") if isinstance(body, dict) else None
    if not isinstance(steps, list):
        return []
    out = []
    for number, step in enumerate(steps):
        cwd = step.get("cwd") if isinstance(step, dict) else None
        if isinstance(cwd, str) and leaves_workspace(cwd):
            place = ("plan", "steps", number, "cwd")
            out.append(reading.fault(place, f"cwd {cwd!r} leads out of the workspace", "SANDBOX_ESCAPE"))
    return out


def leaves_workspace(path: str) -> bool:
    """Return True if a path leads out of the workspace by its text; links are checked in the workspace."""
    if path.startswith(("/", "~")) or "\0" in path:
        return True
    depth = 0
    for part in PurePosixPath(path).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def _rule_faults(plan: Plan) -> Iterator[PlacedMessage]:
    yield from _id_faults(plan)
    for number, step in enumerate(plan.steps):
        place = ("steps", number)
        if bool(step.commands) == bool(step.agent):
            yield place, "a step has either commands or an agent" + (", not both" if step.agent else "")
        codes = sorted({str(check.commands_exit) for check in step.verify if check.commands_exit is not None})
        if len(codes) > 1:
            yield (*place, "verify"), f"the step's last command cannot exit {' and '.join(codes)}"
        for position, step_check in enumerate(step.verify):
            yield from _verify_faults(plan, (*place, "verify", position), step_check)
    for name, check in plan.checks.items():
        yield from _check_faults(("checks", name), check)
    for number, item in enumerate(plan.acceptance):
        if item.check is not None and item.check not in plan.checks:
            yield ("acceptance", number, "check"), _no_such("check", item.check, plan.checks)
    if plan.verification and plan.verification.mode == "none" and plan.settled_track is not Track.DIRECT:
        yield ("verification", "mode"), f"'none' is for track direct; this plan is on {plan.settled_track}"


def _id_faults(plan: Plan) -> Iterator[PlacedMessage]:
    numbers: dict[str, int] = {}
    twice = set()
    for number, step in enumerate(plan.steps):
        if step.id in numbers:
            twice.add(step.id)
            yield ("steps", number, "id"), f"id {step.id!r} is also the id of step {numbers[step.id] + 1}"
        numbers.setdefault(step.id, number)
    for number, step in enumerate(plan.steps):
        for position, need in enumerate(step.depends_on):
            if need not in numbers:
                yield ("steps", number, "depends_on", position), _no_such("step", need, numbers)
    cycle = find_cycle({step.id: step.depends_on for step in plan.steps})
    # With a duplicate id it is unclear which step is meant.
    if cycle and not twice.intersection(cycle):
        yield ("steps", numbers[cycle[0]], "depends_on"), f"steps wait for each other: {' → '.join(cycle)}"


def _no_such(what: str, name: str, known: Iterable[str]) -> str:
    close = closest(name, known)
    hint = f"; did you mean {close!r}?" if close else ""
    return f"there is no {what} {name!r}{hint}"


def _verify_faults(plan: Plan, place: strict_yaml.Path, step_check: StepCheck) -> Iterator[PlacedMessage]:
    if step_check.claim is not None:
        close = closest(step_check.claim, plan.checks, 0.75)
        if step_check.claim not in plan.checks and close:
            yield place, _no_such("check", step_check.claim, plan.checks)
    elif step_check.check is not None:
        if step_check.check not in plan.checks:
            yield (*place, "check"), _no_such("check", step_check.check, plan.checks)
        extra = step_check.model_fields_set - {"check", "expect"}
        if extra:
            yield place, f"a check by name is not changed here; remove {', '.join(sorted(extra))}"
    else:
        yield from _check_faults(place, step_check)


_ABOUT_STEP = ("output_contains", "commands_exit")
_ABOUT_OUTPUT = ("stdout_contains", "stdout_regex", "not_contains")


_QUIETLY = re2.Options()
_QUIETLY.log_errors = False  # otherwise RE2 writes to standard error


def _check_faults(place: strict_yaml.Path, check: Check) -> Iterator[PlacedMessage]:
    if check.run is None and all(getattr(check, name) in (None, "") for name in (*FILE_STATEMENTS, *_ABOUT_STEP)):
        yield place, f"a check has 'run' or one of {', '.join(FILE_STATEMENTS)}"
    if check.run is None and any(getattr(check, name) is not None for name in _ABOUT_OUTPUT):
        yield place, "there is no output to check without 'run'"
    if check.stdout_regex is not None:
        try:
            re2.compile(check.stdout_regex, _QUIETLY)
        except re2.error as fault:
            yield (*place, "stdout_regex"), f"not a regular expression (RE2): {fault}"


def _paths_of_checks(plan: Plan) -> Iterator[PlacedMessage]:
    places: list[tuple[strict_yaml.Path, Check]] = [(("checks", name), check) for name, check in plan.checks.items()]
    for number, step in enumerate(plan.steps):
        places += [
            (("steps", number, "verify", position), step_check) for position, step_check in enumerate(step.verify)
        ]
    for place, check in places:
        for name in FILE_STATEMENTS:
            value = getattr(check, name)
            if value:
                yield (*place, name), value
