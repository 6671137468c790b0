"""Puts the change of a run through the gates, and the change of a batch through the quick gate."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from reflectloop.artifacts import next_command
from reflectloop.engine.gating import approvals, danger_policy, gate_pipeline, insight_lessons, verdict_export
from reflectloop.engine.gating.gate_pipeline import GatePipeline
from reflectloop.engine.run.context import ExecutedRun, JudgedRun, PreparedRun, extend
from reflectloop.engine.steps import syntax_tools
from reflectloop.gates import attempt_limits, batch_gate, decisions, insight
from reflectloop.gates import contract as contracts
from reflectloop.gates.attempt_limits import GateAttempt
from reflectloop.gates.batch_gate import SyntaxProblem
from reflectloop.gates.cooperation import RoleCall
from reflectloop.gates.decisions import Ruling
from reflectloop.gates.pipeline import ChangeApprovals
from reflectloop.gates.proof import ProofInput
from reflectloop.gates.rules import GateSubject
from reflectloop.plan import proof
from reflectloop.plan.model import Plan
from reflectloop.state import events, journal
from reflectloop.system.process import Cancel
from reflectloop.terms import Decision, Track
from reflectloop.verification.result import ChangedFile, DetectedCheck
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.verification.verdict import Verdict
from reflectloop.workspace import base_settings

SUBJECT = ""  # the whole change
# Which kinds of the project's own checks a plan's `verification` asks for.
_KINDS = {
    "lint": ("lint", "type"),
    "test": ("build", "test"),
    "build": ("build",),
    "custom": (),
    "none": (),
    None: ("build", "lint", "type", "test", "custom"),
}


# The four gates ----------------------------------------------------------------------------------------------------


def judge(run: ExecutedRun) -> JudgedRun:
    """Run all four gates. A change that does not pass leaves no patch to apply."""
    plan, trees = run.plan, _trees(run)
    changes = trees.changes(run.workspace.base_tree, run.workspace.tree)
    reading = contracts.contract_from_plan(plan, [change.path for change in changes])
    reason = run.request.retry_reason or attempt_limits.stated_cause(run.task.gated, run.run_id)
    if reason:
        reading = reading._replace(contract=reading.contract.model_copy(update={"root_cause": reason}))
    base, head = run.workspace.base_tree, run.workspace.tree
    source = approvals.source(run.folders.root, run.request.approve_file, run.request.caller)
    approved = source.known(base, head)
    verification = _Verification(run, trees, approved)
    pipeline = GatePipeline(
        run.run_id,
        plan.title,
        GateSubject(reading, changes, run.workspace.base_tree, may_change_protected=plan.may_change_protected),
        danger_policy.of(run.config, run.folders.root),
        lambda _again: verification.run(),
        attempt_limits.of_journal(run.task.gated, SUBJECT, but="" if run.is_stepwise else run.run_id),
        insight_lessons.remembered(run.folders),
        lambda: run.chain().records,
        plan,
        ChangeApprovals(base, head, approved),
        {step.id: step.duration_ms for step in run.results},
        run.request.jobs or plan.jobs,
        remarks=tuple(insight.Remark(kind, text) for kind, text in run.request.remarks),
        turns=_turns(run),
    )
    report = pipeline.walk()
    run.warnings.extend(report.warnings)
    run.warnings.extend(source.unused(base, head, [item.reason.finding for item in report.approved]))
    if not run.is_over and (run.is_stepwise or not _is_decided(run)):
        run.journal.append(gate_pipeline.event(report, run.run_id, SUBJECT))
    pipeline.write(report, run.folder.path, run.journal.path.parent)
    refusal = decisions.as_error(report.last, next_command.after_verdict(report.outcome, run.run_id))
    return extend(run, JudgedRun, gates=report, verdict=verification.verdict, refusal=refusal)


def _is_decided(run: ExecutedRun) -> bool:
    """Return whether an earlier engine journalled the decision of this run and died afterwards."""
    mine = (run.run_id, SUBJECT)
    decided = [
        decision
        for decision in run.task.gated
        if (decision["run_id"], decision["subject"]) == mine and "reopened" not in decision
    ]
    # A run that was opened again has no outcome until the gates judge it again.
    return bool(decided) and run.resume is not None and run.resume.run.outcome == decided[-1].get("outcome", "")


def _trees(run: PreparedRun) -> TreeBuilder:
    return TreeBuilder(run.store, run.folders.scratch, run.workspace.quarantine)


class _Verification:
    """The sealed verification of a run, made when the proof gate asks for it."""

    def __init__(self, run: ExecutedRun, trees: TreeBuilder, approved: Mapping[str, str]) -> None:
        self._run, self._trees, self._approved = run, trees, approved
        self.verdict: Verdict | None = None

    def run(self) -> ProofInput:
        """Return what the steps showed and, if the plan asks for it, what base and patch show in fresh workspaces."""
        run, plan = self._run, self._run.plan
        if not (run.is_stepwise or proof.is_verified(plan)):
            weakened = gate_pipeline.weakened(
                self._trees, run.workspace.base_tree, run.workspace.tree, plan.may_change_protected
            )
            return ProofInput(exits=True, tampering=weakened)
        self.verdict = verdict = self._verify()
        run.warnings.extend(verdict.notes)
        run.warnings.extend("\n    ".join(fault.lines()) for fault in verdict_export.check_faults(verdict))
        decided = run.resume is not None and run.resume.run.decision is not None
        if not run.is_over and (run.is_stepwise or not decided):
            run.journal.append(
                events.Judged(
                    run_id=run.run_id,
                    decision=str(verdict.decision),
                    level=verdict.level,
                    tree=verdict.tree,
                    sealed_tree=verdict.sealed_tree,
                )
            )
        return ProofInput(verdict=verdict, exits=True)

    def _verify(self) -> Verdict:
        # Imported here: detecting and sealing load a lot, and a plan with boundaries alone needs neither.
        from reflectloop.engine.gating import sealed_judgement  # noqa: PLC0415
        from reflectloop.engine.gating.sealed_environment import SealedEnvironment  # noqa: PLC0415
        from reflectloop.engine.gating.verify_command import checks_of_tree  # noqa: PLC0415
        from reflectloop.verification.sealed_trees import VerificationInput  # noqa: PLC0415

        run, plan = self._run, self._run.plan
        judging = base_settings.at_commit(run.project, run.base.commit)
        run.warnings.extend(base_settings.warning(judging, run.base.commit))
        settings = judging.config
        environment = SealedEnvironment(
            run.run_id,
            run.project,
            self._trees,
            settings,
            run.level,
            run.request.caller,
            run.sandbox_root,
            run.folders.own / "cache",
            run.folder.logs,
            run.observer,
        )
        base, head = run.workspace.base_tree, run.workspace.tree
        detected = checks_of_tree(settings, run.folders, self._trees, base)
        case = VerificationInput(
            base,
            head,
            detected if run.is_stepwise else _wanted(plan, detected),
            plan.settled_track if plan.settled_track is not Track.DIRECT else None,
            lifted=plan.may_change_protected,
            protect=settings.verify.protect,
            required=frozenset(check.name for check in settings.verify.checks),
            named=proof.final_checks(plan),
            criteria={f"{item.id} {item.text}".strip(): item.check for item in plan.acceptance},
            has_setup=bool(settings.verify.setup),
            approved=self._approved,
        )
        return sealed_judgement.judge(environment, case, run.chain(), run.base.commit, plan.hash)


def _turns(run: ExecutedRun) -> tuple[RoleCall, ...]:
    """Return the calls of agents in this task."""
    calls = (entry.event for entry in journal.read(run.journal.path))
    return tuple(
        RoleCall(call.role, call.agent, call.status, call.step_id or "", call.attempt)
        for call in calls
        if isinstance(call, events.AgentAsked)
    )


def _wanted(plan: Plan, detected: Iterable[DetectedCheck]) -> list[DetectedCheck]:
    """Return which of the project's own checks a plan asks for; a direct plan that names its own needs no others."""
    if plan.verification:
        kinds: Sequence[str] = _KINDS[plan.verification.mode]
    else:
        kinds = () if plan.settled_track is Track.DIRECT else _KINDS[None]
    return [check for check in detected if check.kind in kinds]


