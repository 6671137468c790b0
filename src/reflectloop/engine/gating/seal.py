"""What a plan must prove at the end of its run, and what its steps already showed."""

from __future__ import annotations

from collections.abc import Iterable

from reflectloop import secrets
from reflectloop.engine.run.steps import StepResult
from reflectloop.plan.model import Check, Plan
from reflectloop.plan.order import sequence
from reflectloop.terms import Track
from reflectloop.verification import evidence
from reflectloop.verification.evidence import Chain, EvidenceRecord


def is_asked(plan: Plan) -> bool:
    """On `direct` only where the plan names a verification or checks; else always."""
    if plan.verification:
        return plan.verification.mode != "none"
    return plan.settled_track is not Track.DIRECT or bool(final_checks(plan))


def is_judged(plan: Plan) -> bool:
    """Whether the gates have anything to look at: what is to be proven, or a boundary."""
    return is_asked(plan) or bool(plan.may_change or plan.must_not_change)


def final_checks(plan: Plan) -> dict[str, Check]:
    """The named checks that must hold in the end: not those last wanted red, nor what speaks of a step's output."""
    order = sequence({step.id: step.depends_on for step in plan.steps})
    steps = {step.id: step for step in plan.steps}
    last = {wanted.name: wanted.must_fail for name in order for wanted in plan.checks_of(steps[name])}
    return {name: check for name, check in plan.checks.items() if not last.get(name, False) and _stands_alone(check)}


def _stands_alone(check: Check) -> bool:
    return any((check.run is not None, check.file_exists, check.file_nonempty, check.file_unchanged))


def note_steps(chain: Chain, steps: Iterable[StepResult], base: str, plan_hash: str, isolation: str) -> None:
    """What the engine saw while the steps ran: their commands' exit codes, and their checks. L2, since not sealed."""
    for step in steps:
        seen = {"tree": step.tree, "base_tree": base, "plan_hash": plan_hash, "isolation": isolation}
        for fix in step.fixes:
            _add(
                chain,
                f"step {step.id}: {fix}",
                kind="fix",
                exit_code=None,
                duration_ms=0,
                output_sha256=evidence.digest_of(step.logs[0].parent / fix.log) if fix.log and step.logs else None,
                **seen,
            )
        for check in step.checks:
            _add(
                chain,
                f"check {check.name} in step {step.id}: {check.reason}",
                kind="check",
                exit_code=check.exit_code,
                duration_ms=check.duration_ms,
                output_sha256=evidence.digest_of(check.log) if check.log else None,
                **seen,
            )
        _add(
            chain,
            f"step {step.id}: " + (step.reason or f"its commands exited {step.exit_code}"),
            kind="exit",
            exit_code=step.exit_code,
            duration_ms=step.duration_ms,
            output_sha256=evidence.digest_of(step.logs[-1]) if step.logs else None,
            **seen,
        )


def _add(chain: Chain, claim: str, **seen: object) -> None:
    said = {"claim": secrets.current().redact(claim), "level": "L2", "command": (), "started": ""}
    chain.add(EvidenceRecord.model_validate({**said, **seen}))
