"""A run in the formats other tools read: JUnit XML and SARIF."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import reflectloop
from reflectloop import secrets
from reflectloop.engine.steps.execution import StepResult
from reflectloop.errors import ReflectloopError, published
from reflectloop.plan.model import Plan
from reflectloop.system import files
from reflectloop.system.patterns import lazy

# What XML 1.0 cannot hold, however it is escaped.
_NOT_XML = lazy("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(
    title: str, plan: Plan | None, steps: list[StepResult], error: ReflectloopError | None, duration_ms: int
) -> str:
    """Return JUnit XML: a case for each step and each check, and one for a run that could not begin."""
    suite = ET.Element("testsuite", name=clean(title), time=f"{duration_ms / 1000:.3f}")
    done = {step.id: step for step in steps}
    for step in plan.steps if plan else ():
        result = done.get(step.id)
        shown = case(suite, step.id, step.title, result.duration_ms if result else 0)
        if result is None:
            ET.SubElement(shown, "skipped", message="not run")
            continue
        if result.error_code:
            ET.SubElement(shown, "failure", type=result.error_code, message=clean(result.reason)).text = clean(
                result.tail
            )
        for check in result.checks:
            inner = case(suite, f"{step.id} check {check.name}", "", check.duration_ms)
            if not check.held:
                ET.SubElement(inner, "failure", type="VERIFICATION_FAILED", message=clean(check.reason))
    if error and not any(not step.success for step in steps):
        whole = case(suite, "run", "", duration_ms)
        faults = "\n".join(str(fault) for fault in error.faults)
        ET.SubElement(whole, "error", type=error.code, message=clean(error.message)).text = clean(faults)
    return counted(suite)


_COUNTS = (("tests", ".//testcase"), ("failures", ".//failure"), ("errors", ".//error"), ("skipped", ".//skipped"))


def counted(top: ET.Element) -> str:
    """Return the document as text, with the counts that readers expect on every suite."""
    for suite in (top, *top.iter("testsuite")):
        for kind, name in _COUNTS:
            suite.set(kind, str(len(suite.findall(name))))
    ET.indent(top)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(top, encoding="unicode") + "\n"


def case(suite: ET.Element, name: str, title: str, duration_ms: int) -> ET.Element:
    shown = f"{name}: {title}" if title else name
    return ET.SubElement(
        suite, "testcase", classname="reflectloop", name=clean(shown), time=f"{duration_ms / 1000:.3f}"
    )


def clean(text: str) -> str:
    return secrets.current_detector().redact(_NOT_XML.sub("\ufffd", text))


def cleaned(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with secrets redacted."""
    redacted: dict[str, Any] = json.loads(secrets.current_detector().redact(json.dumps(document)))
    return redacted


def pretty(document: dict[str, Any]) -> str:
    """Return a document as indented JSON, with secrets redacted."""
    return secrets.current_detector().redact(files.json_text(document)) + "\n"


def sarif(plan_path: str | None, steps: list[StepResult], error: ReflectloopError | None) -> str:
    results = []
    if error:
        results = [place(error.code, str(fault.message), plan_path, fault.line) for fault in error.faults]
        failed = [step for step in steps if not step.success]
        results += [
            place(step.error_code or error.code, f"step {step.id}: {step.reason}", plan_path, None) for step in failed
        ]
        if not results:
            results = [place(error.code, error.message, plan_path, None)]
    used = {result["ruleId"] for result in results}
    rules = [{"id": cls.code, "shortDescription": {"text": cls.when}} for cls in published() if cls.code in used]
    driver = {"name": "reflectloop", "version": reflectloop.__version__, "rules": rules}
    return as_sarif(driver, results)


def as_sarif(driver: dict[str, Any], results: list[dict[str, Any]]) -> str:
    return pretty(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, "results": results}],
        }
    )


def place(code: str, message: str, path: str | None, line: int | None, level: str = "error") -> dict[str, Any]:
    result: dict[str, Any] = {"ruleId": code, "level": level, "message": {"text": message}}
    if path:
        where: dict[str, Any] = {"artifactLocation": {"uri": path}}
        if line:
            where["region"] = {"startLine": line}
        result["locations"] = [{"physicalLocation": where}]
    return result
