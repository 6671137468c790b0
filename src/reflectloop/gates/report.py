"""Render the report of the gates: Markdown for people, plain values for programs; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reflectloop.gates import decisions, proof
from reflectloop.gates.decisions import Gate, GateReason, Ruling
from reflectloop.gates.pipeline import GateReport
from reflectloop.terms import Decision, outcome_of
from reflectloop.verification.verdict import Verdict

_MARKS = {Decision.PASS: "✅", Decision.SKIP: "⏭", Decision.RETRY: "🔁", Decision.ASK: "❓"}
_CHECKLIST = (
    ("Contract", ("contract",)),
    ("Boundaries and permissions", ("boundary", "role")),
    ("Security", ("security",)),
)


def report_data(report: GateReport, verdict: Verdict | None = None) -> dict[str, Any]:
    """Return the report as JSON-compatible values; `escalation` is set only if a limit or a rule stopped the output."""
    effect = decisions.effect_of(report.last)
    return {
        "task": report.title,
        "track": str(report.contract.track),
        "role": report.contract.role,
        "decision": str(report.decision),
        "outcome": str(report.outcome),
        "approved": report.approval_data,
        "surface": report.last.surface,
        "next": {"states": [str(state) for state in effect.states], "words": effect.words},
        "gates": [_gate(ruling) for ruling in _ordered(report)],
        "level": report.proof.level if report.proof else None,
        "why_level": report.proof.why if report.proof else None,
        "command": proof.commands_text(verdict) or None,
        "result": proof.results_text(verdict) or None,
        "insight": _insight(report),
        "anchors": [_retained(retained) for retained in (report.stored.retained if report.stored else ())],
        "backtracks": [backtrack._asdict() | {"gate": str(backtrack.gate)} for backtrack in report.backtracks],
        "warnings": list(report.warnings),
        "escalation": report.packet._asdict() if report.packet else None,
    }


def _ordered(report: GateReport) -> list[Ruling]:
    return sorted(report.rulings, key=lambda ruling: list(Gate).index(ruling.gate))


def _gate(ruling: Ruling) -> dict[str, Any]:
    return {
        "gate": str(ruling.gate),
        "sign": ruling.gate.sign,
        "decision": str(ruling.decision),
        "outcome": str(decisions.outcome_word(ruling)),
        "surface": ruling.surface,
        "retryable": ruling.retryable,
        "redo_from": ruling.redo_from or None,
        "backtrack_to": str(ruling.backtrack_to) if ruling.backtrack_to else None,
        "why_skipped": ruling.why_skipped or None,
        "reasons": [reason._asdict() | {"decision": str(reason.decision)} for reason in ruling.reasons],
        "feedback": list(ruling.feedback),
    }


def _insight(report: GateReport) -> dict[str, Any] | None:
    insight = report.insight
    if insight is None:
        return None
    return {
        "grade": insight.grade,
        "anchors": [anchor._asdict() for anchor in insight.anchors],
        "rule_patches": [patch._asdict() for patch in insight.patches],
        "unproven": list(insight.unproven),
        "feedback": list(insight.feedback),
    }


def _retained(retained: Any) -> dict[str, Any]:  # noqa: ANN401 - a RetainedAnchor
    return {
        "id": retained.id,
        "kind": retained.anchor.kind,
        "text": retained.anchor.text,
        "seen": retained.occurrences,
        "why": retained.why,
    }


def report_markdown(report: GateReport, verdict: Verdict | None = None) -> str:
    contract = report.contract
    lines = ["## Gate report", "", f"**Outcome**: {report.outcome}", f"**Task**: {_cell(report.title)}"]
    lines += [f"**Track**: {contract.track}", f"**Role**: {contract.role}"]
    lines += [f"**Decision**: {report.decision} ({report.last.surface})", *_approvals(report), ""]
    lines += ["### Gates", "", "| gate | status | details |", "|---|---|---|"]
    lines += [
        f"| {ruling.gate.sign} | {_status(ruling, report)} | {_cell(_details(ruling, report))} |"
        for ruling in _ordered(report)
    ]
    lines += (
        _rules_section(report)
        + _proof_section(report, verdict)
        + _insight_section(report)
        + _backtracks(report)
        + _escalation_section(report)
    )
    return "\n".join([*lines, ""])


def _approvals(report: GateReport) -> list[str]:
    """Return the findings that wait for a person, and what people approved."""
    waiting = [reason for reason in report.last.reasons if reason.finding]
    lines = ["", "### Waits for a person", ""] if waiting else []
    lines += [f"- `{reason.finding}` {_cell(str(reason))}" for reason in waiting]
    lines += ["", "### Approved", ""] if report.approved else []
    return lines + [f"- {_cell(str(item))}" for item in report.approved]


def _status(ruling: Ruling, report: GateReport) -> str:
    level = f" ({report.proof.level})" if ruling.gate is Gate.PROOF and report.proof else ""
    decision = "" if ruling.surface == ruling.decision else f" · {ruling.decision}"
    word = "" if ruling.decision.goes_on else f"{decisions.outcome_word(ruling)} · "
    return f"{_MARKS.get(ruling.decision, '❌')} {word}{ruling.surface}{decision}{level}"


def _details(ruling: Ruling, report: GateReport) -> str:
    if ruling.reasons:
        return "; ".join(str(reason) for reason in ruling.reasons[:3])
    if ruling.why_skipped:
        return ruling.why_skipped
    if ruling.gate is Gate.PROOF and report.proof:
        return report.proof.why
    if ruling.gate is Gate.INSIGHT and report.insight:
        return f"grade {report.insight.grade}; {len(report.insight.anchors)} anchor(s)"
    if ruling.gate is Gate.STORE and report.stored:
        return (
            ", ".join(f"[{retained.id}]" for retained in report.stored.retained)
            or "compact.md only: nothing passed the threshold"
        )
    return "contract complete, within its boundaries, nothing dangerous"


def _rules_section(report: GateReport) -> list[str]:
    ruling = next(ruling for ruling in report.rulings if ruling.gate is Gate.RULES)
    lines = ["", "#### 戒 rules", ""]
    for title, kinds in _CHECKLIST:
        reasons = [reason for reason in ruling.reasons if reason.rule.split(".")[0] in kinds]
        lines.append(f"- [{' ' if reasons else 'x'}] {title}")
        lines += [f"  - {_word(reason)}: {_cell(str(reason))}" for reason in reasons]
    return lines


def _proof_section(report: GateReport, verdict: Verdict | None) -> list[str]:
    if report.proof is None:
        return []
    lines = ["", "#### 定 proof", "", f"- **Evidence level**: {report.proof.level}, {report.proof.why}"]
    lines += (
        [f"- **Command**: `{proof.commands_text(verdict)}`", f"- **Result**: {_cell(proof.results_text(verdict))}"]
        if verdict
        else []
    )
    return lines + [f"- {_word(reason)}: {_cell(str(reason))}" for reason in report.proof.ruling.reasons]


def _word(reason: GateReason) -> str:
    """Return the word for people, and the decision that programs read."""
    return f"{outcome_of([reason])} ({reason.decision})"


def _insight_section(report: GateReport) -> list[str]:
    insight = report.insight
    if insight is None:
        return []
    ids = {retained.anchor: retained.id for retained in report.stored.retained} if report.stored else {}
    lines = ["", "#### 慧 insight", "", f"- **Grade**: {insight.grade}"]
    lines += [f"- **Anchor**: [{ids.get(anchor, anchor.kind)}] {_cell(anchor.text)}" for anchor in insight.anchors]
    lines += [f"- **Unproven**: {_cell(text)}" for text in insight.unproven]
    lines += [f"- **Feedback**: {_cell(text)}" for text in insight.feedback]
    if not insight.patches:
        return [*lines, "- **Rule patches**: none"]
    return lines + [
        f"- **Rule patch** ({patch.priority}): {patch.action} {patch.target}: "
        f"{_cell(patch.rule)}; {_cell(patch.reason)}"
        for patch in insight.patches
    ]


def _backtracks(report: GateReport) -> list[str]:
    if not report.backtracks:
        return []
    lines = ["", "### Backtracks", "", "| no. | back to | reason | result |", "|---|---|---|---|"]
    return lines + [
        f"| {backtrack.number} | {backtrack.gate.sign} | {_cell(backtrack.reason)} | {backtrack.result or 'stopped'} |"
        for backtrack in report.backtracks
    ]


def _escalation_section(report: GateReport) -> list[str]:
    if report.packet is None:
        return []
    lines = ["", "### Escalation", "", "| attempt | run | gate | decision | errors |", "|---|---|---|---|---|"]
    lines += [
        f"| {attempt['number']} | {attempt['run_id']} | {attempt['gate']} | {attempt['decision']} "
        f"| {_cell(_errors(attempt['errors']))} |"
        for attempt in report.packet.attempts
    ]
    lines += ["", "Likely causes:", "", *(f"- {_cell(text)}" for text in report.packet.causes)]
    return [*lines, "", "Asked of you:", "", *(f"- {text}" for text in report.packet.asked)]


def _errors(errors: object) -> str:
    return "; ".join(map(str, errors)) if isinstance(errors, Sequence) else str(errors)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
