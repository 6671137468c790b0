"""Decide which command comes next: after a run, a failure, an unlock, or for a task that is not done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from reflectloop.state.fold import COUNTED, RunState, Task, TaskKind
from reflectloop.state.transitions import TaskState
from reflectloop.terms import OutcomeWord

GATE = "gate:"  # prefix of the key of a task that `gate` opened without a plan
NEW_RUN = "reflectloop run PLAN"
RESUME = "reflectloop resume"
RETRY = "reflectloop retry --reason TEXT"
UNLOCK = "reflectloop unlock --reason TEXT"
STATUS = "reflectloop status"
BY_AGENTS = "reflectloop tr --all"
BY_REQUESTS = "reflectloop fileops REQUEST.json"

Activity = Literal["engine at work", "request at work", "idle"]


def answer(step_id: str) -> str:
    return f"reflectloop answer {step_id} TEXT"


def command(run: RunState) -> str:
    """Return the command that continues a run which has not ended."""
    if not run.kind.is_stepwise:
        return RESUME
    step = next(iter(run.unfinished_steps), None)
    if step and step.status == "blocked":
        return answer(step.id)
    if run.kind is TaskKind.AGENTS:
        return BY_AGENTS
    return BY_REQUESTS if step else RESUME


def for_task(run: RunState) -> str:
    """Return the command that continues a task whose last run is `run`, failed or not ended."""
    return RETRY if run.status == "failed" else command(run)


def for_status(task: Task | None, run: RunState | None, activity: Activity, *, touched: int | None) -> str:
    """Return the command after `status`: for the last run that it shows."""
    if task is None or run is None or run.kind is TaskKind.IMPORTED:
        return NEW_RUN
    if run.waits_for_approval and activity == "idle" and task.state not in (TaskState.ABORTED, TaskState.PAUSED):
        return approve(run.id)
    if run.status == "running":
        return _for_unfinished(task, run, activity)
    if run.status == "ok":
        return NEW_RUN if run.applied or not touched else f"reflectloop apply {run.id}"
    return f"reflectloop show {run.id}"


def _for_unfinished(task: Task, run: RunState, activity: Activity) -> str:
    if task.state is TaskState.ABORTED:
        return NEW_RUN
    if task.state is TaskState.PAUSED:
        return RESUME
    if activity == "engine at work":
        return f"reflectloop log {run.id}"
    return STATUS if activity == "request at work" else command(run)


def after_success(run_id: str, *, touched: bool) -> str:
    """Return the command after a run that passed."""
    return f"reflectloop apply {run_id}" if touched else STATUS


def approve(run_id: str) -> str:
    return f"reflectloop approve {run_id} --reason TEXT"


def after_verdict(outcome: OutcomeWord, run_id: str) -> str:
    """Return the command that follows a verdict that is not PASS."""
    if outcome is OutcomeWord.REVIEW:
        return approve(run_id)
    return f"reflectloop log {run_id}"


def after_failure(error_code: str, plan: str) -> str:
    """Return the command that runs a plan again after it failed with this code."""
    return RETRY if error_code in COUNTED else f"reflectloop run {plan}"


def after_unlock(task: Task | None, error_code: str) -> str:
    """Return the command that continues the task which was stopped by this error; None if no task is known."""
    if task is None:
        return "reflectloop run"
    by_gate = task.plan_path.startswith(GATE)
    again = "reflectloop gate --contract FILE" if by_gate else f"reflectloop run {task.plan_path}".rstrip()
    if task.last_run and task.last_run.kind is TaskKind.AGENTS:
        again = BY_AGENTS
    return f"take the secret out of what the task writes, then: {again}" if error_code == "SECRET_LEAK" else again


def for_verification(verification: Mapping[str, Any]) -> str | None:
    """Return the command after `status` for the newest verification; None if it needs nothing."""
    outcome = verification["outcome"]
    if outcome not in tuple(OutcomeWord) or outcome == OutcomeWord.PASS:
        return None
    return after_verdict(OutcomeWord(outcome), verification["run_id"])
