"""Read the JSON events of Dart's test runner."""

from __future__ import annotations

from typing import Any

from reflectloop.verification.reports import failure, identity
from reflectloop.verification.reports.report_builder import ReportBuilder
from reflectloop.verification.result import Outcome
from reflectloop.verification.tools.json_values import number_of, text_of


def read_events(events: list[dict[str, Any]]) -> ReportBuilder:
    report, names, errors, suites = ReportBuilder("dart"), {}, {}, {}  # type: ignore[var-annotated]
    done = False
    for event in events:
        kind = event.get("type")
        if kind == "suite" and isinstance(event.get("suite"), dict):
            suites[event["suite"].get("id")] = text_of(event["suite"].get("path"))
        elif kind == "testStart" and isinstance(event.get("test"), dict):
            names[event["test"].get("id")] = event["test"]
        elif kind == "error":
            errors.setdefault(event.get("testID"), (text_of(event.get("error")), text_of(event.get("stackTrace"))))
        elif kind == "testDone" and not (event.get("hidden") and event.get("result") == "success"):
            _add_test(report, event, names.pop(event.get("testID"), {}), errors, suites)
        elif kind == "done":
            done = True
    if not done:
        report.cut("it has no event for the end of the run")
    return report


def _add_test(
    report: ReportBuilder,
    event: dict[str, Any],
    test: dict[str, Any],
    errors: dict[Any, tuple[str, str]],
    suites: dict[Any, str],
) -> None:
    name = identity.plain(suites.get(test.get("suiteID"), ""), text_of(test.get("name")))
    result: Outcome = {"success": "passed", "failure": "failed"}.get(text_of(event.get("result")), "error")  # type: ignore[assignment]
    if event.get("skipped"):
        result = "skipped"
    problem = None
    if result in {"failed", "error"}:
        message, text = errors.get(event.get("testID"), ("", ""))
        problem = failure.detail(name, message, text, line=number_of(test.get("line")))
    report.test(name, result, problem)
