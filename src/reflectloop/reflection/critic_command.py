"""`critic`: one output judged by its requirements; what must be done again gets a ticket."""

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
from reflectloop.state import journal, lock
from reflectloop.state.fold import TaskKind, fold
from reflectloop.system import clock
from reflectloop.workspace import secret_guard
from reflectloop.workspace.folders import Folders, folders_at

LARGEST = 32 << 20  # bytes of an output
_LARGEST_REQUIREMENTS = 1 << 20


@dataclass(frozen=True)
class CriticRequest:
    start: Path
    target: Path
    requirements: Path
    agent: str = "executor"  # who made the output
    step: str | None = None
    trigger: Literal["critic_evaluation", "self_check"] = "critic_evaluation"
    caller: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class CriticResult(NamedTuple):
    report: CriticReport
    written: tuple[Path, ...]
    error: ReflectloopError | None
    checkpoints: tuple[str, ...] = ()  # that earlier reflections on the same output left


class Judge:
    """The critic with everything it needs at hand, for one output and what becomes of it."""

    def __init__(self, folders: Folders, settings: Config, source: Path, caller: Mapping[str, str]) -> None:
        self.folders, self.settings, self.source, self.caller = folders, settings, source, caller
        self.asked = read_requirements(source, settings)
        self._known: dict[bytes, CriticReport] = {}

    def output(self, target: str, content: bytes) -> ToolOutput:
        return output.read(target, content, self.asked.form)

    def judge(self, target: str, content: bytes, step: str | None = None) -> CriticReport:
        """The same content is judged once."""
        if content not in self._known:
            self._known[content] = self._judge(target, content, step)
        return self._known[content]

    def _judge(self, target: str, content: bytes, step: str | None) -> CriticReport:
        from reflectloop.reflection.check_sandbox import CheckSandbox  # noqa: PLC0415 - most outputs are judged without a command

        checked = CheckSandbox(self.folders, self.settings, self.caller).check(target, content, self.asked.checks)
        at = clock.now()
        source = name_in(self.folders.root, self.source)
        about = Identity(clock.evaluation_id(at), clock.ticket_id(at), clock.stamp(at), source, step)
        return critic.evaluate(self.output(target, content), self.asked, checked, about)


def judge(asked: CriticRequest) -> CriticResult:
    folders = folders_at(asked.start)
    settings = config.load(folders.root)
    secrets.use(secrets.of(settings.secrets, folders.root))
    if not asked.agent.strip():
        raise InvalidInput("an output without anybody who made it", next_step="--agent NAME")
    content = read_output(asked.target)
    target = name_in(folders.root, asked.target)
    secret_guard.refuse_words(f"{asked.agent} {asked.step or ''}", "who made the output")
    judging = Judge(folders, settings, asked.requirements, asked.caller)
    if judging.asked.checks and Path(target).is_absolute():
        raise InvalidInput(
            f"{target} lies outside of {folders.root}, and checks run in a copy of that",
            next_step="copy it into the project, or leave the checks out",
        )
    folders.claim()
    with lock.hold(folders.own, "critic"):
        report = judging.judge(target, content, asked.step)
        written = _keep(folders, judging, report, asked, judging.output(target, content))
    return CriticResult(
        report, written, as_error(report), ticket_store.checkpoints(ticket_store.shelf(folders), target)
    )


def _keep(
    folders: Folders, judging: Judge, report: CriticReport, asked: CriticRequest, seen: ToolOutput
) -> tuple[Path, ...]:
    shelf, ticket = ticket_store.shelf(folders), report.rewind_ticket
    path = shelf.folder / "evaluations" / f"{report.evaluation_id}.json"
    ticket_store.write(path, report.model_dump(mode="json"))
    if ticket is None:
        return (path,)
    context = TicketContext(
        trigger=asked.trigger,
        agent=asked.agent,
        signature=ticket.signature,
        problem=judging.asked.goal or "",
        requirements=str(judging.source.resolve()),
        did_not_know=seen.did_not_know,
        interrupted=_interrupted(folders),
        evaluation=report,
        known_fixes=ticket_lessons.fixes(folders, ticket.signature),
    )
    return (path, ticket_store.open_ticket(shelf, ticket, context))


def _interrupted(folders: Folders) -> bool:
    """Whether the task's last run was broken off; we hold the lock, so nobody is at work on it."""
    current = folders.current_task()
    runs = list(fold(journal.read(folders.journal(current))).runs.values()) if current else []
    return bool(runs) and runs[-1].status == "running" and runs[-1].kind is TaskKind.RUN


def as_error(report: CriticReport) -> ReflectloopError | None:
    """What a verdict is for whoever asked: a pass, work to be mended, or work that goes back to a person."""
    ticket = report.rewind_ticket
    if ticket is None:
        return None
    kind = VerificationFailed if report.verdict == CriticVerdict.REVISE else GateRejected
    said = "; ".join(one.description for one in report.issues[:3])
    return kind(
        f"{report.verdict} at {report.quality_score:g}: {said}", next_step=f"reflectloop reflect {ticket.ticket_id}"
    )


# Reading ----------------------------------------------------------------------------------------------------------


def name_in(root: Path, path: Path) -> str:
    """From the top of the project where it lies inside."""
    real = path.resolve()  # where a link leads is what is judged
    return str(real.relative_to(root)) if real.is_relative_to(root) else str(real)


def read_output(path: Path) -> bytes:
    return _read(path, "output", LARGEST)


def _read(path: Path, what: str, most: int) -> bytes:
    """A plain file of a size that can be looked at; anything else is refused by name."""
    try:
        descriptor = os.open(
            path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        )  # a pipe nobody writes to must not hang us
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidInput(f"{path} is no plain file", next_step=f"name the {what} itself")
            if status.st_size > most:
                size = f"{status.st_size / 1e6:.0f} MB; the limit is {most >> 20} MB"
                raise InvalidInput(f"{path} has {size} for an {what}" if what == "output" else f"{path} has {size}")
            return file.read(most)
    except OSError as fault:
        raise InvalidInput(
            f"cannot read the {what} {path}: {(fault.strerror or str(fault)).lower()}",
            next_step=f"name the {what} that is to be read",
        ) from fault


def read_requirements(path: Path, settings: Config) -> Requirements:
    """A file of requirements, or a contract: that is the one that names a track."""
    raw = _read(path, "file of requirements", _LARGEST_REQUIREMENTS)
    try:
        document = strict_yaml.parse(raw)
    except strict_yaml.UnreadableYaml as refused:
        raise _unusable(path, [refused.fault]) from refused
    if document.faults:
        raise _unusable(path, document.faults)
    secret_guard.refuse_words(raw.decode("utf-8", "replace"), "the file of requirements")
    if isinstance(document.value, dict) and "track" in document.value:
        said = contracts.read(document.value, str(path))
        if said.malformed:
            raise _unusable(path, list(said.malformed))
        settings.refuse_without("verify.checks")
        own = {one.name: Check(run=one.run, service=one.service) for one in settings.verify.checks}
        return requirements.of_contract(said.contract, own)
    return requirements.read(document, str(path))


def _unusable(path: Path, faults: list[Fault]) -> InvalidInput:
    told = tuple(fault._replace(code=InvalidInput.code) for fault in faults)
    return InvalidInput(
        f"{path} is no file of requirements", next_step=f"correct {path}; see docs/reflection.md", faults=told
    )
