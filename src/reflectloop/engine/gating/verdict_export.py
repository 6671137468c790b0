"""A verdict in the formats other tools read: JUnit XML and SARIF."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import reflectloop
from reflectloop.engine.run import junit_sarif
from reflectloop.verification.result import VerificationResult
from reflectloop.verification.verdict import CheckComparison, Verdict

_LEVELS = {"weakening": "error", "suspect": "warning", "note": "note"}


def junit(found: Verdict) -> str:
    """A suite for every check with its tests as they came out sealed, and one case for the decision."""
    top = ET.Element("testsuites", name="reflectloop verify")
    for one in found.checks:
        _suite(top, one)
    suite = ET.SubElement(top, "testsuite", name="decision")
    case = junit_sarif.case(suite, str(found.track or "verification"), "", 0)
    if found.reasons:
        text = "\n".join(f"{reason.decision}: {reason.text}" for reason in found.reasons)
        ET.SubElement(
            case, "failure", type=str(found.decision), message=junit_sarif.clean(found.reasons[0].text)
        ).text = junit_sarif.clean(text)
    return junit_sarif.counted(top)


def _suite(top: ET.Element, one: CheckComparison) -> None:
    suite = ET.SubElement(top, "testsuite", name=one.check.name, time=f"{one.sealed.duration_ms / 1000:.3f}")
    if not one.sealed.tests:
        _mark(junit_sarif.case(suite, one.check.name, "", one.sealed.duration_ms), one.sealed)
    said = {detail.test: detail.error for detail in one.sealed.details if detail.test}
    for name, came in one.sealed.tests.items():
        case = junit_sarif.case(suite, name, "", 0)
        if came in ("failed", "error"):
            old = " (on base too)" if name in one.comparison.pre_existing else ""
            message = junit_sarif.clean(f"{said.get(name, came)}{old}")
            ET.SubElement(case, "failure" if came == "failed" else "error", message=message)
        elif came in ("skipped", "xfailed"):
            ET.SubElement(case, "skipped", message=came)


def _mark(case: ET.Element, result: VerificationResult) -> None:
    if not result.ok:
        ET.SubElement(case, "failure", type=result.type, message=junit_sarif.clean(result.summary))


def sarif(found: Verdict) -> str:
    """Findings about the patch, then what the checks complain about that is new."""
    results = [junit_sarif.place(one.rule, one.what, one.path, one.line, _LEVELS[one.grade]) for one in found.findings]
    for one in found.checks:
        new = set(one.comparison.newly_failing)
        results += [
            junit_sarif.place(detail.rule or one.check.name, detail.error, detail.file, detail.line)
            for detail in one.sealed.details
            if detail.test in new or (detail.test is None and not one.sealed.ok)
        ]
    return junit_sarif.as_sarif(_driver(results), results)


def _driver(results: list[dict[str, Any]]) -> dict[str, Any]:
    rules = [{"id": name} for name in sorted({one["ruleId"] for one in results})]
    return {"name": "reflectloop", "version": reflectloop.__version__, "rules": rules}
