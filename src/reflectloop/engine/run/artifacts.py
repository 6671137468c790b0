"""Writes the files of a run: envelope, result, summary, blocker, receipt, JUnit and SARIF.

Everything passes the redactor on its way out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reflectloop import languages, secrets
from reflectloop.artifacts import next_command, publish, usage
from reflectloop.artifacts.envelope import Envelope, of_error, write_yaml
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.run import junit_sarif
from reflectloop.engine.run.context import AdmittedRun, ExecutedRun, JudgedRun, LoadedRun, PreparedRun, RequestedRun
from reflectloop.engine.run.recovery import fix_record
from reflectloop.engine.steps.execution import CANCELLED, StepResult
from reflectloop.engine.tasks import open_tasks, task_progress
from reflectloop.errors import Latched, ReflectloopError, SecretLeak
from reflectloop.plan import load as plans
from reflectloop.sandbox import environment
from reflectloop.state import snapshot
from reflectloop.state.fold import StepState, Task
from reflectloop.system import clock, files
from reflectloop.terms import OutcomeWord
from reflectloop.verification import evidence, evidence_chain
from reflectloop.workspace.folders import RunFolder, user_knowledge
from reflectloop.workspace.patch import TouchedFile


def envelope_of(run: RequestedRun, error: ReflectloopError | None) -> Envelope:
    stamp = clock.stamp(run.started)
    plain = of_error("run", stamp, error) if error else Envelope(command="run", timestamp=stamp, status="OK")
    folder, begun = run.folder, isinstance(run, PreparedRun)
    written = [folder.envelope, folder.result, folder.summary, folder.junit, folder.sarif]
    proofs = [folder.path / name for name in (evidence.FILE, evidence.RECEIPT)]
    written += proofs if begun and not isinstance(error, SecretLeak) else []
    written += [folder.path / name for name in ("gates.md", "gates.json")] if isinstance(run, JudgedRun) else []
    written += [folder.blocker] if error else [folder.patch]
    loaded = run.loaded if isinstance(run, LoadedRun) else None
    spaces = run.opened.workspaces
    return plain.model_copy(
        update={
            "artifacts_read": [_relative(loaded.path, run.folders.root)] if loaded else [],
            "artifacts_written": [_relative(path, run.folders.root) for path in written],
            "next": error.next_step if error else _next(run),
            "run_id": run.run_id,
            "plan_form": loaded.form if loaded else None,
            "plan_hash": loaded.plan.hash if loaded else None,
            "base_tree": spaces[0].base_tree if spaces else None,
            "isolation": run.isolation_label if isinstance(run, PreparedRun) else None,
            "isolation_by": run.level.by if isinstance(run, PreparedRun) else None,
            "sandbox_mode": run.project.mode if isinstance(run, AdmittedRun) else None,
            "evidence_level": _level(run, error),
            "verified": None if error else isinstance(run, JudgedRun) and run.verdict is not None,
            "duration_ms": run.elapsed_ms(),
            "warnings": list(dict.fromkeys(run.warnings)),
        }
    )


def _level(run: RequestedRun, error: ReflectloopError | None) -> str | None:
    if isinstance(run, JudgedRun) and run.verdict:
        return run.verdict.level
    return "L2" if isinstance(run, PreparedRun) and not error else None


def _write_receipt(run: PreparedRun, error: ReflectloopError | None) -> None:
    """Write what was decided and what that rests on. A leak leaves no receipt."""
    if isinstance(error, SecretLeak):
        return
    judged = run if isinstance(run, JudgedRun) else None
    refused = str(judged.gates.decision) if judged else "STOP"
    facts = {
        "run_id": run.run_id,
        "decision": refused if error else "PASS",
        "outcome": run_outcome(judged, error),
        "level": _level(run, error),
        "track": str(run.plan.settled_track),
        "base_tree": run.workspace.base_tree,
        "tree": run.workspace.tree,
        "sealed_tree": judged.verdict.sealed_tree if judged and judged.verdict else None,
        "plan_hash": run.plan.hash,
        "switched_off": list(judged.verdict.switched_off) if judged and judged.verdict else [],
        "reasons": [secrets.current_detector().redact(error.message)] if error else [],
        "approvals": judged.gates.approval_data if judged else [],
        "finished": clock.stamp(clock.now()),
    }
    gates = [run.folder.path / "gates.json"] if judged else []
    named = [path.name for path in (*run.folder.path.glob("plan.*"), run.folder.patch, *gates) if path.exists()]
    evidence_chain.write_receipt(run.folder.path, run.chain(), facts, named)


def run_outcome(judged: JudgedRun | None, error: ReflectloopError | None) -> str:
    """Return the word for people; a run that the gates did not see is refused by what stopped it."""
    if error is None:
        return OutcomeWord.PASS
    return judged.gates.outcome if judged and judged.refusal is error else OutcomeWord.REFUSED


def _next(run: RequestedRun) -> str:
    return next_command.after_success(run.run_id, touched=isinstance(run, ExecutedRun) and bool(run.touched))


def write(
    run: RequestedRun, envelope: Envelope, error: ReflectloopError | None, failure: FailureRecord | None
) -> list[dict[str, object]]:
    """Write every file of the run. Return the known fixes of its failure."""
    plan = run.plan if isinstance(run, LoadedRun) else None
    path = _relative(run.loaded.path, run.folders.root) if isinstance(run, LoadedRun) else _plan_key(run)
    title = plan.title if plan else "A run that could not begin"
    asked = _task_with_agents(run)
    body = _result_body(run, error, asked)
    write_yaml(run.folder.result, envelope, body)
    files.write_atomic(run.folder.summary, _summary(run, envelope, title, error, usage.table(asked) if asked else ()))
    files.write_atomic(run.folder.junit, junit_sarif.junit(title, plan, run.results, error, envelope.duration_ms or 0))
    files.write_atomic(run.folder.sarif, junit_sarif.sarif(path, run.results, error))
    known_fixes: list[dict[str, object]] = []
    blocker: dict[str, Any] | None = None
    if error:
        record = failure or failure_of(run, error)
        known_fixes = _known_fixes(run, record)
        blocker = _blocker(run, error, record, known_fixes)
        write_yaml(run.folder.blocker, envelope, blocker)
    else:
        run.folder.blocker.unlink(missing_ok=True)  # of a judgement before an approval
    if isinstance(run, PreparedRun):
        with run.warn_on_failure("what a receipt needs"):
            _write_receipt(run, error)
    # Last of ours: if the envelope exists, everything it names exists.
    write_yaml(run.folder.envelope, envelope)
    # What LATCHED refuses to repeat stays published: the blocker of the failure says what is needed.
    if publish.wanted(run.config.publish, path) and not isinstance(error, Latched):
        run.warnings.extend(publish.attempt(run.folders, run.folder, envelope, body, blocker))
    return known_fixes


def _task_with_agents(run: RequestedRun) -> Task | None:
    """Return the task as its journal is now, if agents were asked for it."""
    if not isinstance(run, PreparedRun) or not (run.is_stepwise or any(step.agent for step in run.plan.steps)):
        return None
    task = snapshot.load_task(run.journal.path.parent)
    return task if task.spent else None


def _plan_key(run: RequestedRun) -> str | None:
    """Return where the plan would have been read from."""
    if run.request.plan:
        return open_tasks.plan_key(run.folders, run.request.plan)
    there = [place for place in plans.DISCOVERED if (run.folders.root / place).exists()]
    return str(there[0]) if there else None


# The result -----------------------------------------------------------------------------------------------------------


def _result_body(run: RequestedRun, error: ReflectloopError | None, asked: Task | None) -> dict[str, Any]:
    failed = next((step for step in run.results if not step.success), None)
    cost = task_progress.cost(run.folders, asked) if asked else None
    return {
        "run_id": run.run_id,
        "plan_source_hash": run.loaded.source_hash if isinstance(run, LoadedRun) else None,
        "sandbox_mode": run.project.mode if isinstance(run, AdmittedRun) else None,
        "env_status": environment.status(run.config.run.env_allow, run.request.caller),
        "steps": [_step(step, run.folder) for step in run.results],
        "result": "FAILED" if error else "SUCCESS",
        "failure": _failure(error, failed) if error else None,
        "outputs": {
            "patch_path": None if error else run.folder.patch.name,
            "summary_path": run.folder.summary.name,
            "touched_files": [change.path for change in _touched(run)],
        },
        **({"cost": cost} if cost else {}),
    }


def _touched(run: RequestedRun) -> tuple[TouchedFile, ...]:
    return run.touched if isinstance(run, ExecutedRun) else ()


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
        "fixes": [fix_record(fix) for fix in step.fixes],
        "checks": [
            {"name": check.name, "held": check.held, "reason": check.reason, "exit_code": check.exit_code}
            for check in step.checks
        ],
    }


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


# The summary ----------------------------------------------------------------------------------------------------------


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("`", "'")


def _summary(
    run: RequestedRun, envelope: Envelope, title: str, error: ReflectloopError | None, cost: Sequence[str]
) -> str:
    """Return the page of a run: what the gates decided, its steps, files, cost and warnings."""
    judged = run if isinstance(run, JudgedRun) else None
    steps, touched = run.results, _touched(run)
    total = len(run.plan.steps) if isinstance(run, LoadedRun) else 0
    word = run_outcome(judged, error) if judged else "Failed" if error else "Done"
    lines = [f"# {title}", "", f"**{word}** · {envelope.run_id} · {envelope.timestamp}", ""]
    if error:
        lines += [f"`{error.code}`: {error.message}", ""] + [f"- {fault}" for fault in error.faults]
    lines += [f"- approved: {item}" for item in judged.gates.approved] if judged else []
    done, left_out = sum(step.success for step in steps), _skipped(run)
    lines += [
        "",
        f"## Steps ({done} of {total} done, {len(left_out)} skipped)"
        if left_out
        else f"## Steps ({done} of {total} done)",
        "",
    ]
    if steps or left_out:
        lines += ["| step | outcome | time | changed |", "|---|---|---|---|"]
    for step in steps:
        outcome = "done" if step.success else f"**{step.error_code}**: {step.reason}"
        name = f"{step.id} {step.title}".strip().replace("|", "\\|")
        lines.append(f"| {name} | {outcome} | {step.duration_ms / 1000:.1f} s | {'yes' if step.changed else 'no'} |")
        lines += [f"| · {_cell(str(fix))} | `{_cell('; '.join(fix.commands))}` | | |" for fix in step.fixes]
        lines += [
            f"| · check {check.name} | {check.reason} | {check.duration_ms / 1000:.1f} s | |" for check in step.checks
        ]
    lines += [f"| {_cell(step.id)} | skipped: {_cell(step.reason)} | | |" for step in left_out]
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


def _skipped(run: RequestedRun) -> list[StepState]:
    """Return the steps that a person skipped; one that was split is done by its parts."""
    states = run.resume.run.steps.values() if run.resume else ()
    return [step for step in states if step.status == "skipped" and not step.parts]


# The blocker --------------------------------------------------------------------------------------------------------


def failure_of(run: RequestedRun, error: ReflectloopError) -> FailureRecord:
    from reflectloop.engine.steps import run_failure  # noqa: PLC0415 - a run that succeeds needs no diagnosis

    task = _task(run)
    attempt = len(task.failures if task else []) + 1
    record = run_failure.of(error, _failed_step(run), attempt, run.config.reflect, run.folders.root)
    return run_failure.counted(record, _times_seen(run, record.signature))


def _task(run: RequestedRun) -> Task | None:
    return run.task if isinstance(run, AdmittedRun) else None


def _failed_step(run: RequestedRun) -> StepResult | None:
    failed = [step for step in run.results if not step.success]
    return next((step for step in failed if step.error_code != CANCELLED), failed[0] if failed else None)


def _times_seen(run: RequestedRun, signature: str) -> int:
    """Return how often a failure was seen in this task, with this time."""
    task = _task(run)
    counted = task is not None and task.latch is not None and task.latch.run_id == run.run_id
    return len(task.met.get(signature, ()) if task else ()) + (not counted)


def _known_fixes(run: RequestedRun, record: FailureRecord) -> list[dict[str, object]]:
    if not (run.folders.knowledge.is_dir() or user_knowledge().is_dir()):
        return []
    from reflectloop.engine.run import known_fixes  # noqa: PLC0415

    try:
        return known_fixes.known(run.folders, record)
    except (ReflectloopError, OSError) as fault:
        run.warnings.append(f"known fixes could not be looked up: {fault}")
        return []


def _blocker(
    run: RequestedRun, error: ReflectloopError, record: FailureRecord, known_fixes: list[dict[str, object]]
) -> dict[str, Any]:
    asked = run.loaded.path if isinstance(run, LoadedRun) else run.request.plan
    plan = _relative(asked, run.folders.root) if asked else "PLAN"
    task = _task(run)
    packet = run.gates.packet if isinstance(run, JudgedRun) else error.packet
    failed = next((step for step in run.results if not step.success), None)
    seen = [str(fault) for fault in error.faults]
    if failed:
        seen += [f"{failed.command}: {failed.reason}", *failed.tail.splitlines()[-5:]]
    return {
        "blocker_id": f"B-{run.started:%y%m%d}-{record.signature[:6]}",
        "summary": error.message,
        "category": record.category,
        "needs": [record.needs],
        "evidence": seen,
        "attempts": [
            *(
                {"run_id": earlier.id, "error_code": earlier.error_code, "started": earlier.started}
                for earlier in (task.failures if task else [])
            ),
            {"run_id": run.run_id, "error_code": error.code},
        ],
        "root_cause_hypothesis": [record.diagnosis.root_cause] if record.diagnosis else [],
        "failure": record.as_data(),
        "times_seen": _times_seen(run, record.signature),
        "known_fixes": known_fixes,
        "fixes_tried": [fix_record(fix) for step in run.results for fix in step.fixes],
        "run_id": run.run_id,
        "steps_completed": sum(step.success for step in run.results),
        "steps_total": len(run.plan.steps) if isinstance(run, LoadedRun) else 0,
        "commands": {
            "look": f"reflectloop log {run.run_id}",
            "retry": next_command.after_failure(error.code, plan),
            "next": error.next_step,
        }
        | _unlock(error)
        | _teach(run),
    } | (_escalation(packet) if packet else {})


def _teach(run: RequestedRun) -> dict[str, str]:
    """Return the command that stores a fix for this failure."""
    failed = any(not step.success for step in run.results)
    return {"teach": f"reflectloop lessons add --kind failfix --run {run.run_id} --command CMD"} if failed else {}


def _unlock(error: ReflectloopError) -> dict[str, str]:
    stopped = error.code in ("SECRET_LEAK", "SANDBOX_ESCAPE", "MAX_RETRIES", "LATCHED")
    return {"unlock": next_command.UNLOCK} if stopped else {}


def _escalation(packet: Any) -> dict[str, Any]:  # noqa: ANN401 - of the gates, which most runs do not load
    return {
        "attempts": [dict(attempt) for attempt in packet.attempts],
        "root_cause_hypothesis": list(packet.causes),
        "asked": list(packet.asked),
    }


def _relative(path: Path, root: Path) -> str:
    return os.fspath(path.relative_to(root)) if path.is_relative_to(root) else os.fspath(path)
