"""The public Python interface: load or build a plan, run it, judge a change, scan for secrets, apply, read the status.

Nothing here prints, asks or exits. Work that fails (a step, a check, a gate) is a result whose `error` is set; every
other problem raises an error of `reflectloop.errors`, which carries a code, an exit code and the next command. Results
are frozen. Settings, the lock of a project and the list of secrets are those of the process: call one function at a
time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reflectloop.commands import apply_run, task_status
from reflectloop.commands import scan as scans
from reflectloop.commands.apply_run import ApplyResult
from reflectloop.commands.scan import LocatedSecret, ScanReport
from reflectloop.engine.gating import gate_command, verdict_export, verify_command
from reflectloop.engine.gating.gate_command import GateInput
from reflectloop.engine.gating.verify_command import VerifyRequest
from reflectloop.engine.pipeline import run as run_request
from reflectloop.engine.run.request import NullObserver, RunRequest
from reflectloop.errors import ReflectloopError, WorkFault
from reflectloop.plan.load import load
from reflectloop.plan.model import Plan
from reflectloop.state.journal import JournalEntry
from reflectloop.system import files, overlay
from reflectloop.terms import Decision, Isolation, OutcomeWord, Track
from reflectloop.workspace.folders import open_project_dirs

__all__ = [
    "ApplyResult",
    "Decision",
    "GateSummary",
    "Isolation",
    "LocatedSecret",
    "OutcomeWord",
    "Plan",
    "RunSummary",
    "ScanReport",
    "StatusSummary",
    "StepSummary",
    "TaskRun",
    "Track",
    "VerifySummary",
    "apply",
    "gate",
    "load_plan",
    "run",
    "scan",
    "status",
    "verify",
]


@dataclass(frozen=True)
class StepSummary:
    """One step of a run, and how it ended."""

    id: str
    title: str
    ok: bool
    exit_code: int
    error_code: str | None
    reason: str
    duration_ms: int


@dataclass(frozen=True)
class RunSummary:
    """One run of a plan. `patch` is the change if the run passed, `blocker` the page that says why if it failed."""

    run_id: str
    ok: bool
    steps: tuple[StepSummary, ...]
    touched: tuple[str, ...]
    patch: Path | None
    blocker: Path | None
    folder: Path
    isolation: str | None
    evidence_level: str | None
    warnings: tuple[str, ...]
    next_command: str | None
    error: ReflectloopError | None


@dataclass(frozen=True)
class VerifySummary:
    """The verdict on a change. `data` has all of it, as `reflectloop verify --json` prints it."""

    ok: bool
    outcome: OutcomeWord
    findings: tuple[str, ...]  # ids of what a person may approve: `reflectloop approve RUN`, typed by that person
    decision: Decision
    level: str
    reasons: tuple[str, ...]
    receipt: Path
    warnings: tuple[str, ...]
    data: dict[str, Any]
    error: ReflectloopError | None


@dataclass(frozen=True)
class GateSummary:
    """The decision of the four gates. `data` has all of it, as `reflectloop gate --json` prints it."""

    ok: bool
    outcome: OutcomeWord
    findings: tuple[str, ...]  # ids of what a person may approve
    decision: str
    level: str | None
    reasons: tuple[str, ...]
    folder: Path
    warnings: tuple[str, ...]
    data: dict[str, Any]
    error: ReflectloopError | None


@dataclass(frozen=True)
class TaskRun:
    """One run in the list of a task's runs."""

    run_id: str
    state: str  # ok, failed or running
    error_code: str | None
    steps_done: int
    steps_total: int
    applied: bool


@dataclass(frozen=True)
class StatusSummary:
    """The state of the current task, and the command to type next."""

    task_id: str | None
    title: str | None
    runs: tuple[TaskRun, ...]
    latched_by: str | None  # the code that set the latch
    next_command: str


