"""Loads a plan and reports all its faults, each with its path and line."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from reflectloop import secrets
from reflectloop.errors import GRAVITY, Fault, MissingPlan, ReflectloopError, by_code
from reflectloop.plan import faults, foreign, markdown, strict_yaml
from reflectloop.plan.model import Plan, PlanFile
from reflectloop.plan.reading import PlanSource
from reflectloop.system.patterns import lazy
from reflectloop.terms import closest

DISCOVERED = (Path(".reflectloop/plan.yaml"), Path(".claude/state/thinking/plan.latest.yaml"))


_ADDRESS = lazy(r"\A([A-Za-z][A-Za-z0-9+.-]*):/(?!/)")
_SUFFIXES = (".yaml", ".yml", ".json", ".md", ".markdown")
ASSUMED_TRACK = "the plan names no track"


class LoadedPlan(NamedTuple):
    plan: Plan
    path: Path
    form: str
    source_hash: str
    warnings: tuple[str, ...]
    notes: dict[str, Any]  # unknown keys such as guardrails, rollback, scores


def locate(project_root: Path, path: Path | None, is_tracked: Callable[[Path], bool] | None = None) -> Path:
    """Return the given plan, or the project's default plan, which must not come with the repository."""
    if path is not None:
        if path.is_dir():
            raise MissingPlan(f"{path} is a folder, not a plan", missing=(str(path),))
        refuse_address(path)
        if not path.exists():
            raise MissingPlan(f"there is no plan at {path}", next_step=_near(path), missing=(str(path),))
        return path
    for place in DISCOVERED:
        if (project_root / place).is_file():
            if is_tracked and is_tracked(place):
                raise MissingPlan(
                    f"{place} came with the repository, so it is not used by default",
                    next_step=f"read it, then name it: reflectloop run {place}",
                    missing=(str(place),),
                )
            return project_root / place
    first, second = DISCOVERED
    raise MissingPlan(
        f"there is neither {first} nor {second}",
        next_step="make a plan first: reflectloop tp GOAL (or /thingking_web); for one to fill in: reflectloop init",
        missing=tuple(str(place) for place in DISCOVERED),
    )


def _near(path: Path) -> str:
    """Return the command for the plan whose name is most like that of a missing one, or help on plans."""
    beside = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    by_stem = {other.stem: other for other in beside if other.suffix in _SUFFIXES}  # endings make any names alike
    near = closest(path.stem, by_stem, 0.6)
    return f"reflectloop plan check {shlex.quote(str(by_stem[near]))}" if near else "reflectloop plan --help"


def refuse_address(path: Path) -> None:
    """Raise MissingPlan for a URL. Path removed one slash, which is restored so that a password in it is redacted."""
    address = _ADDRESS.sub(r"\1://", str(path))
    if address != str(path) and not path.exists():
        raise MissingPlan(f"{address} is a URL, not a plan", missing=(address,))


def load(path: Path) -> LoadedPlan:
    """Return the plan at `path`; raise with all faults under the gravest code."""
    if path.is_fifo() and not path.absolute().is_relative_to("/dev"):  # `<(command)` is a pipe below /dev
        raise MissingPlan(f"{path} is a pipe, not a plan", missing=(str(path),))
    try:
        with path.open("rb") as file:
            raw = file.read(strict_yaml.MAX_BYTES + 1)
    except OSError as fault:
        raise MissingPlan(f"cannot read {path}: {fault.strerror}", missing=(str(path),)) from fault
    plan, problems, reading = parse(raw, path.suffix.lower())
    if plan is None or reading is None or problems:
        raise refuse(path, problems, secrets.current_detector().values(raw))
    digest = "sha256:" + hashlib.sha256(raw).hexdigest()
    return LoadedPlan(plan, path, reading.form, digest, (*reading.warnings, *_remarks(plan)), reading.notes)


