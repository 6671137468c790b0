"""Reads a plan and reports everything that is wrong with it, each fault with its path and its line."""

from __future__ import annotations

import difflib
import hashlib
import typing
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple, get_args, get_origin

import re2
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reflectloop import secrets
from reflectloop.errors import GRAVITY, Fault, InvalidPlan, MissingPlan, ReflectloopError, by_code
from reflectloop.plan import strict_yaml
from reflectloop.plan.model import Check, Plan, PlanFile, Step, Verification
from reflectloop.plan.order import find_cycle
from reflectloop.plan.strict_yaml import Document, dotted
from reflectloop.terms import Track

DISCOVERED = (Path(".reflectloop/plan.yaml"), Path(".claude/state/thinking/plan.latest.yaml"))


class Loaded(NamedTuple):
    plan: Plan
    path: Path
    form: str
    source_hash: str
    warnings: tuple[str, ...]


def locate(project_root: Path, given: Path | None) -> Path:
    if given is not None:
        if given.is_dir():
            raise MissingPlan(f"{given} is a folder, not a plan", missing=(str(given),))
        if not given.exists():
            raise MissingPlan(f"there is no plan at {given}", missing=(str(given),))
        return given
    for place in DISCOVERED:
        if (project_root / place).is_file():
            return project_root / place
    looked = " nor ".join(str(place) for place in DISCOVERED)
    raise MissingPlan(f"there is neither {looked}", missing=tuple(str(place) for place in DISCOVERED))


def load(path: Path) -> Loaded:
    """The plan at `path`; raises with every fault under the gravest code."""
    try:
        with path.open("rb") as file:
            raw = file.read(strict_yaml.MAX_BYTES + 1)
    except OSError as fault:
        raise MissingPlan(f"cannot read {path}: {fault.strerror}", missing=(str(path),)) from fault
    plan, faults = parse(raw)
    if plan is None or faults:
        raise refuse(path, faults)
    return Loaded(plan, path, "native", "sha256:" + hashlib.sha256(raw).hexdigest(), tuple(_remarks(plan)))


def refuse(path: Path, faults: list[Fault]) -> ReflectloopError:
    gravest = min((fault.code for fault in faults), key=GRAVITY.index)
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    ordered = sorted(faults, key=lambda fault: (fault.line or 0, fault.path))
    cleaned = tuple(fault._replace(message=secrets.redact(fault.message)) for fault in ordered)
    return by_code(gravest)(
        f"{path} has {count}", next_step=f"correct it, then: reflectloop plan check {path}", faults=cleaned
    )


def parse(raw: bytes) -> tuple[Plan | None, list[Fault]]:
    leaks = [
        Fault(
            "",
            found.line,
            f"a secret stands here ({found.rule}); pass it by environment instead",
            "SECRET_LEAK",
        )
        for found in secrets.scan(raw[: strict_yaml.MAX_BYTES])
    ]
    try:
        document = strict_yaml.parse(raw)
    except strict_yaml.Refused as refused:
        return None, [*leaks, refused.fault]
    if document.value is None:
        return None, [*leaks, Fault("", None, "the plan is empty")]
    if not isinstance(document.value, dict) or "plan" not in document.value:
        return None, [*leaks, Fault("", 1, "a plan begins with the key 'plan:'")]
    faults = leaks + document.faults
    try:
        plan = PlanFile.model_validate(document.value).plan
    except ValidationError as fault:
        faults += [_shape_fault(error, document) for error in fault.errors(include_url=False)]
        return None, faults + _loose_faults(document)
    return plan, faults + [_placed(found, document) for found in _cross_faults(plan)]


def _placed(found: tuple[strict_yaml.Path, str, str], document: Document) -> Fault:
    path, message, code = found
    return Fault(dotted(path), document.line(("plan", *path)), message, code)


# Shapes: what pydantic found, in words ---------------------------------------------------------------


def _shape_fault(error: ErrorDetails, document: Document) -> Fault:
    path = tuple(part for part in error["loc"] if part != "[key]")
    words = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        words = _unknown_key(path)
    elif error["type"] == "missing":
        words = "is required and missing"
    elif error["type"] == "string_pattern_mismatch":
        words = "may hold letters, digits, '.', '_' and '-' only, and begins with a letter or digit"
    return Fault(dotted(path[1:]) or dotted(path), document.line(path), words[:1].lower() + words[1:])


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


def _cross_faults(plan: Plan) -> Iterator[tuple[strict_yaml.Path, str, str]]:
    for place, message in _faults_of_meaning(plan):
        yield place, message, "INVALID_PLAN"
    for number, step in enumerate(plan.steps):
        if leaves_workspace(step.cwd):
            yield ("steps", number, "cwd"), f"cwd {step.cwd!r} leads out of the workspace", "SANDBOX_ESCAPE"
    for place, name in _paths_of_checks(plan):
        if leaves_workspace(name):
            yield place, f"path {name!r} leads out of the workspace", "SANDBOX_ESCAPE"


