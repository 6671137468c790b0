"""Reads a plan and reports everything that is wrong with it, each fault with its path and its line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from reflectloop import secrets
from reflectloop.errors import GRAVITY, Fault, MissingPlan, ReflectloopError, by_code
from reflectloop.plan import faults, strict_yaml
from reflectloop.plan.model import Plan, PlanFile

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
    plan, found = parse(raw)
    if plan is None or found:
        raise refuse(path, found, secrets.values(raw))
    return Loaded(plan, path, "native", "sha256:" + hashlib.sha256(raw).hexdigest(), tuple(_remarks(plan)))


def refuse(path: Path, found: list[Fault], known: set[bytes]) -> ReflectloopError:
    gravest = min((fault.code for fault in found), key=GRAVITY.index)
    count = "1 fault" if len(found) == 1 else f"{len(found)} faults"
    ordered = sorted(found, key=lambda fault: (fault.line or 0, fault.path))
    cleaned = tuple(
        fault._replace(path=secrets.redact(fault.path, known), message=secrets.redact(fault.message, known))
        for fault in ordered
    )
    return by_code(gravest)(
        f"{path} has {count}", next_step=f"correct it, then: reflectloop plan check {path}", faults=cleaned
    )


def parse(raw: bytes) -> tuple[Plan | None, list[Fault]]:
    leaks = [
        Fault(
            "",
            leak.line,
            f"a secret stands here ({leak.rule}); pass it by environment instead",
            "SECRET_LEAK",
        )
        for leak in secrets.scan(raw[: strict_yaml.MAX_BYTES])
    ]
    try:
        document = strict_yaml.parse(raw)
    except strict_yaml.Refused as refused:
        return None, [*leaks, refused.fault]
    if document.value is None:
        return None, [*leaks, Fault("", None, "the plan is empty")]
    if not isinstance(document.value, dict) or "plan" not in document.value:
        return None, [*leaks, Fault("", 1, "a plan begins with the key 'plan:'")]
    found = leaks + document.faults
    try:
        plan = PlanFile.model_validate(document.value).plan
    except ValidationError as fault:
        found += faults.of_shape(fault, document)
        return None, found + faults.loose(document)
    return plan, found + faults.of_meaning(plan, document)


def _remarks(plan: Plan) -> Iterator[str]:
    if plan.track is None:
        yield f"the plan names no track; {plan.settled_track} is assumed"
    for step in plan.steps:
        for wanted in step.verify:
            if wanted.claim is not None and wanted.claim not in plan.checks:
                yield f"step {step.id}: nothing checks {wanted.claim!r}; it is a claim, not evidence"
