"""A verdict for other readers: JSON, the facts of a receipt, JUnit XML, SARIF, and why checks gave no result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import reflectloop
from reflectloop import secrets
from reflectloop.diagnosis.log_diagnosis import CheckFault, fault_of
from reflectloop.engine.run import junit_sarif
from reflectloop.system import clock
from reflectloop.terms import OutcomeWord, one_line
from reflectloop.verification.compare import NO_ANSWER
from reflectloop.verification.result import TamperFinding, VerificationResult
from reflectloop.verification.verdict import ApprovedReason, CheckComparison, Verdict, VerdictReason

_LEVELS = {"weakening": "error", "suspect": "warning", "note": "note"}
_MOST_FAILURES = 3


def as_data(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict as `verify --json` prints it."""
    return {
        "decision": str(verdict.decision),
        "outcome": str(verdict.outcome),
        "level": verdict.level,
        "provisional": verdict.provisional._asdict() if verdict.provisional else None,
        "track": str(verdict.track) if verdict.track else None,
        "reasons": [_reason_data(reason) for reason in verdict.reasons],
        "approved": [{**_reason_data(item.reason), "approval": item.approval} for item in verdict.approved],
        "findings": [finding._asdict() for finding in verdict.findings],
        "faults": [fault._asdict() for fault in check_faults(verdict)],
        "comparison": {name: list(names) for name, names in verdict.comparison._asdict().items()},
        "checks": [
            {
                "name": compared.check.name,
                "kind": compared.check.kind,
                "why": compared.check.reason,
                "left_out": compared.left_out or None,
                "base": _result(compared.base) if compared.base else None,
                "sealed": _result(compared.sealed),
            }
            for compared in verdict.checks
        ],
        "own_tests": [
            {
                "check": tests.check,
                "red_then_green": list(tests.red_then_green),
                "failing": list(tests.failing),
                "on_base": _result(tests.on_base),
                "on_patch": _result(tests.on_patch),
            }
            for tests in verdict.own
        ],
        "strength": verdict.strength._asdict() if verdict.strength else None,
        "named_checks": [check._asdict() for check in verdict.named],
        "base_tree": verdict.base_tree,
        "tree": verdict.tree,
        "sealed_tree": verdict.sealed_tree,
        "restored": list(verdict.restored),
    }


def _approval_data(item: ApprovedReason) -> dict[str, str]:
    return {"finding": item.reason.finding, "text": item.reason.text, "approval": item.approval}


def _reason_data(reason: VerdictReason) -> dict[str, Any]:
    return {
        "decision": str(reason.decision),
        "text": reason.text,
        "rule": reason.rule or None,
        "finding": reason.finding or None,
        "unjudged": reason.unjudged,
        "details": list(reason.details),
    }


def _result(result: Any) -> dict[str, Any]:  # noqa: ANN401
    """Without the outcome of every test: there may be thousands, and the comparison names those that matter."""
    data: dict[str, Any] = result.model_dump(mode="json", exclude={"tests"})
    return {**data, "details": data["details"][:50]}


def receipt_facts(verdict: Verdict, run_id: str) -> dict[str, Any]:
    """Return the facts of a receipt besides its hashes."""
    return {
        "run_id": run_id,
        "decision": str(verdict.decision),
        "outcome": str(verdict.outcome),
        "approvals": [_approval_data(item) for item in verdict.approved],
        "level": verdict.level,
        "provisional": bool(verdict.provisional),
        "track": str(verdict.track) if verdict.track else None,
        "base_tree": verdict.base_tree,
        "tree": verdict.tree,
        "sealed_tree": verdict.sealed_tree,
        "plan_hash": None,
        "switched_off": list(verdict.switched_off),
        "reasons": [secrets.current_detector().redact(reason.text) for reason in verdict.reasons],
        "finished": clock.stamp(clock.now()),
    }


def check_faults(verdict: Verdict) -> list[CheckFault]:
    """Return every check that gave no usable result, with the likely cause; empty for a PASS."""
    if verdict.outcome is OutcomeWord.PASS:
        return []
    results = [
        (judged.check.name, judged.sealed if judged.sealed.type in NO_ANSWER or not judged.base else judged.base)
        for judged in verdict.checks
        if not judged.left_out
    ]
    own = [(f"{tests.check}, tests of the patch", tests.on_patch) for tests in verdict.own]
    judged_alone = {name for name, result in results if result.type in NO_ANSWER}
    results += [
        (name, result) for name, result in own if result.type != "no_tests" and name.split(",")[0] not in judged_alone
    ]
    # The reason of a tampered run stands in the verdict; its log explains nothing.
    explained = [(name, result) for name, result in results if result.type != "tampered"]
    return [fault for name, result in explained if (fault := fault_of(name, result))]


