"""Finds what is wrong with a plan: shapes by the models, meaning across fields; each fault in words, with its place."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import get_args, get_origin

import re2
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reflectloop.errors import Fault
from reflectloop.plan import strict_yaml
from reflectloop.plan.model import Check, Plan, PlanFile, StepCheck
from reflectloop.plan.order import find_cycle
from reflectloop.plan.reading import PlanSource
from reflectloop.terms import Track, wrong_shape

Found = tuple[strict_yaml.Path, str]

# Shapes: what pydantic found, in words ---------------------------------------------------------------


def of_shape(found: ValidationError, reading: PlanSource) -> list[Fault]:
    # A list whose items are faulty is also called too short, which would only confuse.
    errors = [error for error in found.errors(include_url=False) if error["type"] != "too_short" or not error["input"]]
    return [_in_words(error, reading) for error in errors]


def _in_words(error: ErrorDetails, reading: PlanSource) -> Fault:
    path = tuple(part for part in error["loc"] if part != "[key]")
    words = wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
    if error["type"] == "extra_forbidden":
        words = _unknown_key(path)
    return reading.fault(path, words[:1].lower() + words[1:])


def _unknown_key(path: strict_yaml.Path) -> str:
    key = str(path[-1])
    known = _fields_at(PlanFile, path[:-1])
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    hint = f"did you mean '{close[0]}'?" if close else f"known here: {', '.join(known)}"
    return f"unknown key '{key}'; {hint}"


def _fields_at(annotation: object, path: strict_yaml.Path) -> list[str]:
    """The keys allowed at a place, found by walking the models' annotations."""
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


# Meaning: what no single field can tell ---------------------------------------------------------------


_LONGEST_PATH, _LONGEST_NAME = 3000, 255


def of_meaning(plan: Plan, reading: PlanSource) -> list[Fault]:
    return [reading.fault(("plan", *path), message, code) for path, message, code in _cross_faults(plan)]


def _cross_faults(plan: Plan) -> Iterator[tuple[strict_yaml.Path, str, str]]:
    for place, message in _faults_of_meaning(plan):
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


def loose(reading: PlanSource) -> list[Fault]:
    """Faults of meaning in a plan whose shape is already wrong, as far as they can be told."""
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
    """By the text alone; symlinks are looked at once the workspace stands."""
    if path.startswith(("/", "~")) or "\0" in path:
        return True
    depth = 0
    for part in PurePosixPath(path).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def _faults_of_meaning(plan: Plan) -> Iterator[Found]:
    yield from _id_faults(plan)
    for number, step in enumerate(plan.steps):
        place = ("steps", number)
        if bool(step.commands) == bool(step.agent):
            yield place, "a step has either commands or an agent" + (", not both" if step.agent else "")
        codes = sorted({str(one.commands_exit) for one in step.verify if one.commands_exit is not None})
        if len(codes) > 1:
            yield (*place, "verify"), f"the step's last command cannot exit {' and '.join(codes)}"
        for position, wanted in enumerate(step.verify):
            yield from _verify_faults(plan, (*place, "verify", position), wanted)
    for name, check in plan.checks.items():
        yield from _check_faults(("checks", name), check)
    for number, item in enumerate(plan.acceptance):
        if item.check is not None and item.check not in plan.checks:
            yield ("acceptance", number, "check"), _no_such("check", item.check, plan.checks)
    if plan.verification and plan.verification.mode == "none" and plan.settled_track is not Track.DIRECT:
        yield ("verification", "mode"), f"'none' is for track direct; this plan is on {plan.settled_track}"


def _id_faults(plan: Plan) -> Iterator[Found]:
    seen: dict[str, int] = {}
    twice = set()
    for number, step in enumerate(plan.steps):
        if step.id in seen:
            twice.add(step.id)
            yield ("steps", number, "id"), f"id {step.id!r} is also the id of step {seen[step.id] + 1}"
        seen.setdefault(step.id, number)
    for number, step in enumerate(plan.steps):
        for position, need in enumerate(step.depends_on):
            if need not in seen:
                yield ("steps", number, "depends_on", position), _no_such("step", need, seen)
    cycle = find_cycle({step.id: step.depends_on for step in plan.steps})
    # Of two steps with one id nobody knows which is waited for.
    if cycle and not twice.intersection(cycle):
        yield ("steps", seen[cycle[0]], "depends_on"), f"steps wait for each other: {' → '.join(cycle)}"


def _no_such(what: str, name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"there is no {what} {name!r}{hint}"


def _verify_faults(plan: Plan, place: strict_yaml.Path, wanted: StepCheck) -> Iterator[Found]:
    if wanted.claim is not None:
        close = difflib.get_close_matches(wanted.claim, list(plan.checks), n=1, cutoff=0.75)
        if wanted.claim not in plan.checks and close:
            yield place, _no_such("check", wanted.claim, plan.checks)
    elif wanted.check is not None:
        if wanted.check not in plan.checks:
            yield (*place, "check"), _no_such("check", wanted.check, plan.checks)
        extra = wanted.model_fields_set - {"check", "expect"}
        if extra:
            yield place, f"a check by name is not changed here; remove {', '.join(sorted(extra))}"
    else:
        yield from _check_faults(place, wanted)


_ABOUT_STEP = ("output_contains", "commands_exit")
_ABOUT_FILES = ("file_exists", "file_nonempty", "file_unchanged")
_ABOUT_OUTPUT = ("stdout_contains", "stdout_regex", "not_contains")


_QUIETLY = re2.Options()
_QUIETLY.log_errors = False  # else RE2 writes to standard error itself


def _check_faults(place: strict_yaml.Path, check: Check) -> Iterator[Found]:
    if check.run is None and all(getattr(check, name) in (None, "") for name in (*_ABOUT_FILES, *_ABOUT_STEP)):
        yield place, f"a check has 'run' or one of {', '.join(_ABOUT_FILES)}"
    if check.run is None and any(getattr(check, name) is not None for name in _ABOUT_OUTPUT):
        yield place, "there is no output to look at without 'run'"
    if check.stdout_regex is not None:
        try:
            re2.compile(check.stdout_regex, _QUIETLY)
        except re2.error as fault:
            yield (*place, "stdout_regex"), f"not a regular expression (RE2): {fault}"


def _paths_of_checks(plan: Plan) -> Iterator[Found]:
    places: list[tuple[strict_yaml.Path, Check]] = [(("checks", name), check) for name, check in plan.checks.items()]
    for number, step in enumerate(plan.steps):
        places += [(("steps", number, "verify", position), wanted) for position, wanted in enumerate(step.verify)]
    for place, check in places:
        for name in _ABOUT_FILES:
            value = getattr(check, name)
            if value:
                yield (*place, name), value