def _loose_faults(document: Document) -> list[Fault]:
    """Faults of meaning in a plan whose shape is already wrong, as far as they can be told."""
    body = document.value["plan"] if isinstance(document.value, dict) else None
    steps = body.get("steps") if isinstance(body, dict) else None
    if not isinstance(steps, list):
        return []
    out = []
    for number, step in enumerate(steps):
        cwd = step.get("cwd") if isinstance(step, dict) else None
        if isinstance(cwd, str) and leaves_workspace(cwd):
            line = document.line(("plan", "steps", number, "cwd"))
            out.append(Fault(f"steps[{number}].cwd", line, f"cwd {cwd!r} leads out of the workspace", "SANDBOX_ESCAPE"))
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


def _faults_of_meaning(plan: Plan) -> Iterator[tuple[strict_yaml.Path, str]]:
    yield from _id_faults(plan)
    for number, step in enumerate(plan.steps):
        place = ("steps", number)
        if bool(step.commands) == bool(step.agent):
            yield place, "a step has either commands or an agent" + (", not both" if step.agent else "")
        for position, wanted in enumerate(step.verify):
            yield from _verify_faults(plan, (*place, "verify", position), wanted)
    for name, check in plan.checks.items():
        yield from _check_faults(("checks", name), check)
    for number, item in enumerate(plan.acceptance):
        if item.check is not None and item.check not in plan.checks:
            yield ("acceptance", number, "check"), _no_such("check", item.check, plan.checks)
    if plan.verification and plan.verification.mode == "none" and plan.settled_track is not Track.DIRECT:
        yield ("verification", "mode"), f"'none' is for track direct; this plan is on {plan.settled_track}"


def _id_faults(plan: Plan) -> Iterator[tuple[strict_yaml.Path, str]]:
    seen: dict[str, int] = {}
    for number, step in enumerate(plan.steps):
        if step.id in seen:
            yield ("steps", number, "id"), f"id {step.id!r} is also the id of step {seen[step.id] + 1}"
        seen.setdefault(step.id, number)
    for number, step in enumerate(plan.steps):
        for position, need in enumerate(step.depends_on):
            if need not in seen:
                yield ("steps", number, "depends_on", position), _no_such("step", need, seen)
    cycle = find_cycle({step.id: step.depends_on for step in plan.steps})
    if cycle:
        yield ("steps", seen[cycle[0]], "depends_on"), f"steps wait for each other: {' → '.join(cycle)}"


def _no_such(what: str, name: str, known: typing.Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"there is no {what} {name!r}{hint}"


def _verify_faults(plan: Plan, place: strict_yaml.Path, wanted: Verification) -> Iterator[tuple[strict_yaml.Path, str]]:
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


_ABOUT_FILES = ("file_exists", "file_nonempty", "file_unchanged")
_ABOUT_OUTPUT = ("stdout_contains", "stdout_regex", "not_contains")


def _check_faults(place: strict_yaml.Path, check: Check) -> Iterator[tuple[strict_yaml.Path, str]]:
    if check.run is None and not any(getattr(check, name) for name in _ABOUT_FILES):
        yield place, f"a check has 'run' or one of {', '.join(_ABOUT_FILES)}"
    if check.run is None and any(getattr(check, name) is not None for name in _ABOUT_OUTPUT):
        yield place, "there is no output to look at without 'run'"
    if check.stdout_regex is not None:
        try:
            re2.compile(check.stdout_regex)
        except re2.error as fault:
            yield (*place, "stdout_regex"), f"not a regular expression (RE2): {fault}"


def _paths_of_checks(plan: Plan) -> Iterator[tuple[strict_yaml.Path, str]]:
    places: list[tuple[strict_yaml.Path, Check]] = [(("checks", name), check) for name, check in plan.checks.items()]
    for number, step in enumerate(plan.steps):
        places += [(("steps", number, "verify", position), wanted) for position, wanted in enumerate(step.verify)]
    for place, check in places:
        for name in _ABOUT_FILES:
            value = getattr(check, name)
            if value:
                yield (*place, name), value


def _remarks(plan: Plan) -> Iterator[str]:
    if plan.track is None:
        yield f"the plan names no track; {plan.settled_track} is assumed"
    for step in plan.steps:
        for wanted in step.verify:
            if wanted.claim is not None and wanted.claim not in plan.checks:
                yield f"step {step.id}: nothing checks {wanted.claim!r}; it is a claim, not evidence"


def resolve(plan: Plan, step: Step) -> tuple[tuple[str, Check, bool], ...]:
    """A step's checks by name, definition and whether they must fail; claims are left out."""
    out = []
    for position, wanted in enumerate(step.verify, 1):
        name = wanted.check or wanted.claim
        if name is not None and name in plan.checks:
            out.append((name, plan.checks[name], wanted.expect == "fail"))
        elif wanted.claim is None:
            out.append((f"{step.id}.{position}", wanted, wanted.expect == "fail"))
    return tuple(out)


__all__ = ["DISCOVERED", "InvalidPlan", "Loaded", "leaves_workspace", "load", "locate", "parse", "resolve"]