# The quick gate ----------------------------------------------------------------------------------------------------


def judge_batch(run: PreparedRun, steps: Sequence[str], before: str, after: str) -> None:
    """Run the quick gate on the change of a batch; raise unless the next batch may build on it."""
    plan, trees = run.plan, _trees(run)
    subject = f"batch {','.join(steps)}"
    changes = trees.changes(before, after)
    ruling = batch_gate.check_batch(
        changes,
        trees.listing(after),
        has_contract=bool(plan.title and plan.settled_track),
        start=before,
        by_tools=_problems_by_tools(run, changes, after),
    )
    if ruling.decision.goes_on:
        return
    past = attempt_limits.of_journal(run.task.gated, subject, but=run.run_id)
    run.journal.append(_batch_event(run.run_id, subject, ruling))
    limited = attempt_limits.apply_limit(ruling, past)
    error = decisions.as_error(
        limited, f"reflectloop redo {_step_at_fault(run, trees, steps, before, ruling)} --reason TEXT"
    )
    if error:
        error.message = f"{subject}: {error.message}"
        if limited.decision is Decision.STOP:
            texts, names = (
                tuple(reason.text for reason in ruling.reasons),
                tuple(reason.rule for reason in ruling.reasons),
            )
            this = GateAttempt(run.run_id, str(ruling.gate), str(ruling.decision), texts, names)
            error.packet = attempt_limits.escalation_packet([*attempt_limits.since_pass(past), this], limited)
        raise error


def _problems_by_tools(run: PreparedRun, changes: Sequence[ChangedFile], after: str) -> tuple[SyntaxProblem, ...]:
    """Return what compilers say about the syntax of the changed files; name the compilers that are missing."""
    if not syntax_tools.parsed_by_tools(changes):
        return ()
    run.workspace.reset_to(after)  # no step uses it between two batches
    with contextlib.closing(Cancel()) as cancel:
        report = syntax_tools.look(run.make_box(run.workspace, cancel), changes, run.folder.logs)
    run.warnings.extend(note for note in report.not_parsed if note not in run.warnings)
    return report.problems


def _step_at_fault(run: PreparedRun, trees: TreeBuilder, steps: Sequence[str], before: str, ruling: Ruling) -> str:
    """Return the step of a batch that wrote a file which a reason names; the last step if none is known to."""
    for result in run.results:
        if result.id not in steps or result.tree in ("", before):
            continue
        paths = [change.path for change in trees.changes(before, result.tree)]
        if any(reason.text.startswith(f"{path}:") for reason in ruling.reasons for path in paths):
            return result.id
    return steps[-1]


def _batch_event(run_id: str, subject: str, ruling: Ruling) -> events.GateDecided:
    return events.GateDecided(
        run_id=run_id,
        subject=subject,
        gate=str(ruling.gate),
        decision=str(ruling.decision),
        reasons=[reason.text for reason in ruling.reasons],
        rules=[reason.rule for reason in ruling.reasons],
    )
