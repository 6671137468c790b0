"""A run in the formats other tools read: JUnit XML and SARIF."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree as ET

import reflectloop
from reflectloop import secrets
from reflectloop.errors import ReflectloopError, published
from reflectloop.flow.steps import StepResult
from reflectloop.plan.model import Plan

# What XML 1.0 cannot hold, however it is escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(
    title: str, plan: Plan | None, steps: list[StepResult], error: ReflectloopError | None, duration_ms: int
) -> str:
    """One test suite: a case for each step and each check, and one for a run that could not begin."""
    suite = ET.Element("testsuite", name=_clean(title), time=f"{duration_ms / 1000:.3f}")
    done = {step.id: step for step in steps}
    for step in plan.steps if plan else ():
        result = done.get(step.id)
        case = _case(suite, step.id, step.title, result.duration_ms if result else 0)
        if result is None:
            ET.SubElement(case, "skipped", message="not run")
            continue
        if result.error_code:
            ET.SubElement(case, "failure", type=result.error_code, message=_clean(result.reason)).text = _clean(
                result.tail
            )
        for check in result.checks:
            inner = _case(suite, f"{step.id} check {check.name}", "", check.duration_ms)
            if not check.held:
                ET.SubElement(inner, "failure", type="VERIFICATION_FAILED", message=_clean(check.reason))
    if error and not any(not step.success for step in steps):
        case = _case(suite, "run", "", duration_ms)
        faults = "\n".join(str(fault) for fault in error.faults)
        ET.SubElement(case, "error", type=error.code, message=_clean(error.message)).text = _clean(faults)
    for kind, name in (
        ("tests", "testcase"),
        ("failures", ".//failure"),
        ("errors", ".//error"),
        ("skipped", ".//skipped"),
    ):
        suite.set(kind, str(len(suite.findall(name))))
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _case(suite: ET.Element, name: str, title: str, duration_ms: int) -> ET.Element:
    shown = f"{name}: {title}" if title else name
    return ET.SubElement(
        suite, "testcase", classname="reflectloop", name=_clean(shown), time=f"{duration_ms / 1000:.3f}"
    )


def _clean(text: str) -> str:
    return secrets.current().redact(_NOT_XML.sub("\ufffd", text))


def sarif(plan_path: str | None, steps: list[StepResult], error: ReflectloopError | None) -> str:
    results = []
    if error:
        results = [_finding(error.code, str(fault.message), plan_path, fault.line) for fault in error.faults]
        failed = [step for step in steps if not step.success]
        results += [
            _finding(step.error_code or error.code, f"step {step.id}: {step.reason}", plan_path, None)
            for step in failed
        ]
        if not results:
            results = [_finding(error.code, error.message, plan_path, None)]
    used = {found["ruleId"] for found in results}
    rules = [{"id": cls.code, "shortDescription": {"text": cls.when}} for cls in published() if cls.code in used]
    driver = {"name": "reflectloop", "version": reflectloop.__version__, "rules": rules}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return secrets.current().redact(json.dumps(document, indent=2)) + "\n"


def _finding(code: str, message: str, path: str | None, line: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {"ruleId": code, "level": "error", "message": {"text": message}}
    if path:
        place: dict[str, Any] = {"artifactLocation": {"uri": path}}
        if line:
            place["region"] = {"startLine": line}
        found["locations"] = [{"physicalLocation": place}]
    return found
