"""The values that the stages of a run hand on, from RequestedRun to JudgedRun. All are frozen.

Each is the one before with more known. What a stage opens (workspaces, limits) and every warning and step result is
added to containers that the first value holds, so that a run which stops anywhere can be closed and reported.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reflectloop import secrets
from reflectloop.config import Config
from reflectloop.engine.run.recovery import ResumePoint
from reflectloop.engine.run.request import RunObserver, RunRequest
from reflectloop.engine.steps.execution import StepObserver, StepResult
from reflectloop.errors import ReflectloopError
from reflectloop.plan.load import LoadedPlan
from reflectloop.plan.model import Plan, command_text
from reflectloop.sandbox import isolation, limits
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.sandbox.limits import Limiter
from reflectloop.sandbox.sandbox import Box
from reflectloop.state import events
from reflectloop.state.fold import Task
from reflectloop.state.journal import Journal
from reflectloop.system import clock
from reflectloop.system.process import Cancel
from reflectloop.terms import Role
from reflectloop.verification import evidence
from reflectloop.verification.evidence_chain import Chain, EvidenceRecord
from reflectloop.verification.verdict import Verdict
from reflectloop.workspace import checkout
from reflectloop.workspace.added_lines import AddedSecret
from reflectloop.workspace.carry import environments_beside
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.folders import Folders, RunFolder
from reflectloop.workspace.patch import TouchedFile
from reflectloop.workspace.project import Project
from reflectloop.workspace.snapshot import Snapshot
from reflectloop.workspace.store import Store

if TYPE_CHECKING:  # a run that needs no judgement does not load the gates
    from reflectloop.gates.pipeline import GateReport


@dataclass
class OpenResources:
    """Workspaces and limits that are open, closed at the end of the run whatever happens."""

    workspaces: list[Workspace] = field(default_factory=list)
    limiters: dict[str, Limiter] = field(default_factory=dict)

    @property
    def limits_by(self) -> str | None:
        return next((limiter.mechanism for limiter in self.limiters.values()), None)


@dataclass(frozen=True, kw_only=True)
class RequestedRun:
    """A run that somebody asked for, and where it writes."""

    request: RunRequest
    folders: Folders
    run_id: str
    folder: RunFolder
    observer: RunObserver
    resume: ResumePoint | None = None
    config: Config = field(default_factory=Config)
    started: datetime = field(default_factory=clock.now)
    begun_at: float = field(default_factory=clock.monotonic)
    warnings: list[str] = field(default_factory=list)
    results: list[StepResult] = field(default_factory=list)
    opened: OpenResources = field(default_factory=OpenResources)

    @property
    def is_over(self) -> bool:
        """Return whether the journal already says how the run ended: its engine died while it reported that."""
        return self.resume is not None and self.resume.run.status != "running"

    @property
    def is_stepwise(self) -> bool:
        """Return whether agents or requests executed the steps, and only the whole change is left to be judged."""
        return self.resume is not None and self.resume.run.kind.is_stepwise

    @property
    def show(self) -> StepObserver:
        return StepObserver(self.observer.command, self.observer.output, self.observer.warning)

    def elapsed_ms(self) -> int:
        return round((clock.monotonic() - self.begun_at) * 1000)

    def rerun_command(self) -> str:
        """Return the command that runs the same plan again, from where the user is."""
        place = ["--project", os.fspath(self.request.start)] if self.request.start != Path() else []
        return shlex.join(["reflectloop", "run", *place, *self._plan_argument()])

    def _plan_argument(self) -> list[str]:
        return []

    @contextlib.contextmanager
    def warn_on_failure(self, what: str) -> Iterator[None]:
        """Turn an error of the clean-up into a warning: it does not change how the run ended."""
        try:
            yield
        except Exception as fault:  # noqa: BLE001 - reported to the user beside the outcome
            self.warnings.append(f"could not clear away {what}: {type(fault).__name__}: {fault}")


@dataclass(frozen=True, kw_only=True)
class LoadedRun(RequestedRun):
    loaded: LoadedPlan

    @property
    def plan(self) -> Plan:
        return self.loaded.plan

    def _plan_argument(self) -> list[str]:
        return [os.fspath(self.loaded.path)] if self.request.plan or self.request.retry_reason else []


@dataclass(frozen=True, kw_only=True)
class AdmittedRun(LoadedRun):
    """A run that may begin: its isolation, its project, and the tree it starts from."""

    level: IsolationLevel
    project: Project
    store: Store
    base: Snapshot
    task: Task | None  # None: the run opens a new one
    start_tree: str  # where the work begins or continues
    cleared: events.LatchCleared | None = None  # why the latch of the task is gone

    @property
    def sandbox_root(self) -> Path:
        return checkout.sandbox_root(self.project, self.request.sandbox_root or self.config.workspace.root)

    @property
    def isolation_label(self) -> str:
        """Return the isolation as the journal and the artifacts say it."""
        if self.is_stepwise and self.resume:
            return min(self.resume.run.isolation, str(self.level.level), key=isolation.strength)
        agents = (self.config.network_of(Role(step.agent.role)) for step in self.plan.steps if step.agent)
        return self.level.stamp([*(step.network for step in self.plan.steps), *agents])

    def open_workspace(self, number: int) -> Workspace:
        """Lay out a workspace; the first has number 0, and others share its objects."""
        spaces = self.opened.workspaces
        space = checkout.create(
            self.project,
            self.store,
            self.base._replace(tree=self.start_tree),
            name=f"{self.run_id}.{number}" if number else self.run_id,
            root=self.sandbox_root,
            shared_objects=spaces[0].quarantine if spaces else None,
            base_tree=self.base.tree,
            carry=self.config.workspace,
            beside=environments_beside(self.project.root, [step.cwd for step in self.plan.steps]),
            mounted=self.level.mounted,
            bound=self.level.by == "bubblewrap",
        )
        self.warnings.extend(note for note in space.notes if note not in self.warnings)
        spaces.append(space)
        return space

    def make_box(self, space: Workspace, cancel: Cancel) -> Box:
        limiters = self.opened.limiters
        if space.name not in limiters and (made := limits.limiter_for(self.level, space.name, self.config.box)):
            limiters[space.name] = made
        return Box.by(self.config, space, self.request.caller, self.level, limiters.get(space.name), cancel)


class EvidenceFile:
    """The evidence chain of a run, made when it is first asked for; what the steps showed comes first."""

    def __init__(self) -> None:
        self._chain: Chain | None = None

    def chain(self, run: PreparedRun) -> Chain:
        if self._chain is None:
            path = run.folder.path / evidence.FILE
            path.unlink(missing_ok=True)  # left by an engine that died; the journal says all of it again
            self._chain = Chain(path)
            note_steps(self._chain, run.results, run.base.tree, run.plan, run.isolation_label)
        return self._chain


@dataclass(frozen=True, kw_only=True)
class PreparedRun(AdmittedRun):
    """A run with a workspace and a journal: what happens from here on counts."""

    task: Task
    journal: Journal
    workspace: Workspace
    evidence: EvidenceFile = field(default_factory=EvidenceFile)

    def chain(self) -> Chain:
        return self.evidence.chain(self)


@dataclass(frozen=True, kw_only=True)
class ExecutedRun(PreparedRun):
    """A run whose steps succeeded, with the patch they made."""

    touched: tuple[TouchedFile, ...]
    possible_secrets: tuple[AddedSecret, ...]


@dataclass(frozen=True, kw_only=True)
class JudgedRun(ExecutedRun):
    """A run whose change the gates judged; `refusal` is their error, if they do not let it through."""

    gates: GateReport
    verdict: Verdict | None
    refusal: ReflectloopError | None


Stage = TypeVar("Stage", bound=RequestedRun)


def extend(run: RequestedRun, stage: type[Stage], **known: Any) -> Stage:  # noqa: ANN401 - fields of the stage
    """Return the value of the next stage: this one with more known."""
    return stage(**({each.name: getattr(run, each.name) for each in dataclasses.fields(run)} | known))


# Evidence of steps --------------------------------------------------------------------------------------------------


def note_steps(chain: Chain, steps: Iterable[StepResult], base: str, plan: Plan, isolation: str) -> None:
    """Add what the engine saw while steps ran to the evidence chain: exit codes, checks, fixes (L2: not sealed)."""

    def log_of(path: Path | None) -> dict[str, str | None]:
        return evidence.log_of(path, chain.path.parent)

    commands = {step.id: tuple(map(command_text, step.commands)) for step in plan.steps}
    ran = {(step.id, name): check.run for step in plan.steps for name, check, _ in plan.checks_of(step)}
    run = {"base_tree": base, "plan_hash": plan.hash, "isolation": isolation}  # the hash reads the whole plan
    for step in steps:
        seen: dict[str, object] = {"tree": step.tree, **run}
        for fix in step.fixes:
            _add(
                chain,
                f"step {step.id}: {fix}",
                kind="fix",
                exit_code=None,
                duration_ms=0,
                **log_of(step.logs[0].parent / fix.log if fix.log and step.logs else None),
                **seen,
            )
        for check in step.checks:
            _add(
                chain,
                f"check {check.name} in step {step.id}: {check.reason}",
                kind="check",
                command=_argv(ran.get((step.id, check.name))) if check.exit_code is not None else (),
                exit_code=check.exit_code,
                duration_ms=check.duration_ms,
                **log_of(check.log),
                **seen,
            )
        _add(
            chain,
            f"step {step.id}: " + (step.reason or f"its commands exited {step.exit_code}"),
            kind="exit",
            command=commands.get(step.id, ())[: step.commands_run],
            exit_code=step.exit_code,
            duration_ms=step.duration_ms,
            **log_of(step.logs[-1] if step.logs else None),
            **seen,
        )


def _argv(command: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if command is None else (command,) if isinstance(command, str) else tuple(command)


def _add(chain: Chain, claim: str, **seen: object) -> None:
    record = {"claim": secrets.current_detector().redact(claim), "level": "L2", "command": (), "started": ""}
    chain.add(EvidenceRecord.model_validate({**record, **seen}))
