"""Run the four gates on one output: rules, proof, insight, retention; insight may send it back to the first two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from reflectloop.gates import attempt_limits
from reflectloop.gates.attempt_limits import EscalationPacket, GateAttempt
from reflectloop.gates.contract import Contract
from reflectloop.gates.decisions import SPENT, Gate, GateApproval, Ruling, make_ruling, outcome_word
from reflectloop.gates.insight import Insight, Remark
from reflectloop.gates.proof import GateProof
from reflectloop.gates.retention import RetentionResult
from reflectloop.terms import Decision, OutcomeWord, gravest
from reflectloop.verification.verdict import finding_id


class ChangeApprovals(NamedTuple):
    """A change by its trees, and the findings on it that a person approved: who, and why."""

    base_tree: str
    tree: str
    by_finding: Mapping[str, str] = {}

    def settle(self, ruling: Ruling) -> Ruling:
        """Give an id to what a person may approve; decide by what is left without what is approved."""
        standing, approved = [], list(ruling.approved)
        for reason in ruling.reasons:
            named = reason
            if reason.decision is Decision.ASK and not reason.finding:
                name = finding_id(self.base_tree, self.tree, reason.rule, reason.text)
                named = reason._replace(finding=name, finding_rule=reason.rule)
            if named.finding and named.finding in self.by_finding:
                approved.append(GateApproval(named, self.by_finding[named.finding]))
            else:
                standing.append(named)
        settled = make_ruling(ruling.gate, standing, self.base_tree)
        return settled._replace(feedback=ruling.feedback, approved=tuple(approved))


class GateStages(NamedTuple):
    """The four gates of one output, as the functions that run them."""

    check_rules: Callable[[], Ruling]
    prove: Callable[[int], GateProof]  # called with the number of backtracks; every call runs the checks again
    reflect: Callable[[GateProof], Insight]
    retain: Callable[[Insight | None], RetentionResult]
    skip_insight: str = ""  # why insight is skipped; empty if it is not


class Backtrack(NamedTuple):
    number: int
    gate: Gate
    reason: str
    result: str = ""


class GateReport(NamedTuple):
    """The latest ruling of every gate that was reached, and what each gate produced."""

    title: str
    contract: Contract
    rulings: tuple[Ruling, ...]
    proof: GateProof | None = None
    insight: Insight | None = None
    stored: RetentionResult | None = None
    backtracks: tuple[Backtrack, ...] = ()
    packet: EscalationPacket | None = None
    warnings: tuple[str, ...] = ()

    @property
    def last(self) -> Ruling:
        return self.rulings[-1]

    @property
    def outcome(self) -> OutcomeWord:
        return outcome_word(self.last)

    @property
    def approved(self) -> tuple[GateApproval, ...]:
        return tuple(item for ruling in self.rulings for item in ruling.approved)

    @property
    def approval_data(self) -> list[dict[str, str]]:
        return [
            {"finding": item.reason.finding, "text": item.reason.text, "approval": item.approval}
            for item in self.approved
        ]

    @property
    def decision(self) -> Decision:
        return Decision.PASS if self.last.decision.goes_on else self.last.decision


def run_gates(
    title: str, contract: Contract, stages: GateStages, past: Sequence[GateAttempt], run_id: str
) -> GateReport:
    """Run the gates in order and stop at the first that does not pass. `past` are the earlier attempts."""
    run = _GateRun(GateReport(title, contract, ()), stages, past)
    gate: Gate | None = Gate.RULES
    while gate:
        if gate is Gate.RULES and not run.check_rules():
            break
        proof = run.prove()
        if not run.passed:
            break
        gate = run.reflect(proof)
    if run.passed:
        run.retain()
    return _with_packet(run.report, past, run_id)


class _GateRun:
    def __init__(self, report: GateReport, stages: GateStages, past: Sequence[GateAttempt]) -> None:
        self.report, self.stages, self.past = report, stages, past

    @property
    def passed(self) -> bool:
        return self.report.last.decision.goes_on

    def check_rules(self) -> bool:
        self._add(self.stages.check_rules())
        return self.passed

    def prove(self) -> GateProof:
        proof = self.stages.prove(len(self.report.backtracks))
        self._update(proof=proof)
        self._add(proof.ruling)
        return proof

    def reflect(self, proof: GateProof) -> Gate | None:
        """Run insight; return the gate that the output goes back to, or None."""
        if self.stages.skip_insight:
            self._add(Ruling(Gate.INSIGHT, Decision.SKIP, why_skipped=self.stages.skip_insight))
            return None
        insight = self.stages.reflect(proof)
        self._update(insight=insight)
        ruling = Ruling(Gate.INSIGHT, Decision.PASS, feedback=_feedback(insight))
        if insight.backtrack and insight.back_to:
            return self._go_back(insight.back_to, insight.backtrack, ruling)
        self._close_backtrack("mended")
        self._add(ruling)
        return None

    def retain(self) -> None:
        self._update(stored=self.stages.retain(self.report.insight))
        self._add(Ruling(Gate.STORE, Decision.PASS))

    def _go_back(self, gate: Gate, remark: Remark, ruling: Ruling) -> Gate | None:
        """Record a backtrack; return its gate, or None if the limit of backtracks stops the output."""
        self._close_backtrack("not mended")
        number = len(self.report.backtracks) + 1
        self._update(backtracks=(*self.report.backtracks, Backtrack(number, gate, remark.text)))
        reasons = [backtrack.reason for backtrack in self.report.backtracks]
        warning = attempt_limits.backtrack_warning(self.past, reasons)
        if warning:
            self._update(warnings=(*self.report.warnings, warning))
        spent = attempt_limits.backtrack_limit_reason(self.past, reasons)
        if spent:
            self._add(attempt_limits.as_stop(ruling, spent))
            return None
        self._add(ruling._replace(backtrack_to=gate))
        return gate

    def _close_backtrack(self, result: str) -> None:
        if self.report.backtracks:
            *before, last = self.report.backtracks
            self._update(backtracks=(*before, last._replace(result=result)))

    def _add(self, ruling: Ruling) -> None:
        """Apply the limit of attempts to a ruling, and put it in place of the gate's earlier one."""
        ruling = attempt_limits.apply_limit(ruling, self.past)
        others = tuple(other for other in self.report.rulings if other.gate is not ruling.gate)
        self._update(rulings=(*others, ruling))

    def _update(self, **fields: object) -> None:
        self.report = self.report._replace(**fields)  # type: ignore[arg-type]


def _with_packet(report: GateReport, past: Sequence[GateAttempt], run_id: str) -> GateReport:
    """Add the escalation packet if the output was stopped."""
    if report.last.decision is not Decision.STOP:
        return report
    attempts = [*attempt_limits.since_pass(past), as_attempt(report, run_id)]
    return report._replace(packet=attempt_limits.escalation_packet(attempts, report.last))


def _feedback(insight: Insight) -> tuple[str, ...]:
    return (*insight.feedback, *(f"{patch.action} {patch.target}: {patch.reason}" for patch in insight.patches))


def as_attempt(report: GateReport, run_id: str) -> GateAttempt:
    """Return this run of the gates as the journal records it; a STOP by a limit counts as the failure behind it."""
    last = report.last
    reasons = [reason for reason in last.reasons if reason.rule != SPENT]
    stopped = last.decision is Decision.STOP and reasons
    decision = gravest(reason.decision for reason in reasons) if stopped else report.decision
    return GateAttempt(
        run_id,
        str(last.gate),
        str(decision),
        tuple(reason.text for reason in reasons),
        tuple(reason.rule for reason in reasons),
        len(report.backtracks),
        report.contract.root_cause or "",
        str(report.outcome),
    )
