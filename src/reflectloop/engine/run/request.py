"""The request, the observer and the outcome of a run."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from reflectloop.artifacts.envelope import Envelope
from reflectloop.errors import ReflectloopError
from reflectloop.state.journal import JournalEntry
from reflectloop.terms import Isolation, RemarkKind
from reflectloop.verification.progress import CheckObserver, RunningCheck

if TYPE_CHECKING:  # a verification has neither plan nor steps
    from reflectloop.engine.steps.execution import StepResult
    from reflectloop.plan.load import LoadedPlan
    from reflectloop.workspace.folders import RunFolder
    from reflectloop.workspace.patch import TouchedFile


class VerifyObserver(CheckObserver, Protocol):
    """An observer of a verification, alone or at the end of a run."""

    def waits(self, why: str) -> None: ...


class RunObserver(VerifyObserver, Protocol):
    """A terminal or a log that shows the progress of a run."""

    def begins(self, loaded: LoadedPlan, run_id: str, done: Collection[str] = ()) -> None: ...
    def happened(self, entry: JournalEntry) -> None: ...
    def command(self, step_id: str, words: str) -> None: ...
    def warning(self, step_id: str, words: str) -> None: ...


class NullObserver:
    """Ignores all progress; a base for observers of some of it."""

    def waits(self, why: str) -> None:
        pass

    def begins(self, loaded: LoadedPlan, run_id: str, done: Collection[str] = ()) -> None:
        pass

    def happened(self, entry: JournalEntry) -> None:
        pass

    def command(self, step_id: str, words: str) -> None:
        pass

    def output(self, name: str, data: bytes) -> None:
        pass

    def warning(self, step_id: str, words: str) -> None:
        pass

    def check_started(self, run: RunningCheck) -> None:
        pass

    def check_ended(self, run: RunningCheck, summary: str, duration_ms: int, *, ok: bool) -> None:
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
    resume: bool = False  # continue the run whose engine died
    mode: Literal["auto", "git", "copy"] = "auto"
    approve_file: Path | None = None
    remarks: tuple[tuple[RemarkKind, str], ...] = ()  # what a reviewer noticed, for the gates
    caller: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class RunOutcome(NamedTuple):
    envelope: Envelope
    folder: RunFolder
    steps: list[StepResult]
    touched: tuple[TouchedFile, ...]
    error: ReflectloopError | None
    known_fixes: tuple[dict[str, object], ...] = ()  # for that error
    outcome: str = ""  # the gates' word for people; empty if they did not judge it