def refuse(path: Path, problems: list[Fault], known: set[bytes]) -> ReflectloopError:
    gravest = min((fault.code for fault in problems), key=GRAVITY.index)
    count = "1 fault" if len(problems) == 1 else f"{len(problems)} faults"
    ordered = sorted(problems, key=lambda fault: (fault.line or 0, fault.path))
    cleaned = tuple(
        fault._replace(
            path=secrets.current_detector().redact(fault.path, known),
            message=secrets.current_detector().redact(fault.message, known),
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
    found = secrets.current_detector().scan(raw[: strict_yaml.MAX_BYTES])
    leaks = [
        Fault("", line, f"there is a secret here ({rule}); pass it in an environment variable", "SECRET_LEAK")
        for line, rule in dict.fromkeys((leak.line, leak.rule) for leak in found if leak.grade == "certain")
    ]
    try:
        reading = parse_source(raw, suffix)
    except strict_yaml.UnreadableYaml as refused:
        return ParsedPlan(None, [*leaks, refused.fault], None)
    problems = leaks + reading.faults + reading.document.faults
    if not reading.value:
        return ParsedPlan(None, problems, reading)
    _lift(reading)
    try:
        plan = PlanFile.model_validate(reading.value).plan
    except ValidationError as fault:
        return ParsedPlan(
            None, problems + faults.field_faults(fault, reading) + faults.partial_rule_faults(reading), reading
        )
    return ParsedPlan(plan, problems + faults.rule_faults(plan, reading), reading)


def parse_source(raw: bytes, suffix: str) -> PlanSource:
    """Detect the form of a text and convert it to the native one."""
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
    message = "the plan is empty" if document.value is None else _FORMS
    return PlanSource("unknown", document, faults=[Fault("", None if document.value is None else 1, message)])


def _two_plans(document: strict_yaml.YamlDocument, top: dict[str, Any]) -> PlanSource:
    lines = [document.line((key,)) for key in ("plan", "new_plan")]
    message = f"this file contains two plans: 'plan' on line {lines[0]} and 'new_plan' on line {lines[1]}; keep one"
    rest = {key: value for key, value in top.items() if key not in ("new_plan", "envelope")}
    return PlanSource("native", document, rest, faults=[Fault("", max(line or 1 for line in lines), message)])


_FORMS = (
    "no plan: one begins with 'plan:' (native), 'new_plan:' (Reflectloop), 'title:' and 'steps:' (Orchestrator) "
    "or has '### Step 1: …' in it (Markdown)"
)


def _markdown(raw: bytes) -> PlanSource:
    if len(raw) > strict_yaml.MAX_BYTES:
        raise strict_yaml.UnreadableYaml(Fault("", None, "a plan has at most 8 MB, and this file has more"))
    try:
        reading = markdown.parse_markdown(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        raise strict_yaml.UnreadableYaml(Fault("", line, "this is not UTF-8 text")) from fault
    if not reading.value["plan"]["steps"]:
        reading.faults.append(Fault("", 1, "there is no '### Step 1: …' in it"))
        reading.value = {}
    return reading


def _lift(reading: PlanSource) -> None:
    """Replace plain-text expectations by the checks they mean; names of checks stay."""
    body = reading.value.get("plan")
    steps = body.get("steps") if isinstance(body, dict) else None
    checks = body.get("checks") if isinstance(body, dict) else None
    named = checks if isinstance(checks, dict) else {}
    for step in steps if isinstance(steps, list) else ():
        items = step.get("verify") if isinstance(step, dict) else None
        if isinstance(items, list):
            step["verify"] = [
                parse_expectation(item) or item if isinstance(item, str) and item not in named else item
                for item in items
            ]


def _remarks(plan: Plan) -> Iterator[str]:
    if plan.track is None:
        yield f"{ASSUMED_TRACK}; {plan.settled_track} is assumed"
    for step in plan.steps:
        for step_check in step.verify:
            if step_check.claim is not None and step_check.claim not in plan.checks:
                yield f"step {step.id}: nothing checks {step_check.claim!r}; it is a claim, not evidence"


# Expectations written as text ---------------------------------------------------------------------------------------


_QUOTED = r"[`'\"‘“「]([^`'\"’”」]+)[`'\"’”」]"
_TOOLS = frozenset(
    [
        "python",
        "python3",
        "pytest",
        "pip",
        "uv",
        "ruff",
        "mypy",
        "tox",
        "nox",
        "node",
        "npm",
        "npx",
        "pnpm",
        "yarn",
        "go",
        "cargo",
        "make",
        "cmake",
        "ctest",
        "mvn",
        "gradle",
        "dotnet",
        "bash",
        "sh",
        "test",
        "git",
        "ls",
        "cat",
        "grep",
        "diff",
        "curl",
        "true",
        "false",
    ]
)
_EXIT = re.compile(
    r"(?:exit(?:s| code| status)?|returns|退出码)(?:\s*(?:is|为|with|code|=|:|：))*\s*(\d{1,9})\.?\Z", re.IGNORECASE
)
_OUTPUT = re.compile(rf"(?:std)?out(?:put)?\s+(?:contains|includes)\s+{_QUOTED}\.?\Z", re.IGNORECASE)
_OUTPUT_ZH = re.compile(rf"输出(?:中)?包含\s*{_QUOTED}\Z")
_COMMAND = re.compile(r"`([^`]+)`\s+(?:returns|exits(?: with)?|返回)\s*(\d{1,3})\.?\Z")
_BARE_COMMAND = re.compile(r"(\S[^`]*?)\s+(?:returns|exits with|返回)\s*(\d{1,3})\.?\Z")
_EXISTS = re.compile(r"(?:file|文件)\s*(?:exists|存在)\s*:?\s*[`'\"]?([^`'\"\s]+)[`'\"]?\.?\Z", re.IGNORECASE)
_EXISTS_AFTER = re.compile(
    r"(?:file\s+|文件\s*)?[`'\"]?([^`'\"\s]*[./][^`'\"\s]*)[`'\"]?\s*(?:exists|存在)\.?\Z", re.IGNORECASE
)


def parse_expectation(text: str) -> dict[str, Any] | None:
    """Return a check in the native form, or None if the text is only a claim."""
    line = text.strip()
    if match := _EXIT.match(line):
        return {"commands_exit": int(match[1])}
    for pattern in (_OUTPUT, _OUTPUT_ZH):
        if match := pattern.match(line):
            return {"output_contains": match[1]}
    if (match := _COMMAND.match(line)) and int(match[2]) <= _LARGEST_EXIT:
        return {"run": match[1], "exit_code": int(match[2])}
    if (match := _BARE_COMMAND.match(line)) and _is_command(match[1]) and int(match[2]) <= _LARGEST_EXIT:
        return {"run": match[1], "exit_code": int(match[2])}
    for pattern in (_EXISTS, _EXISTS_AFTER):
        if match := pattern.match(line):
            return {"file_exists": match[1]}
    return None


_LARGEST_EXIT = 255


def _is_command(text: str) -> bool:
    """Return True if unquoted text is a command; 'The function returns 0' is not."""
    first = text.split(maxsplit=1)[0]
    return first in _TOOLS or first.startswith("./")
