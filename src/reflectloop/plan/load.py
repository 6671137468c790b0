"""Reads a plan and reports everything that is wrong with it, each fault with its path and its line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from reflectloop import secrets
from reflectloop.errors import GRAVITY, Fault, MissingPlan, ReflectloopError, by_code
from reflectloop.plan import faults, foreign, markdown, strict_yaml
from reflectloop.plan.lift import lift
from reflectloop.plan.model import Plan, PlanFile
from reflectloop.plan.reading import PlanSource

DISCOVERED = (Path(".reflectloop/plan.yaml"), Path(".claude/state/thinking/plan.latest.yaml"))


_ADDRESS = re.compile(r"\A([A-Za-z][A-Za-z0-9+.-]*):/(?!/)")
ASSUMED_TRACK = "the plan names no track"


class LoadedPlan(NamedTuple):
    plan: Plan
    path: Path
    form: str
    source_hash: str
    warnings: tuple[str, ...]
    notes: dict[str, Any]  # what the plan says beside its steps: guardrails, rollback, scores


def locate(project_root: Path, given: Path | None, is_tracked: Callable[[Path], bool] | None = None) -> Path:
    """Return the plan that was given, or the project's default one: never one that came with the repository."""
    if given is not None:
        if given.is_dir():
            raise MissingPlan(f"{given} is a folder, not a plan", missing=(str(given),))
        refuse_address(given)
        if not given.exists():
            raise MissingPlan(f"there is no plan at {given}", missing=(str(given),))
        return given
    for place in DISCOVERED:
        if (project_root / place).is_file():
            if is_tracked and is_tracked(place):
                raise MissingPlan(
                    f"{place} came with the repository, so it is no default plan",
                    next_step=f"look at it, then name it: reflectloop run {place}",
                    missing=(str(place),),
                )
            return project_root / place
    looked = " nor ".join(str(place) for place in DISCOVERED)
    raise MissingPlan(f"there is neither {looked}", missing=tuple(str(place) for place in DISCOVERED))


def refuse_address(given: Path) -> None:
    """Refuse an address, before its name is written anywhere. A password in it is found only with both its slashes."""
    address = _ADDRESS.sub(r"\1://", str(given))
    if address != str(given) and not given.exists():
        raise MissingPlan(f"{address} is an address, and no plan", missing=(address,))


def load(path: Path) -> LoadedPlan:
    """The plan at `path`; raises with every fault under the gravest code."""
    try:
        with path.open("rb") as file:
            raw = file.read(strict_yaml.MAX_BYTES + 1)
    except OSError as fault:
        raise MissingPlan(f"cannot read {path}: {fault.strerror}", missing=(str(path),)) from fault
    plan, found, reading = parse(raw, path.suffix.lower())
    if plan is None or reading is None or found:
        raise refuse(path, found, secrets.current().values(raw))
    digest = "sha256:" + hashlib.sha256(raw).hexdigest()
    return LoadedPlan(plan, path, reading.form, digest, (*reading.warnings, *_remarks(plan)), reading.notes)


def refuse(path: Path, found: list[Fault], known: set[bytes]) -> ReflectloopError:
    gravest = min((fault.code for fault in found), key=GRAVITY.index)
    count = "1 fault" if len(found) == 1 else f"{len(found)} faults"
    ordered = sorted(found, key=lambda fault: (fault.line or 0, fault.path))
    cleaned = tuple(
        fault._replace(
            path=secrets.current().redact(fault.path, known), message=secrets.current().redact(fault.message, known)
        )
        for fault in ordered
    )
    return by_code(gravest)(
        f"{path} has {count}", next_step=f"correct it, then: reflectloop plan check {path}", faults=cleaned
    )


class ParsedPlan(NamedTuple):
    plan: Plan | None
    faults: list[Fault]
    reading: PlanSource | None


