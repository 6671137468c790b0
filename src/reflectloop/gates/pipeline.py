"""An output on its way through the gates, in order, with the ways back; pure but for the stations it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from reflectloop.gates import attempt_limits
from reflectloop.gates.attempt_limits import EscalationPacket, GateAttempt
from reflectloop.gates.contract import Contract
from reflectloop.gates.decisions import SPENT, Gate, Ruling
from reflectloop.gates.insight import BACK, Insight
from reflectloop.gates.proof import GateProof
from reflectloop.gates.retention import RetentionResult
from reflectloop.terms import Decision, gravest


class GateStages(NamedTuple):
    """What each gate does here. `prove` is told how often it was sent back to, and runs anew."""

    examine: Callable[[], Ruling]
    prove: Callable[[int], GateProof]
    skip: Callable[[], str]
    reflect: Callable[[GateProof], Insight]
    store: Callable[[Insight | None], RetentionResult]


class Backtrack(NamedTuple):
    number: int
    gate: Gate
    reason: str
    result: str = ""


class GateReport(NamedTuple):
    """What came of it, gate by gate; gates that were not reached are not in it."""

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
    def decision(self) -> Decision:
        return Decision.PASS if self.last.decision.goes_on else self.last.decision


def walk(title: str, contract: Contract, stations: GateStages, past: Sequence[GateAttempt], run_id: str) -> GateReport:
    """From 戒 to 识. The first gate that does not let pass is the last one seen."""
    way = _Way(GateReport(title, contract, ()), stations, past, run_id)
    return way.go()


class _Way:
    def __init__(self, report: GateReport, stations: GateStages, past: Sequence[GateAttempt], run_id: str) -> None:
        self.report, self.stations, self.past, self.run_id = report, stations, past, run_id

    def go(self) -> GateReport:
        start: Gate | None = Gate.RULES
        while start is not None:
            if not self._passes(start):
                return self._stopped()
            start = self._look_again()
        if not self.report.last.decision.goes_on:
            return self._stopped()
        stored = self.stations.store(self.report.insight)
        self._add(Ruling(Gate.STORE, Decision.PASS))
        return self.report._replace(stored=stored)

    def _passes(self, start: Gate) -> bool:
        """戒, where it is to be begun there, and 定."""
        if start is Gate.RULES and not self._add(self.stations.examine()):
            return False
        proof = self.stations.prove(len(self.report.backtracks))
        self.report = self.report._replace(proof=proof)
        return self._add(proof.ruling)

    def _look_again(self) -> Gate | None:
        """慧: the gate that must look once more; None where none must, or no further way back is left."""
        why = self.stations.skip()
        if why:
            self._add(Ruling(Gate.INSIGHT, Decision.SKIP, why_skipped=why))
            return None
        proof = self.report.proof
        assert proof  # noqa: S101 - 定 let it pass
        insight = self.stations.reflect(proof)
        self.report = self.report._replace(insight=insight)
        if insight.backtrack is None:
            self._close_backtrack("mended")
            self._add(Ruling(Gate.INSIGHT, Decision.PASS, feedback=_feedback(insight)))
            return None
        return self._go_back(insight)

    def _go_back(self, insight: Insight) -> Gate | None:
        assert insight.backtrack  # noqa: S101
        gate, reason = BACK[insight.backtrack.kind], insight.backtrack.text
        assert gate  # noqa: S101 - else it would not be a way back
        self._close_backtrack("not mended")
        made = Backtrack(len(self.report.backtracks) + 1, gate, reason)
        self.report = self.report._replace(backtracks=(*self.report.backtracks, made))
        ruling = Ruling(Gate.INSIGHT, Decision.PASS, feedback=_feedback(insight), backtrack_to=gate)
        reasons = [one.reason for one in self.report.backtracks]
        warning = attempt_limits.warned(self.past, reasons)
        self.report = self.report._replace(warnings=(*self.report.warnings, *([warning] if warning else [])))
        spent = attempt_limits.spent_backtracks(self.past, reasons)
        if spent:
            self._add(attempt_limits.stopped(ruling._replace(backtrack_to=None), spent))
            return None
        self._add(ruling)
        return gate

    def _close_backtrack(self, result: str) -> None:
        if self.report.backtracks:
            *before, last = self.report.backtracks
            self.report = self.report._replace(backtracks=(*before, last._replace(result=result)))

    def _add(self, ruling: Ruling) -> bool:
        """The latest word of each gate counts; limits are looked at here and nowhere else."""
        ruling = attempt_limits.limited(ruling, self.past)
        others = tuple(one for one in self.report.rulings if one.gate is not ruling.gate)
        self.report = self.report._replace(rulings=(*others, ruling))
        return ruling.decision.goes_on

    def _stopped(self) -> GateReport:
        if self.report.last.decision is not Decision.STOP:
            return self.report
        every = [*attempt_limits.since_pass(self.past), attempt(self.report, self.run_id)]
        return self.report._replace(packet=attempt_limits.packet(every, self.report.last))


def _feedback(insight: Insight) -> tuple[str, ...]:
    return (*insight.feedback, *(f"{one.action} {one.target}: {one.reason}" for one in insight.patches))


def attempt(report: GateReport, run_id: str) -> GateAttempt:
    """This time, as the journal will keep it. What was stopped by a limit counts as what it was."""
    last = report.last
    said = [one for one in last.reasons if one.rule != SPENT]
    stopped = last.decision is Decision.STOP and said
    decision = gravest(one.decision for one in said) if stopped else report.decision
    return GateAttempt(
        run_id,
        str(last.gate),
        str(decision),
        tuple(one.text for one in said),
        tuple(one.rule for one in said),
        len(report.backtracks),
        report.contract.root_cause or "",
    )