def load_plan(path: Path | str) -> Plan:
    """Return the plan in a file. Raise InvalidPlan with every fault and its line, or MissingPlan."""
    return load(Path(path)).plan


@overlay.kept_out()
def run(
    plan: Plan | Path | str | None = None,
    *,
    project: Path | str = ".",
    isolation: Isolation | None = None,
    jobs: int | None = None,
    keep_going: bool = False,
    new_task: bool = False,
    retry_reason: str | None = None,
    resume: bool = False,
    on_event: Callable[[JournalEntry], None] | None = None,
) -> RunSummary:
    """Run a plan in an isolated copy of the project, as `reflectloop run` does.

    A `Plan` is written to the project's `.reflectloop/plans` first, so that the run can be resumed and repeated by
    name. Without a plan the project's default one is used. `retry_reason` runs a failed task again although nothing
    changed; `resume` continues an interrupted one. `on_event` receives each journal entry after it is written.
    """
    start = Path(project)
    outcome = run_request(
        RunRequest(
            start,
            plan=_write_plan(start, plan) if isinstance(plan, Plan) else Path(plan) if plan is not None else None,
            isolation=isolation,
            jobs=jobs,
            keep_going=keep_going,
            new_task=new_task,
            retry_reason=retry_reason,
            resume=resume,
        ),
        _EventObserver(on_event) if on_event else NullObserver(),
    )
    _raise_unless_work(outcome.error)
    return RunSummary(
        run_id=outcome.folder.run_id,
        ok=outcome.error is None,
        steps=tuple(
            StepSummary(
                step.id, step.title, step.success, step.exit_code, step.error_code, step.reason, step.duration_ms
            )
            for step in outcome.steps
        ),
        touched=tuple(file.path for file in outcome.touched),
        patch=outcome.folder.patch if outcome.error is None else None,
        blocker=outcome.folder.blocker if outcome.error else None,
        folder=outcome.folder.path,
        isolation=outcome.envelope.isolation,
        evidence_level=outcome.envelope.evidence_level,
        warnings=tuple(outcome.envelope.warnings),
        next_command=outcome.envelope.next,
        error=outcome.error,
    )


@overlay.kept_out()
def verify(
    *,
    project: Path | str = ".",
    base: str | None = None,
    patch: Path | str | None = None,
    branch: str | None = None,
    track: Track | None = None,
    checks: Sequence[str] = (),
    isolation: Isolation | None = None,
) -> VerifySummary:
    """Verify a change by the project's own checks in fresh copies, as `reflectloop verify` does.

    The change is a patch file, a branch, or else the working tree; it is compared with `base` (default: HEAD).
    """
    outcome = verify_command.verify(_change(project, base, patch, branch, track, checks, isolation), NullObserver())
    _raise_unless_work(outcome.error)
    verdict = outcome.verdict
    if verdict is None:
        raise outcome.error or TypeError("a verification without a verdict has an error")
    return VerifySummary(
        ok=outcome.error is None,
        outcome=verdict.outcome,
        findings=tuple(reason.finding for reason in verdict.reasons if reason.finding),
        decision=verdict.decision,
        level=str(verdict.level),
        reasons=tuple(f"{reason.decision} {reason.text}" for reason in verdict.reasons),
        receipt=outcome.folder / "receipt.json",
        warnings=tuple(outcome.envelope.warnings),
        data=verdict_export.as_data(verdict),
        error=outcome.error,
    )