def parse(raw: bytes, suffix: str = ".yaml") -> ParsedPlan:
    leaks = [
        Fault(
            "",
            leak.line,
            f"a secret stands here ({leak.rule}); pass it by environment instead",
            "SECRET_LEAK",
        )
        for leak in secrets.current().scan(raw[: strict_yaml.MAX_BYTES])
        if leak.grade == "certain"
    ]
    try:
        reading = read(raw, suffix)
    except strict_yaml.UnreadableYaml as refused:
        return ParsedPlan(None, [*leaks, refused.fault], None)
    found = leaks + reading.faults + reading.document.faults
    if not reading.value:
        return ParsedPlan(None, found, reading)
    _lift(reading)
    try:
        plan = PlanFile.model_validate(reading.value).plan
    except ValidationError as fault:
        return ParsedPlan(None, found + faults.of_shape(fault, reading) + faults.loose(reading), reading)
    return ParsedPlan(plan, found + faults.of_meaning(plan, reading), reading)


def read(raw: bytes, suffix: str) -> PlanSource:
    """Find out which form a text has, and read it into the native one."""
    try:
        document = None if suffix in (".md", ".markdown") else strict_yaml.parse(raw)
    except strict_yaml.UnreadableYaml:
        if not markdown.looks_like(raw):
            raise
        document = None
    if document is None or (document.value is None and markdown.looks_like(raw)):
        return _markdown(raw)
    top = document.value if isinstance(document.value, dict) else {}
    if "plan" in top and "new_plan" in top:
        return _two_plans(document, top)
    if "plan" in top:
        return PlanSource("native", document, dict(top))
    if "new_plan" in top:
        return foreign.reflectloop(document)
    if "steps" in top:
        return foreign.orchestrator(document)
    words = "the plan is empty" if document.value is None else _FORMS
    return PlanSource("unknown", document, faults=[Fault("", None if document.value is None else 1, words)])


def _two_plans(document: strict_yaml.YamlDocument, top: dict[str, Any]) -> PlanSource:
    lines = [document.line((key,)) for key in ("plan", "new_plan")]
    words = f"this file holds two plans: 'plan' on line {lines[0]} and 'new_plan' on line {lines[1]}; keep one"
    rest = {key: value for key, value in top.items() if key not in ("new_plan", "envelope")}
    return PlanSource("native", document, rest, faults=[Fault("", max(line or 1 for line in lines), words)])


_FORMS = (
    "no plan: one begins with 'plan:' (native), 'new_plan:' (Reflectloop), 'title:' and 'steps:' (Orchestrator) "
    "or has '### Step 1: …' in it (Markdown)"
)


def _markdown(raw: bytes) -> PlanSource:
    if len(raw) > strict_yaml.MAX_BYTES:
        raise strict_yaml.UnreadableYaml(Fault("", None, "a plan has at most 8 MB, and this file has more"))
    try:
        reading = markdown.read(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        raise strict_yaml.UnreadableYaml(Fault("", line, "this is no UTF-8 text")) from fault
    if not reading.value["plan"]["steps"]:
        reading.faults.append(Fault("", 1, "there is no '### Step 1: …' in it"))
        reading.value = {}
    return reading


def _lift(reading: PlanSource) -> None:
    """Replace words that say something checkable by the check they mean; names of checks stay names."""
    body = reading.value.get("plan")
    steps = body.get("steps") if isinstance(body, dict) else None
    checks = body.get("checks") if isinstance(body, dict) else None
    named = checks if isinstance(checks, dict) else {}
    for step in steps if isinstance(steps, list) else ():
        wanted = step.get("verify") if isinstance(step, dict) else None
        if isinstance(wanted, list):
            step["verify"] = [
                lift(item) or item if isinstance(item, str) and item not in named else item for item in wanted
            ]


def _remarks(plan: Plan) -> Iterator[str]:
    if plan.track is None:
        yield f"{ASSUMED_TRACK}; {plan.settled_track} is assumed"
    for step in plan.steps:
        for wanted in step.verify:
            if wanted.claim is not None and wanted.claim not in plan.checks:
                yield f"step {step.id}: nothing checks {wanted.claim!r}; it is a claim, not evidence"
