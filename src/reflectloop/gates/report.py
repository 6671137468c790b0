"""The pipeline's report: Markdown for people, plain values for programs; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reflectloop.gates import decisions, proof
from reflectloop.gates.decisions import Gate, Ruling
from reflectloop.gates.pipeline import GateReport
from reflectloop.terms import Decision
from reflectloop.verification.verdict import Verdict

_MARKS = {Decision.PASS: "✅", Decision.SKIP: "⏭", Decision.RETRY: "🔁", Decision.ASK: "❓"}
_CHECKLIST = (
    ("Contract", ("contract",)),
    ("Boundaries and permissions", ("boundary", "role")),
    ("Security", ("security",)),
)


def data(report: GateReport, verdict: Verdict | None = None) -> dict[str, Any]:
    """Everything a program may want to know; `escalation` only where a limit or a rule stopped it."""
    ahead = decisions.follow(report.last)
    return {
        "task": report.title,
        "track": str(report.contract.track),
        "role": report.contract.role,
        "decision": str(report.decision),
        "surface": report.last.surface,
        "next": {"states": [str(state) for state in ahead.states], "words": ahead.words},
        "gates": [_gate(ruling) for ruling in _ordered(report)],
        "level": report.proof.level if report.proof else None,
        "why_level": report.proof.why if report.proof else None,
        "command": proof.command(verdict) or None,
        "result": proof.result(verdict) or None,
        "insight": _insight(report),
        "anchors": [_kept(one) for one in (report.stored.kept if report.stored else ())],
        "backtracks": [one._asdict() | {"gate": str(one.gate)} for one in report.backtracks],
        "warnings": list(report.warnings),
        "escalation": report.packet._asdict() if report.packet else None,
    }


def _ordered(report: GateReport) -> list[Ruling]:
    return sorted(report.rulings, key=lambda one: list(Gate).index(one.gate))


def _gate(ruling: Ruling) -> dict[str, Any]:
    return {
        "gate": str(ruling.gate),
        "sign": ruling.gate.sign,
        "decision": str(ruling.decision),
        "surface": ruling.surface,
        "retryable": ruling.retryable,
        "redo_from": ruling.redo_from or None,
        "backtrack_to": str(ruling.backtrack_to) if ruling.backtrack_to else None,
        "why_skipped": ruling.why_skipped or None,
        "reasons": [one._asdict() | {"decision": str(one.decision)} for one in ruling.reasons],
        "feedback": list(ruling.feedback),
    }


def _insight(report: GateReport) -> dict[str, Any] | None:
    found = report.insight
    if found is None:
        return None
    return {
        "grade": found.grade,
        "anchors": [one._asdict() for one in found.anchors],
        "rule_patches": [one._asdict() for one in found.patches],
        "unproven": list(found.unproven),
        "feedback": list(found.feedback),
    }


def _kept(one: Any) -> dict[str, Any]:  # noqa: ANN401 - a Kept
    return {"id": one.id, "kind": one.anchor.kind, "text": one.anchor.text, "seen": one.seen, "why": one.why}


# For people -------------------------------------------------------------------------------------------------------


def markdown(report: GateReport, verdict: Verdict | None = None) -> str:
    contract = report.contract
    lines = ["## Gate report", "", f"**Task**: {_cell(report.title)}", f"**Track**: {contract.track}"]
    lines += [f"**Role**: {contract.role}", f"**Decision**: {report.decision} ({report.last.surface})", ""]
    lines += ["### Gates", "", "| gate | status | details |", "|---|---|---|"]
    lines += [
        f"| {ruling.gate.sign} | {_status(ruling, report)} | {_cell(_details(ruling, report))} |"
        for ruling in _ordered(report)
    ]
    lines += _rules(report) + _proof(report, verdict) + _reflection(report) + _ways_back(report) + _packet(report)
    return "\n".join([*lines, ""])


def _status(ruling: Ruling, report: GateReport) -> str:
    level = f" ({report.proof.level})" if ruling.gate is Gate.PROOF and report.proof else ""
    own = "" if ruling.surface == ruling.decision else f" · {ruling.decision}"
    return f"{_MARKS.get(ruling.decision, '❌')} {ruling.surface}{own}{level}"


def _details(ruling: Ruling, report: GateReport) -> str:
    if ruling.reasons:
        return "; ".join(str(one) for one in ruling.reasons[:3])
    if ruling.why_skipped:
        return ruling.why_skipped
    if ruling.gate is Gate.PROOF and report.proof:
        return report.proof.why
    if ruling.gate is Gate.INSIGHT and report.insight:
        return f"grade {report.insight.grade}; {len(report.insight.anchors)} anchor(s)"
    if ruling.gate is Gate.STORE and report.stored:
        return ", ".join(f"[{one.id}]" for one in report.stored.kept) or "compact.md only: nothing passed the threshold"
    return "contract complete, within its bounds, nothing dangerous"


def _rules(report: GateReport) -> list[str]:
    ruling = next(one for one in report.rulings if one.gate is Gate.RULES)
    lines = ["", "#### 戒 rules", ""]
    for title, rooms in _CHECKLIST:
        bad = [one for one in ruling.reasons if one.rule.split(".")[0] in rooms]
        lines.append(f"- [{' ' if bad else 'x'}] {title}")
        lines += [f"  - {one.decision}: {_cell(str(one))}" for one in bad]
    return lines


def _proof(report: GateReport, verdict: Verdict | None) -> list[str]:
    if report.proof is None:
        return []
    lines = ["", "#### 定 proof", "", f"- **Evidence level**: {report.proof.level}, {report.proof.why}"]
    lines += (
        [f"- **Command**: `{proof.command(verdict)}`", f"- **Result**: {_cell(proof.result(verdict))}"]
        if verdict
        else []
    )
    return lines + [f"- {one.decision}: {_cell(str(one))}" for one in report.proof.ruling.reasons]


def _reflection(report: GateReport) -> list[str]:
    found = report.insight
    if found is None:
        return []
    kept = {one.anchor: one.id for one in report.stored.kept} if report.stored else {}
    lines = ["", "#### 慧 insight", "", f"- **Grade**: {found.grade}"]
    lines += [f"- **Anchor**: [{kept.get(one, one.kind)}] {_cell(one.text)}" for one in found.anchors]
    lines += [f"- **Unproven**: {_cell(text)}" for text in found.unproven]
    lines += [f"- **Feedback**: {_cell(text)}" for text in found.feedback]
    if not found.patches:
        return [*lines, "- **Rule patches**: none"]
    return lines + [
        f"- **Rule patch** ({one.priority}): {one.action} {one.target}: {_cell(one.rule)}; {_cell(one.reason)}"
        for one in found.patches
    ]


def _ways_back(report: GateReport) -> list[str]:
    if not report.backtracks:
        return []
    lines = ["", "### Backtracks", "", "| no. | back to | reason | result |", "|---|---|---|---|"]
    return lines + [
        f"| {one.number} | {one.gate.sign} | {_cell(one.reason)} | {one.result or 'stopped'} |"
        for one in report.backtracks
    ]


def _packet(report: GateReport) -> list[str]:
    if report.packet is None:
        return []
    lines = ["", "### Escalation", "", "| attempt | run | gate | decision | errors |", "|---|---|---|---|---|"]
    lines += [
        f"| {one['number']} | {one['run_id']} | {one['gate']} | {one['decision']} | {_cell(_errors(one['errors']))} |"
        for one in report.packet.attempts
    ]
    lines += ["", "Likely causes:", "", *(f"- {_cell(text)}" for text in report.packet.causes)]
    return [*lines, "", "Asked of you:", "", *(f"- {text}" for text in report.packet.asked)]


def _errors(found: object) -> str:
    return "; ".join(map(str, found)) if isinstance(found, Sequence) else str(found)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
