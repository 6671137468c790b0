"""The last part of a run: its change before the gates; and the quick gate between batches. Imported when needed."""

from __future__ import annotations

from collections.abc import Sequence

from reflectloop.engine.gating import danger_policy, gate_pipeline, insight_lessons, seal
from reflectloop.engine.gating.gate_pipeline import GatePipeline
from reflectloop.engine.run.run_context import RunContext
from reflectloop.errors import ReflectloopError
from reflectloop.gates import attempt_limits, batch_gate, decisions
from reflectloop.gates import contract as contracts
from reflectloop.gates.decisions import Gate, Ruling
from reflectloop.gates.pipeline import GateReport
from reflectloop.gates.proof import ProofInput
from reflectloop.gates.rules import GateSubject
from reflectloop.plan.model import Plan
from reflectloop.state import events
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tree_builder import TreeBuilder

SUBJECT = ""  # the whole change


def refuse_incomplete(plan: Plan) -> None:
    """Before anything runs: what the plan must say and does not, no work can make good."""
    ruling = decisions.settle(Gate.RULES, contracts.complete(contracts.of_plan(plan, ())))
    error = decisions.as_error(ruling, "correct the plan, then: reflectloop plan check PLAN")
    if error:
        raise error


def judge(line: RunContext) -> ReflectloopError | None:
    """All four gates; what does not pass leaves no patch to apply."""
    assert line.loaded and line.space and line.journal and line.base  # noqa: S101, PT018
    plan, trees = line.loaded.plan, _trees(line)
    changes = _changes(line, trees)
    said = contracts.of_plan(plan, [change.path for change in changes])
    if line.request.retry_reason:
        cause = {"root_cause": line.request.retry_reason}
        said = said._replace(contract=said.contract.model_copy(update=cause))
    gated = line.task.gated if line.task else []
    way = GatePipeline(
        line.run_id,
        plan.title,
        GateSubject(said, changes, line.space.base_tree, lifted=plan.may_change_protected),
        danger_policy.of(line.config, line.folders.root),
        lambda _again: _see(line, plan, trees),
        gate_pipeline.attempts(gated, SUBJECT, but="" if line.by_requests else line.run_id),
        insight_lessons.remembered(line.folders),
        lambda: line.chain().records,
        plan,
        {step.id: step.duration_ms for step in line.steps},
        line.request.jobs or plan.jobs,
    )
    line.gates = made = way.walk()
    line.warnings += made.warnings
    _write_down(line, made)
    way.write(made, line.folder.path, line.journal.path.parent)
    return decisions.as_error(made.last, f"reflectloop receipt show {line.run_id}")


def _changes(line: RunContext, trees: TreeBuilder) -> list[ChangedFile]:
    assert line.space  # noqa: S101
    return trees.changes(line.space.base_tree, line.space.tree)


def _trees(line: RunContext) -> TreeBuilder:
    assert line.store and line.space  # noqa: S101, PT018
    return TreeBuilder(line.store, line.folders.scratch, line.space.quarantine)


def _write_down(line: RunContext, made: GateReport) -> None:
    """Once, also where an earlier engine came as far as this and died."""
    assert line.journal  # noqa: S101
    known = [one for one in (line.task.gated if line.task else ()) if one["run_id"] == line.run_id]
    said = any(one["subject"] == SUBJECT for one in known) and not line.by_requests  # which come as often as they like
    if not line.over and not said:
        line.journal.append(gate_pipeline.event(made, line.run_id, SUBJECT))


def _see(line: RunContext, plan: Plan, trees: TreeBuilder) -> ProofInput:
    """What the steps showed, and, where the plan asks for it, base and patch in workspaces no step ever touched."""
    assert line.project and line.space and line.base and line.journal  # noqa: S101, PT018
    if not (line.by_requests or seal.is_asked(plan)):
        return ProofInput(exits=True, weakened=gate_pipeline.weakened(_changes(line, trees), plan.may_change_protected))
    # Here, and not above: detecting and sealing load a lot, and bounds alone need neither.
    from reflectloop.engine.gating import sealing  # noqa: PLC0415
    from reflectloop.engine.gating import verify_command as verifying  # noqa: PLC0415
    from reflectloop.verification.check_runner import CheckProgress  # noqa: PLC0415

    stage = verifying.SealedEnvironment(
        line.run_id,
        line.project,
        trees,
        line.config,
        line.wall,
        line.request.caller,
        line.root,
        line.folders.own / "cache",
        line.folder.logs,
        CheckProgress(lambda name, words: line.observer.command("verify", f"{name} {words}"), line.observer.output),
    )
    line.verdict = found = sealing.judge(
        stage,
        plan,
        line.space.base_tree,
        line.space.tree,
        line.chain(),
        line.base.commit,
        whole=line.by_requests,
    )
    line.warnings += found.notes
    if not line.over and (line.by_requests or not (line.point and line.point.run.decision)):
        line.journal.append(
            events.Judged(
                run_id=line.run_id,
                decision=str(found.decision),
                level=found.level,
                tree=found.tree,
                sealed_tree=found.sealed_tree,
            )
        )
    return ProofInput(verdict=found, exits=True)


def between(line: RunContext, steps: Sequence[str], before: str, after: str) -> None:
    """The quick gate on what a batch came to. The next one begins on PASS only."""
    assert line.loaded and line.journal  # noqa: S101, PT018
    plan, trees = line.loaded.plan, _trees(line)
    has_contract = bool(plan.title and plan.settled_track)
    subject = f"batch {','.join(steps)}"
    ruling = batch_gate.look(
        trees.changes(before, after), trees.listing(after), has_contract=has_contract, start=before
    )
    if ruling.decision.goes_on:
        return
    past = gate_pipeline.attempts(line.task.gated if line.task else (), subject, but=line.run_id)
    line.journal.append(_quick_event(line, subject, ruling))
    error = decisions.as_error(attempt_limits.limited(ruling, past), f"reflectloop redo {steps[-1]} --reason TEXT")
    if error:
        error.message = f"{subject}: {error.message}"
        raise error


def _quick_event(line: RunContext, subject: str, ruling: Ruling) -> events.GateDecided:
    return events.GateDecided(
        run_id=line.run_id,
        subject=subject,
        gate=str(ruling.gate),
        decision=str(ruling.decision),
        reasons=[one.text for one in ruling.reasons],
        rules=[one.rule for one in ruling.reasons],
    )
