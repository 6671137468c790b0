"""Writes what a run leaves for its readers: envelope, result, summary, card, receipt, JUnit and SARIF."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine import tasks
from reflectloop.engine.artifacts import publish, task_progress, usage
from reflectloop.engine.envelope import Envelope, of_error
from reflectloop.engine.folders import user_knowledge
from reflectloop.engine.run import junit_sarif, result_files
from reflectloop.engine.run.run_context import RunContext
from reflectloop.engine.run.steps import CANCELLED, StepResult
from reflectloop.errors import ReflectloopError, SecretLeak
from reflectloop.plan import load as plans
from reflectloop.sandbox import environment
from reflectloop.state import snapshot
from reflectloop.state.fold import Task
from reflectloop.system import clock, files
from reflectloop.verification import evidence


def envelope_of(line: RunContext) -> Envelope:
    stamp = clock.stamp(line.started)
    plain = of_error("run", stamp, line.error) if line.error else Envelope(command="run", timestamp=stamp, status="OK")
    written = [line.folder.envelope, line.folder.result, line.folder.summary, line.folder.junit, line.folder.sarif]
    proofs = [line.folder.path / name for name in (evidence.FILE, evidence.RECEIPT)]
    written += proofs if line.begun and not isinstance(line.error, SecretLeak) else []
    written += [line.folder.path / name for name in ("gates.md", "gates.json")] if line.gates else []
    written += [line.folder.blocker] if line.error else [line.folder.patch]
    plan = line.loaded
    return plain.model_copy(
        update={
            "artifacts_read": [_relative(plan.path, line.folders.root)] if plan else [],
            "artifacts_written": [_relative(path, line.folders.root) for path in written],
            "next": line.error.next_step if line.error else _next(line),
            "run_id": line.run_id,
            "plan_form": plan.form if plan else None,
            "plan_hash": plan.plan.hash if plan else None,
            "base_tree": line.space.base_tree if line.space else None,
            "isolation": line.stamp() if line.begun else None,
            "isolation_by": line.wall.by if line.begun else None,
            "sandbox_mode": line.project.mode if line.project else None,
            "evidence_level": line.level(),
            "duration_ms": line.elapsed_ms(),
            "warnings": list(dict.fromkeys(line.warnings)),
        }
    )


def _give_receipt(line: RunContext) -> None:
    """What was decided and what that rests on, for whoever was not here. A leak leaves none."""
    if not (line.begun and line.loaded and line.space) or isinstance(line.error, SecretLeak):
        return
    said = {
        "run_id": line.run_id,
        "decision": "PASS" if not line.error else str(line.gates.decision) if line.gates else "STOP",
        "level": line.level(),
        "track": str(line.loaded.plan.settled_track),
        "base_tree": line.space.base_tree,
        "tree": line.space.tree,
        "sealed_tree": line.verdict.sealed_tree if line.verdict else None,
        "plan_hash": line.loaded.plan.hash,
        "reasons": [secrets.current().redact(line.error.message)] if line.error else [],
        "finished": clock.stamp(clock.now()),
    }
    named = [path.name for path in (*line.folder.path.glob("plan.*"), line.folder.patch) if path.exists()]
    evidence.write_receipt(line.folder.path, line.chain(), said, named)


def _next(line: RunContext) -> str:
    return f"reflectloop apply {line.run_id}" if line.touched else "reflectloop status"


def write(line: RunContext, envelope: Envelope) -> None:
    plan = line.loaded.plan if line.loaded else None
    path = _relative(line.loaded.path, line.folders.root) if line.loaded else None
    asked = _asked_agents(line)
    body: dict[str, Any] = result_files.result_body(
        run_id=line.run_id,
        source_hash=line.loaded.source_hash if line.loaded else None,
        mode=line.project.mode if line.project else None,
        env_status=environment.status(line.config.run.env_allow, line.request.caller),
        steps=line.steps,
        error=line.error,
        folder=line.folder,
        touched=line.touched,
        cost=task_progress.cost(line.folders, asked) if asked else None,
    )
    title = plan.title if plan else "A run that could not begin"
    total = len(plan.steps) if plan else 0
    text = result_files.summary(
        envelope,
        title=title,
        steps=line.steps,
        total=total,
        touched=line.touched,
        error=line.error,
        cost=usage.table(asked) if asked else (),
    )
    result_files.write_yaml(line.folder.result, envelope, body)
    files.write_atomic(line.folder.summary, text)
    files.write_atomic(
        line.folder.junit, junit_sarif.junit(title, plan, line.steps, line.error, envelope.duration_ms or 0)
    )
    files.write_atomic(line.folder.sarif, junit_sarif.sarif(path or _asked_key(line), line.steps, line.error))
    card = _card(line, total) if line.error else None
    if card:
        result_files.write_yaml(line.folder.blocker, envelope, card)
    with line.tidying("what a receipt needs"):
        _give_receipt(line)
    # Last of ours: where the envelope stands, everything it names stands.
    result_files.write_yaml(line.folder.envelope, envelope)
    if publish.wanted(line.config.publish, path or _asked_key(line)):
        line.warnings += publish.attempt(line.folders, line.folder, envelope, body, card)


def _asked_agents(line: RunContext) -> Task | None:
    """The task as its journal says now, where agents were asked for it; most runs need not look."""
    plan = line.loaded.plan if line.loaded else None
    if not (line.begun and line.journal and plan) or not (line.by_requests or any(one.agent for one in plan.steps)):
        return None
    task = snapshot.load(line.journal.path.parent)
    return task if task.spent else None


def _asked_key(line: RunContext) -> str | None:
    """Where the plan would have been read from, had it been readable."""
    if line.request.plan:
        return tasks.plan_key(line.folders, line.request.plan)
    there = [place for place in plans.DISCOVERED if (line.folders.root / place).exists()]
    return str(there[0]) if there else None


def failure_of(line: RunContext) -> FailureRecord:
    from reflectloop.engine.failures import run_failure  # noqa: PLC0415 - a run that goes well needs no diagnosis

    assert line.error  # noqa: S101
    attempt = len(line.task.failures if line.task else []) + 1
    found = run_failure.of(line.error, _failed(line), attempt, line.config.reflect, line.folders.root)
    return run_failure.counted(found, _times_seen(line, found.signature))


def _failed(line: RunContext) -> StepResult | None:
    failed = [step for step in line.steps if not step.success]
    return next((step for step in failed if step.error_code != CANCELLED), failed[0] if failed else None)


def _times_seen(line: RunContext, signature: str) -> int:
    """In this task, with this time."""
    task = line.task
    told = task is not None and task.latch is not None and task.latch.run_id == line.run_id
    return len(task.met.get(signature, ()) if task else ()) + (not told)


def _known_fixes(line: RunContext, record: FailureRecord) -> list[dict[str, object]]:
    if not (line.folders.knowledge.is_dir() or user_knowledge().is_dir()):
        return []
    from reflectloop.engine.run import known_fixes  # noqa: PLC0415

    try:
        return known_fixes.known(line.folders, record)
    except (ReflectloopError, OSError) as fault:
        line.warnings.append(f"known fixes could not be looked up: {fault}")
        return []


def _card(line: RunContext, total: int) -> dict[str, Any]:
    assert line.error  # noqa: S101
    asked = line.loaded.path if line.loaded else line.request.plan
    history = line.task.failures if line.task else []
    record = line.failure or failure_of(line)
    line.known_fixes = _known_fixes(line, record)
    return result_files.blocker_body(
        line.error,
        at=line.started,
        run_id=line.run_id,
        plan=_relative(asked, line.folders.root) if asked else "PLAN",
        steps=line.steps,
        total=total,
        history=history,
        record=record,
        times_seen=_times_seen(line, record.signature),
        known_fixes=line.known_fixes,
    ) | (_escalation(line.gates.packet) if line.gates and line.gates.packet else {})


def _escalation(packet: Any) -> dict[str, Any]:  # noqa: ANN401 - the gates' own
    return {
        "attempts": [dict(one) for one in packet.attempts],
        "root_cause_hypothesis": list(packet.causes),
        "asked": list(packet.asked),
    }


def _relative(path: Path, root: Path) -> str:
    return os.fspath(path.relative_to(root)) if path.is_relative_to(root) else os.fspath(path)