def failure_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the message and the place of the first tests that the change breaks, and the log that has all of it."""
    runs = [(judged.comparison.newly_failing, judged.sealed) for judged in verdict.checks]
    runs += [(tests.failing, tests.on_patch) for tests in verdict.own]
    shown: set[str | None] = set()
    for names, result in runs:
        new = [detail for detail in result.details if detail.test in names and detail.test not in shown]
        shown.update(detail.test for detail in new)
        for detail in new[:_MOST_FAILURES]:
            place = f" ({detail.file}:{detail.line})" if detail.file and detail.line else ""
            yield one_line(f"{detail.test}: {detail.error}{place}")
        if new and result.log_path:
            yield f"log: {result.log_path}"


def junit(verdict: Verdict) -> str:
    """Return JUnit XML: a suite with the sealed results of each check, and one with the decision."""
    top = ET.Element("testsuites", name="reflectloop verify")
    for compared in verdict.checks:
        _suite(top, compared)
    suite = ET.SubElement(top, "testsuite", name="decision")
    case = junit_sarif.case(suite, str(verdict.track or "verification"), "", 0)
    if verdict.reasons:
        text = "\n".join(f"{reason.finding} {reason.text} ({reason.decision})".strip() for reason in verdict.reasons)
        message = junit_sarif.clean(f"{verdict.outcome}: {verdict.reasons[0].text}")
        failure = ET.SubElement(case, "failure", type=str(verdict.outcome), message=message)
        failure.text = junit_sarif.clean(text)
    if verdict.approved:
        text = "\n".join(f"approved: {item.reason.text}; {item.approval}" for item in verdict.approved)
        ET.SubElement(case, "system-out").text = junit_sarif.clean(text)
    return junit_sarif.counted(top)


def _suite(top: ET.Element, compared: CheckComparison) -> None:
    suite = ET.SubElement(top, "testsuite", name=compared.check.name, time=f"{compared.sealed.duration_ms / 1000:.3f}")
    if not compared.sealed.tests:
        _mark(junit_sarif.case(suite, compared.check.name, "", compared.sealed.duration_ms), compared.sealed)
    errors = {detail.test: detail.error for detail in compared.sealed.details if detail.test}
    for name, came in compared.sealed.tests.items():
        case = junit_sarif.case(suite, name, "", 0)
        if came in ("failed", "error"):
            old = " (on base too)" if name in compared.comparison.pre_existing else ""
            message = junit_sarif.clean(f"{errors.get(name, came)}{old}")
            ET.SubElement(case, "failure" if came == "failed" else "error", message=message)
        elif came in ("skipped", "xfailed"):
            ET.SubElement(case, "skipped", message=came)


def _mark(case: ET.Element, result: VerificationResult) -> None:
    if not result.ok:
        ET.SubElement(case, "failure", type=result.type, message=junit_sarif.clean(result.summary))


def sarif(verdict: Verdict) -> str:
    """Findings about the patch, then what the checks complain about that is new."""
    results = [_finding(finding, verdict) for finding in verdict.findings]
    for compared in verdict.checks:
        new = set(compared.comparison.newly_failing)
        results += [
            junit_sarif.place(detail.rule or compared.check.name, detail.error, detail.file, detail.line)
            for detail in compared.sealed.details
            if detail.test in new or (detail.test is None and not compared.sealed.ok)
        ]
    return junit_sarif.as_sarif(_driver(results), results)


def _finding(finding: TamperFinding, verdict: Verdict) -> dict[str, Any]:
    """Return a finding; its text begins with the outcome it leads to, and an approved one is suppressed."""
    shown = f"{finding.what} ({finding.rule})"
    waits = next((reason for reason in verdict.reasons if reason.finding and shown in reason.text), None)
    approved = next((item for item in verdict.approved if shown in item.reason.text), None)
    text = f"{OutcomeWord.REVIEW} {waits.finding}: {finding.what}" if waits else finding.what
    result = junit_sarif.place(finding.rule, text, finding.path, finding.line, _LEVELS[finding.grade])
    if approved:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": approved.approval}]
    return result


def _driver(results: list[dict[str, Any]]) -> dict[str, Any]:
    rules = [{"id": name} for name in sorted({result["ruleId"] for result in results})]
    return {"name": "reflectloop", "version": reflectloop.__version__, "rules": rules}
