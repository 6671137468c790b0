"""`critic`: judge one output by its requirements; open a ticket if it must be revised."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from reflectloop import config, secrets
from reflectloop.config import Config
from reflectloop.errors import Fault, GateRejected, InvalidInput, ReflectloopError, VerificationFailed
from reflectloop.gates import contract as contracts
from reflectloop.plan import strict_yaml
from reflectloop.plan.model import Check
from reflectloop.reflection import critic, output, requirements, ticket_lessons, ticket_store
from reflectloop.reflection.critic import CriticReport, Identity
from reflectloop.reflection.output import ToolOutput
from reflectloop.reflection.requirements import Requirements
from reflectloop.reflection.ticket import CriticVerdict
from reflectloop.reflection.ticket_store import TicketContext
from reflectloop.state import lock
from reflectloop.state.fold import TaskKind
from reflectloop.system import clock
from reflectloop.workspace import secret_guard
from reflectloop.workspace.folders import Folders, open_project_dirs

SelfTrigger = Literal["critic_evaluation", "self_check"]
LARGEST = 32 << 20  # bytes of an output
_LARGEST_REQUIREMENTS = 1 << 20


@dataclass(frozen=True)
class CriticRequest:
    start: Path
    target: Path
    requirements: Path
    agent: str = "executor"  # the author of the output
    step: str | None = None
    trigger: SelfTrigger = "critic_evaluation"
    caller: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class CriticResult(NamedTuple):
    report: CriticReport
    written: tuple[Path, ...]
    error: ReflectloopError | None
    checkpoints: tuple[str, ...] = ()  # left by earlier reflections on the same output


class Judge:
    """The critic for one output and its later versions."""

    def __init__(self, folders: Folders, settings: Config, source: Path, caller: Mapping[str, str]) -> None:
        self.folders, self.settings, self.source, self.caller = folders, settings, source, caller
        self.requirements = read_requirements(source, settings)
        self._reports: dict[bytes, CriticReport] = {}

    def output(self, target: str, content: bytes) -> ToolOutput:
        return output.read(target, content, self.requirements.form)

    def judge(self, target: str, content: bytes, step: str | None = None) -> CriticReport:
        """Return the critic's report; the same content is judged once."""
        if content not in self._reports:
            self._reports[content] = self._judge(target, content, step)
        return self._reports[content]

    def _judge(self, target: str, content: bytes, step: str | None) -> CriticReport:
        from reflectloop.reflection.check_sandbox import CheckSandbox  # noqa: PLC0415 - most requirements name no command

        sandbox = CheckSandbox(self.folders, self.settings, self.caller)
        checked = sandbox.check(target, content, self.requirements.checks)
        at = clock.now()
        source = name_in(self.folders.root, self.source)
        about = Identity(clock.evaluation_id(at), clock.ticket_id(at), clock.stamp(at), source, step)
        return critic.evaluate(self.output(target, content), self.requirements, checked, about)


def judge(request: CriticRequest) -> CriticResult:
    """Judge an output and write the report, with a ticket if it must be revised."""
    folders = open_project_dirs(request.start)
    settings = config.load(folders.root)
    secrets.use_detector(secrets.detector_for(settings.secrets, folders.root))
    if not request.agent.strip():
        raise InvalidInput("the author of the output is empty", next_step="--agent NAME")
    content = read_output(request.target)
    target = name_in(folders.root, request.target)
    secret_guard.refuse_secret_text(f"{request.agent} {request.step or ''}", "the author of the output")
    critic_ = Judge(folders, settings, request.requirements, request.caller)
    if critic_.requirements.checks and Path(target).is_absolute():
        raise InvalidInput(
            f"{target} lies outside of {folders.root}, and checks run in a copy of that folder",
            next_step="copy it into the project, or leave the checks out",
        )
    folders.ensure_owned()
    with lock.hold_lock(folders.own, "critic"):
        report = critic_.judge(target, content, request.step)
        written = _write(folders, critic_, report, request, critic_.output(target, content))
    checkpoints = ticket_store.checkpoints(ticket_store.current_dir(folders), target)
    return CriticResult(report, written, as_error(report), checkpoints)


