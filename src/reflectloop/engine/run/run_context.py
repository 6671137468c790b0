"""One walk from a plan to a patch: what was asked, what is known so far, what came of it. State; decides nothing."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from reflectloop import config
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.envelope import Envelope
from reflectloop.engine.folders import Folders, RunFolder
from reflectloop.engine.gating import seal
from reflectloop.engine.run.recovery import ResumePoint
from reflectloop.engine.run.steps import StepResult
from reflectloop.errors import (
    ReflectloopError,
)
from reflectloop.plan.load import LoadedPlan
from reflectloop.sandbox import isolation
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.sandbox.limits import Limiter
from reflectloop.state.fold import Task
from reflectloop.state.journal import Journal, JournalEntry
from reflectloop.system import clock
from reflectloop.terms import Isolation, Role
from reflectloop.verification import evidence
from reflectloop.verification.evidence import Chain
from reflectloop.verification.verdict import Verdict
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.patch import TouchedFile
from reflectloop.workspace.project import Project
from reflectloop.workspace.snapshot import Snapshot
from reflectloop.workspace.store import Store


class RunObserver(Protocol):
    """Who watches a run: a terminal, a log, nobody."""

    def waits(self, why: str) -> None: ...
    def begins(self, loaded: LoadedPlan, run_id: str) -> None: ...
    def happened(self, entry: JournalEntry) -> None: ...
    def command(self, step_id: str, words: str) -> None: ...
    def output(self, step_id: str, data: bytes) -> None: ...
    def warning(self, step_id: str, words: str) -> None: ...


class NullObserver:
    def waits(self, why: str) -> None:
        pass

    def begins(self, loaded: LoadedPlan, run_id: str) -> None:
        pass

    def happened(self, entry: JournalEntry) -> None:
        pass

    def command(self, step_id: str, words: str) -> None:
        pass

    def output(self, step_id: str, data: bytes) -> None:
        pass

    def warning(self, step_id: str, words: str) -> None:
        pass


@dataclass(frozen=True)
class RunRequest:
    start: Path
    plan: Path | None = None
    isolation: Isolation | None = None
    sandbox_root: Path | None = None
    jobs: int | None = None
    keep_going: bool = False
    new_task: bool = False
    max_retries: int | None = None
    retry_reason: str | None = None
    wait: bool = False
    resume: bool = False  # go on with the run whose engine died
    mode: Literal["auto", "git", "copy"] = "auto"
    caller: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class RunOutcome(NamedTuple):
    envelope: Envelope
    folder: RunFolder
    steps: list[StepResult]
    touched: tuple[TouchedFile, ...]
    error: ReflectloopError | None
    known_fixes: tuple[dict[str, object], ...] = ()  # of that


class RunContext:
    """The state of one walk down the line."""

    def __init__(
        self,
        request: RunRequest,
        folders: Folders,
        run_id: str,
        observer: RunObserver,
        point: ResumePoint | None = None,
    ) -> None:
        self.request, self.folders, self.run_id, self.observer = request, folders, run_id, observer
        self.started, self.clock = clock.now(), clock.monotonic()
        self.point = point
        self.folder = point.folder if point else folders.open_run(run_id)
        self.config = config.Config()
        self.suspect = False  # whether the change may hold a secret: then nothing of it is kept
        self.loaded: LoadedPlan | None = None
        self.project: Project | None = None
        self.store: Store | None = None
        self.base: Snapshot | None = None
        self.task: Task | None = None
        self.journal: Journal | None = None
        self.spaces: list[Workspace] = []
        self.steps: list[StepResult] = []
        self.touched: tuple[TouchedFile, ...] = ()
        self.warnings: list[str] = []
        self.error: ReflectloopError | None = None
        self.failure: FailureRecord | None = None  # the record of that
        self.known_fixes: list[dict[str, object]] = []  # as the card carries them
        self.begun = False
        self.wall = IsolationLevel(Isolation.NONE, "nothing")
        self.limiters: dict[str, Limiter] = {}
        self.verdict: Verdict | None = None
        self.gates: Any = None  # the report of the gates; their room is not loaded for runs that need none
        self.root = Path()  # where workspaces are made
        self.tree: str | None = None  # where the work goes on; None: at the base
        self.over = False  # whether the journal already says how the run ended
        self._chain: Chain | None = None

    @property
    def space(self) -> Workspace | None:
        return self.spaces[0] if self.spaces else None

    @property
    def by_requests(self) -> bool:
        """Whether the steps were done by requests, and only the last word is left."""
        return self.point is not None and self.point.plan is None

    def again(self) -> str:
        """The command that runs the same plan once more, from where the user stands."""
        place = ["--project", os.fspath(self.request.start)] if self.request.start != Path() else []
        plan = [os.fspath(self.loaded.path)] if self.loaded and (self.request.plan or self.request.retry_reason) else []
        return shlex.join(["reflectloop", "run", *place, *plan])

    def onward(self) -> str:
        """The command that goes on where this run was stopped; one that never began begins anew."""
        return self.again().split(" run", 1)[0] + " resume" if self.begun else self.again()

    def stamp(self) -> str:
        if self.loaded is None:
            return str(self.wall.level)
        if self.by_requests and self.point:
            return min(self.point.run.isolation, str(self.wall.level), key=isolation.strength)
        agents = (self.config.network_of(Role(step.agent.role)) for step in self.loaded.plan.steps if step.agent)
        return self.wall.stamp([*(step.network for step in self.loaded.plan.steps), *agents])

    def chain(self) -> Chain:
        """The evidence of this run; what its steps showed comes first."""
        if self._chain is None:
            # What an earlier engine told is told again from the journal: two chains in one file prove nothing.
            (self.folder.path / evidence.FILE).unlink(missing_ok=True)
            self._chain = Chain(self.folder.path / evidence.FILE)
            assert self.loaded and self.base  # noqa: S101, PT018
            seal.note_steps(self._chain, self.steps, self.base.tree, self.loaded.plan.hash, self.stamp())
        return self._chain

    def elapsed_ms(self) -> int:
        return round((clock.monotonic() - self.clock) * 1000)

    @contextlib.contextmanager
    def tidying(self, what: str) -> Iterator[None]:
        """How a run ended does not depend on whether its traces could be cleared away."""
        try:
            yield
        except Exception as fault:  # noqa: BLE001 - said to the user, beside the outcome
            self.warnings.append(f"could not clear away {what}: {type(fault).__name__}: {fault}")

    def level(self) -> str | None:
        if self.verdict:
            return self.verdict.level
        return "L2" if self.begun and not self.error else None
