"""Adds what the engine saw while steps ran to the evidence chain: exit codes, checks, fixes (L2: not sealed)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from reflectloop import secrets
from reflectloop.engine.steps.execution import StepResult
from reflectloop.verification import evidence
from reflectloop.verification.evidence_chain import Chain, EvidenceRecord


def note_steps(chain: Chain, steps: Iterable[StepResult], base: str, plan_hash: str, isolation: str) -> None:
    def log_of(path: Path | None) -> dict[str, str | None]:
        return evidence.log_of(path, chain.path.parent)

    for step in steps:
        seen: dict[str, object] = {"tree": step.tree, "base_tree": base, "plan_hash": plan_hash, "isolation": isolation}
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
                exit_code=check.exit_code,
                duration_ms=check.duration_ms,
                **log_of(check.log),
                **seen,
            )
        _add(
            chain,
            f"step {step.id}: " + (step.reason or f"its commands exited {step.exit_code}"),
            kind="exit",
            exit_code=step.exit_code,
            duration_ms=step.duration_ms,
            **log_of(step.logs[-1] if step.logs else None),
            **seen,
        )


def _add(chain: Chain, claim: str, **seen: object) -> None:
    record = {"claim": secrets.current_detector().redact(claim), "level": "L2", "command": (), "started": ""}
    chain.add(EvidenceRecord.model_validate({**record, **seen}))