def _write(
    folders: Folders, critic_: Judge, report: CriticReport, request: CriticRequest, content: ToolOutput
) -> tuple[Path, ...]:
    place, ticket = ticket_store.current_dir(folders), report.rewind_ticket
    path = place.folder / "evaluations" / f"{report.evaluation_id}.json"
    ticket_store.write(path, report.model_dump(mode="json"))
    if ticket is None:
        return (path,)
    context = TicketContext(
        trigger=request.trigger,
        agent=request.agent,
        signature=ticket.signature,
        problem=critic_.requirements.goal or "",
        requirements=str(critic_.source.resolve()),
        did_not_know=content.did_not_know,
        interrupted=_interrupted(folders),
        evaluation=report,
        known_fixes=ticket_lessons.fixes(folders, ticket.signature),
    )
    return (path, ticket_store.open_ticket(place, ticket, context))


def _interrupted(folders: Folders) -> bool:
    """Return True if the task's last run was interrupted; we hold the lock, so no engine is at work on it."""
    run = folders.load_current().last_run
    return run is not None and run.status == "running" and run.kind is TaskKind.RUN


def as_error(report: CriticReport) -> ReflectloopError | None:
    """Return the error for a verdict: None for a pass, VerificationFailed to revise, GateRejected to reject."""
    ticket = report.rewind_ticket
    if ticket is None:
        return None
    kind = VerificationFailed if report.verdict == CriticVerdict.REVISE else GateRejected
    issues = "; ".join(issue.description for issue in report.issues[:3])
    return kind(
        f"{report.verdict} at {report.quality_score:g}: {issues}", next_step=f"reflectloop reflect {ticket.ticket_id}"
    )


# Reading ----------------------------------------------------------------------------------------------------------


def name_in(root: Path, path: Path) -> str:
    """Return the path relative to the project if it lies inside, with links followed."""
    real = path.resolve()
    return str(real.relative_to(root)) if real.is_relative_to(root) else str(real)


def read_output(path: Path) -> bytes:
    return _read(path, "output", LARGEST)


def _read(path: Path, what: str, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes; raise InvalidInput otherwise."""
    try:
        descriptor = os.open(
            path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        )  # a pipe nobody writes to must not hang us
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidInput(f"{path} is not a regular file", next_step=f"name the {what} itself")
            if status.st_size > most:
                size = f"{status.st_size / 1e6:.0f} MB; the limit is {most >> 20} MB"
                raise InvalidInput(f"{path} has {size} for an {what}" if what == "output" else f"{path} has {size}")
            return file.read(most)
    except OSError as fault:
        raise InvalidInput(
            f"cannot read the {what} {path}: {(fault.strerror or str(fault)).lower()}",
            next_step=f"name the {what} to read",
        ) from fault


def read_requirements(path: Path, settings: Config) -> Requirements:
    """Read a file of requirements, or a contract, which is recognized by its track."""
    raw = _read(path, "file of requirements", _LARGEST_REQUIREMENTS)
    try:
        document = strict_yaml.parse(raw)
    except strict_yaml.UnreadableYaml as refused:
        raise _unusable(path, [refused.fault]) from refused
    if document.faults:
        raise _unusable(path, document.faults)
    secret_guard.refuse_secret_text(raw.decode("utf-8", "replace"), "the file of requirements")
    if isinstance(document.value, dict) and "track" in document.value:
        reading = contracts.parse_contract(document.value, str(path))
        if reading.malformed:
            raise _unusable(path, list(reading.malformed))
        settings.refuse_without("verify.checks")
        checks = {check.name: Check(run=check.run, service=check.service) for check in settings.verify.checks}
        return requirements.of_contract(reading.contract, checks)
    return requirements.read(document, str(path))


def _unusable(path: Path, faults: list[Fault]) -> InvalidInput:
    coded = tuple(fault._replace(code=InvalidInput.code) for fault in faults)
    return InvalidInput(
        f"{path} is not a file of requirements", next_step=f"correct {path}; see docs/reflection.md", faults=coded
    )