@overlay.kept_out()
def gate(
    contract: Path | str,
    *,
    project: Path | str = ".",
    base: str | None = None,
    patch: Path | str | None = None,
    branch: str | None = None,
    report: Path | str | None = None,
    isolation: Isolation | None = None,
) -> GateSummary:
    """Put a change and its contract through the four gates, as `reflectloop gate` does."""
    change = _change(project, base, patch, branch, None, (), isolation)
    result = gate_command.gate(
        GateInput(change, Path(contract), Path(report) if report is not None else None), NullObserver()
    )
    _raise_unless_work(result.error)
    reasons = (
        f"{reason['decision']} {reason['text']}" for stage in result.data["gates"] for reason in stage["reasons"]
    )
    return GateSummary(
        ok=result.error is None,
        outcome=result.report.outcome,
        findings=tuple(reason.finding for reason in result.report.last.reasons if reason.finding),
        decision=result.data["decision"],
        level=result.data["level"],
        reasons=tuple(reasons),
        folder=result.folder,
        warnings=tuple(result.envelope.warnings),
        data=result.data,
        error=result.error,
    )


def scan(*paths: Path | str, project: Path | str = ".", staged: bool = False, commits: str | None = None) -> ScanReport:
    """Search files, the staged lines or a range of commits (`A..B`) for secrets, as `reflectloop scan` does.

    Without any of them the whole project is searched. A finding names the place and a fingerprint, never the secret.
    """
    if bool(paths) + staged + (commits is not None) > 1:
        raise TypeError("paths, staged and commits exclude each other")
    settings = scans.read_settings(Path(project))
    if staged:
        return scans.staged(settings.detector, settings.root)
    if commits is not None:
        return scans.between(settings.detector, settings.root, commits)
    return scans.tree(settings, [Path(path) for path in paths] or [settings.root])


def apply(
    run_id: str | None = None,
    *,
    project: Path | str = ".",
    commit: bool = False,
    branch: str | None = None,
    message: str | None = None,
    each_step: bool = False,
) -> ApplyResult:
    """Apply the change of a run (default: the latest) to the working tree, a commit or a new branch.

    Raise ApplyConflict, with nothing changed, if it does not fit the tree as it is now.
    """
    result = apply_run.apply(
        Path(project),
        run_id,
        commit=commit,
        branch=branch,
        message=message,
        agree=lambda _offer: True,
        each_step=each_step,
    )
    assert result is not None  # noqa: S101 - None means that `agree` refused
    return result


def status(project: Path | str = ".") -> StatusSummary:
    """Return the state of the current task, its runs and the next command. Changes nothing."""
    state = task_status.status(Path(project), everything=False)
    task, stop = state["task"], state["stop"]
    return StatusSummary(
        task_id=task["id"] if task else None,
        title=task["title"] if task else None,
        runs=tuple(
            TaskRun(
                entry["run_id"],
                entry["status"],
                entry["error_code"],
                entry["steps_done"],
                entry["steps_total"],
                entry["applied"],
            )
            for entry in state["runs"]
        ),
        latched_by=stop["error_code"] if stop else None,
        next_command=state["next"],
    )


def _change(
    project: Path | str,
    base: str | None,
    patch: Path | str | None,
    branch: str | None,
    track: Track | None,
    checks: Sequence[str],
    isolation: Isolation | None,
) -> VerifyRequest:
    if patch is not None and branch is not None:
        raise TypeError("patch and branch exclude each other")
    return VerifyRequest(
        Path(project), base, Path(patch) if patch is not None else None, branch, track, tuple(checks), isolation
    )


def _write_plan(start: Path, plan: Plan) -> Path:
    """Write a plan under the name of its hash, and return the file."""
    folders = open_project_dirs(start)
    folders.ensure_owned()
    path = folders.own / "plans" / f"{plan.hash[:12]}.json"
    files.write_atomic(path, json.dumps({"plan": plan.to_json()}, indent=2) + "\n")
    return path


def _raise_unless_work(error: ReflectloopError | None) -> None:
    if error is not None and not isinstance(error, WorkFault):
        raise error


class _EventObserver(NullObserver):
    """Passes each journal entry to a function."""

    def __init__(self, on_event: Callable[[JournalEntry], None]) -> None:
        self._on_event = on_event

    def happened(self, entry: JournalEntry) -> None:
        self._on_event(entry)
