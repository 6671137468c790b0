"""Turns a run into the files people and programs read. Everything passes the redactor on its way out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from reflectloop import languages, secrets
from reflectloop.artifacts import next_command
from reflectloop.artifacts.envelope import Envelope
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.steps.execution import FixAttempt, StepResult
from reflectloop.errors import ReflectloopError
from reflectloop.state.fold import RunState
from reflectloop.workspace.folders import RunFolder
from reflectloop.workspace.patch import TouchedFile


def result_body(
    *,
    run_id: str,
    source_hash: str | None,
    mode: str | None,
    env_status: dict[str, str],
    steps: list[StepResult],
    error: ReflectloopError | None,
    folder: RunFolder,
    touched: tuple[TouchedFile, ...],
    cost: dict[str, Any] | None = None,
) -> dict[str, Any]:
    failed = next((step for step in steps if not step.success), None)
    return {
        "run_id": run_id,
        "plan_source_hash": source_hash,
        "sandbox_mode": mode,
        "env_status": env_status,
        "steps": [_step(step, folder) for step in steps],
        "result": "FAILED" if error else "SUCCESS",
        "failure": _failure(error, failed) if error else None,
        "outputs": {
            "patch_path": None if error else folder.patch.name,
            "summary_path": folder.summary.name,
            "touched_files": [change.path for change in touched],
        },
        **({"cost": cost} if cost else {}),
    }


def _step(step: StepResult, folder: RunFolder) -> dict[str, Any]:
    logs = [str(log.relative_to(folder.path)) for log in step.logs]
    return {
        "id": step.id,
        "exit_code": step.exit_code,
        "success": step.success,
        "log_path": logs[-1] if logs else None,
        "log_paths": logs,
        "duration_ms": step.duration_ms,
        "tree": step.tree,
        "fixes": [_fix(fix) for fix in step.fixes],
        "checks": [
            {"name": check.name, "held": check.held, "reason": check.reason, "exit_code": check.exit_code}
            for check in step.checks
        ],
    }


def _fix(fix: FixAttempt) -> dict[str, Any]:
    """A fix that was tried; what it changed is part of the step's tree."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fix._asdict().items()}


def _failure(error: ReflectloopError, step: StepResult | None) -> dict[str, Any]:
    return {
        "error_code": error.code,
        "step_id": step.id if step else None,
        "command": step.command if step else None,
        "exit_code": step.exit_code if step else None,
        "reason": error.message,
        "log_tail": step.tail if step else None,
        "faults": [str(fault) for fault in error.faults],
    }


def blocker_body(
    error: ReflectloopError,
    *,
    at: datetime,
    run_id: str,
    plan: str,
    steps: list[StepResult],
    total: int,
    history: list[RunState],
    record: FailureRecord,
    times_seen: int,
    known_fixes: list[dict[str, object]],
) -> dict[str, Any]:
    failed = next((step for step in steps if not step.success), None)
    evidence = [str(fault) for fault in error.faults]
    if failed:
        evidence += [f"{failed.command}: {failed.reason}", *failed.tail.splitlines()[-5:]]
    return {
        "blocker_id": f"B-{at:%y%m%d}-{record.signature[:6]}",
        "summary": error.message,
        "category": record.category,
        "needs": [record.needs],
        "evidence": evidence,
        "attempts": [
            *({"run_id": run.id, "error_code": run.error_code, "started": run.started} for run in history),
            {"run_id": run_id, "error_code": error.code},
        ],
        "root_cause_hypothesis": [record.diagnosis.root_cause] if record.diagnosis else [],
        "failure": record.as_data(),
        "times_seen": times_seen,
        "known_fixes": known_fixes,
        "fixes_tried": [_fix(fix) for step in steps for fix in step.fixes],
        "run_id": run_id,
        "steps_completed": sum(step.success for step in steps),
        "steps_total": total,
        "commands": {
            "look": f"reflectloop log {run_id}",
            "retry": next_command.after_failure(error.code, plan),
            "next": error.next_step,
        }
        | _unlock(error)
        | _teach(steps, run_id),
    }


def _teach(steps: list[StepResult], run_id: str) -> dict[str, str]:
    """Return the command that stores a fix for this failure."""
    failed = any(not step.success for step in steps)
    return {"teach": f"reflectloop lessons add --kind failfix --run {run_id} --command CMD"} if failed else {}


def _unlock(error: ReflectloopError) -> dict[str, str]:
    stopped = error.code in ("SECRET_LEAK", "SANDBOX_ESCAPE", "MAX_RETRIES", "LATCHED")
    return {"unlock": next_command.UNLOCK} if stopped else {}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("`", "'")


def summary(
    envelope: Envelope,
    *,
    title: str,
    steps: list[StepResult],
    total: int,
    touched: tuple[TouchedFile, ...],
    error: Any,  # noqa: ANN401
    cost: Sequence[str] = (),
    outcome: str = "",
    approved: Sequence[str] = (),
) -> str:
    """Return the page of a run. `outcome` is the gates' word, and `approved` is what people said yes to."""
    word = outcome or ("Failed" if error else "Done")
    lines = [f"# {title}", "", f"**{word}** · {envelope.run_id} · {envelope.timestamp}", ""]
    if error:
        lines += [f"`{error.code}`: {error.message}", ""] + [f"- {fault}" for fault in error.faults]
    lines += [f"- approved: {line}" for line in approved]
    lines += ["", f"## Steps ({sum(step.success for step in steps)} of {total} done)", ""]
    if steps:
        lines += ["| step | outcome | time | changed |", "|---|---|---|---|"]
    for step in steps:
        outcome = "done" if step.success else f"**{step.error_code}**: {step.reason}"
        name = f"{step.id} {step.title}".strip().replace("|", "\\|")
        lines.append(f"| {name} | {outcome} | {step.duration_ms / 1000:.1f} s | {'yes' if step.changed else 'no'} |")
        lines += [f"| · {_cell(str(fix))} | `{_cell('; '.join(fix.commands))}` | | |" for fix in step.fixes]
        lines += [
            f"| · check {check.name} | {check.reason} | {check.duration_ms / 1000:.1f} s | |" for check in step.checks
        ]
    failed = next((step for step in steps if not step.success), None)
    if failed and failed.tail:
        lines += ["", f"Last lines of `{failed.command}`:", "", "```text", failed.tail, "```"]
    if touched:
        lines += ["", f"## Files ({len(touched)})", ""] + [f"- {change.change}: `{change}`" for change in touched]
    if cost:
        lines += ["", "## Cost", "", "What the agents of this task have used so far:", "", *cost]
    if envelope.warnings:
        lines += ["", "## Warnings", ""] + [f"- {warning}" for warning in envelope.warnings]
    lines += ["", f"Isolation: {envelope.isolation}. Next: `{envelope.next}`", ""]
    return secrets.current_detector().redact(languages.document("\n".join(lines)))
