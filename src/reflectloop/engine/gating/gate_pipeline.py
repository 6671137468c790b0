"""An output's way through the gates, with what they need from the disk; shared by `run` and `gate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reflectloop import languages, secrets
from reflectloop.engine.gating import insight_lessons, verdict_export
from reflectloop.engine.gating.insight_lessons import COMPACT, AnchorLessons
from reflectloop.engine.run import junit_sarif
from reflectloop.gates import insight, pipeline, proof, report, retention, rules
from reflectloop.gates.attempt_limits import GateAttempt
from reflectloop.gates.contract import Citation, Contract
from reflectloop.gates.cooperation import RoleCall
from reflectloop.gates.decisions import GateReason
from reflectloop.gates.insight import Background, Insight, Remark
from reflectloop.gates.pipeline import ChangeApprovals, GateReport, GateStages
from reflectloop.gates.proof import GateProof, ProofInput
from reflectloop.gates.retention import RetentionResult
from reflectloop.gates.rules import DangerPolicy, GateSubject
from reflectloop.plan.globs import matches_any as is_named
from reflectloop.plan.model import Plan
from reflectloop.rule_proposals import rule_patches
from reflectloop.state import events
from reflectloop.system import files
from reflectloop.terms import Track
from reflectloop.verification import tampering, verdict
from reflectloop.verification.evidence_chain import EvidenceRecord
from reflectloop.verification.tampering.powers import patched_files
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace.generated_files import HEAD

PAGE, DATA = "gates.md", "gates.json"
_ASKED_ALWAYS = frozenset(("new-power", "unread", "knows-the-test"))  # a person decides, though nothing is run


@dataclass
class GatePipeline:
    """`see` lets the engine run what proves the output; it is told how often it was sent back for more."""

    run_id: str
    title: str
    output: GateSubject
    judges: DangerPolicy
    see: Callable[[int], ProofInput]
    past: Sequence[GateAttempt]
    memory: AnchorLessons
    records: Callable[[], Sequence[EvidenceRecord]] = list
    plan: Plan | None = None
    approvals: ChangeApprovals = field(default_factory=lambda: ChangeApprovals("", ""))
    durations_ms: Mapping[str, int] = field(default_factory=dict)
    jobs: int = 1
    seen: ProofInput = field(default_factory=ProofInput)
    remarks: Sequence[Remark] = ()  # by a reviewer; each sends the output back once
    turns: Sequence[RoleCall] = ()  # the calls of agents

    @property
    def contract(self) -> Contract:
        return self.output.reading.contract

    def walk(self) -> GateReport:
        stages = GateStages(
            lambda: self.approvals.settle(rules.check_rules(self.output, self.judges)),
            self._prove,
            self._reflect,
            self._store,
            "" if self.remarks else insight.skip_reason(self.contract, self.output.changes),
        )
        return pipeline.run_gates(self.title, self.contract, stages, self.past, self.run_id)

    def _prove(self, again: int) -> GateProof:
        self.seen = self.see(again)
        if self.contract.track is Track.REFACTOR:
            from reflectloop.gates import api  # noqa: PLC0415 - only refactorings need it

            breaks = (*api.breaking_changes(self.output.changes), *api.additions(self.output.changes))
            self.seen = self.seen._replace(breaks=breaks)
        proven = proof.check_proof(self.contract, self.seen, self.output.start)
        return proven._replace(ruling=self.approvals.settle(proven.ruling))

    def _reflect(self, proven: GateProof) -> Insight:
        remarks, self.remarks = insight.next_remarks(self.remarks)
        return insight.reflect(
            Background(
                self.contract,
                self.output.changes,
                proven,
                self.seen.verdict,
                self.records(),
                self.past,
                self.plan,
                self.durations_ms,
                self.jobs,
                self.seen.breaks,
                remarks,
                self.turns,
            )
        )

    def _store(self, seen: Insight | None) -> RetentionResult:
        sifted = self.memory.sift(seen.anchors if seen else (), self.run_id)
        insight_lessons.keep(self.memory, sifted, self.run_id)
        return sifted

    # What is left on disk -----------------------------------------------------------------------------------------

    def write(self, made: GateReport, folder: Path, task: Path) -> dict[str, Any]:
        """Write the report beside the run's other artifacts, and the page of the task."""
        data = report.report_data(made, self.seen.verdict)
        files.write_atomic(folder / DATA, junit_sarif.pretty(data))
        page = report.report_markdown(made, self.seen.verdict) + _faults_text(self.seen.verdict)
        files.write_atomic(folder / PAGE, secrets.current_detector().redact(languages.document(page)))
        if made.insight and made.insight.patches:
            rule_patches.keep(self.memory.lesson_dir.folder, folder, made.insight.patches)
        facts = {
            "run": self.run_id,
            "track": str(self.contract.track),
            "decision": str(made.decision),
            "evidence": made.proof.level if made.proof else "",
            "changed": ", ".join(self.output.paths[:10]),
            "why": str(made.last.reasons[0]) if made.last.reasons else "",
            "next": str(data["next"]["words"]),
        }
        page = retention.compact_page(
            self.title, facts, made.insight, made.stored.retained if made.stored else (), HEAD
        )
        files.write_atomic(task / COMPACT, secrets.current_detector().redact(languages.document(page)))
        return data


def _faults_text(judged: verdict.Verdict | None) -> str:
    """Return the section about checks that gave no usable result; empty if all did."""
    faults = verdict_export.check_faults(judged) if judged else []
    lines = [line for fault in faults for line in fault.lines()]
    return "\n".join(["", "## Checks without a result", "", "```text", *lines, "```", ""]) if lines else ""


# The journal's side of it -----------------------------------------------------------------------------------------


def event(made: GateReport, run_id: str, subject: str) -> events.GateDecided:
    """Return the journal event. A failure that a limit turned into a STOP is recorded as that failure."""
    tried = pipeline.as_attempt(made, run_id)
    clean = secrets.current_detector().redact
    return events.GateDecided(
        run_id=run_id,
        subject=subject,
        gate=tried.gate,
        decision=tried.decision,
        level=made.proof.level if made.proof else None,
        reasons=[clean(text) for text in tried.reasons],
        rules=list(tried.rules),
        backtracks=[{"gate": str(backtrack.gate), "reason": clean(backtrack.reason)} for backtrack in made.backtracks],
        insight=made.insight is not None,
        cause=clean(tried.cause),
        outcome=tried.outcome,
    )


def weakened(trees: TreeBuilder, base_tree: str, tree: str, lifted: Sequence[str] = ()) -> list[GateReason]:
    """Return a reason for each weakened test or setting and each new power of a direct change."""
    look = tampering.look(trees.changes(base_tree, tree), project=patched_files(trees, tree))
    findings = [finding for finding in look if finding.grade == "weakening" or finding.rule in _ASKED_ALWAYS]
    freed = [finding.path for finding in findings if is_named(finding.path, lifted)]
    return [
        GateReason(reason.decision, "weakening", reason.text, finding=reason.finding, finding_rule=reason.rule)
        for reason in verdict.identified(verdict.of_findings(findings, freed), base_tree, tree)
    ]


def says_so(citation: Citation, read: Callable[[str], bytes | None]) -> bool:
    """Return whether a cited line exists and holds the cited text."""
    content = read(citation.file.removeprefix("./"))
    lines = content.decode("utf-8", "replace").splitlines() if content is not None else []
    if citation.line > len(lines):
        return False
    wanted = " ".join(citation.says.split())
    return bool(wanted) and wanted in " ".join(lines[citation.line - 1].split())
