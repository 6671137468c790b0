"""Read the JSON events of cargo: outcomes of tests, and messages of the compiler."""

from __future__ import annotations

from typing import Any

from reflectloop.system.patterns import lazy
from reflectloop.verification.reports import failure, report_builder
from reflectloop.verification.reports.report_builder import ReportBuilder
from reflectloop.verification.result import Outcome
from reflectloop.verification.tools.json_values import number_of, text_of

_LINE = lazy(r" \(line \d+\)(?: - compile)?$")  # of an example in documentation
_OUTCOMES: dict[str, Outcome] = {"ok": "passed", "failed": "failed", "ignored": "skipped", "timeout": "failed"}


def read_tests(events: list[dict[str, Any]]) -> ReportBuilder:
    report = ReportBuilder("cargo")
    for event in events:
        outcome = _OUTCOMES.get(text_of(event.get("event")))
        if event.get("type") != "test" or outcome is None:
            continue
        name = _LINE.sub("", text_of(event.get("name")))
        text = text_of(event.get("stdout")) or text_of(event.get("message"))
        report.test(name, outcome, failure.detail(name, "", text) if outcome == "failed" else None)
    ended = [event for event in events if event.get("type") == "suite" and event.get("event") != "started"]
    if not ended:
        report.cut("no suite ended")
    return report


def read_messages(events: list[dict[str, Any]]) -> ReportBuilder:
    report = ReportBuilder("cargo", "build")
    for event in events:
        message = event.get("message")
        if event.get("reason") == "compiler-message" and isinstance(message, dict):
            _message(report, message)
    if any("clippy::" in (item.rule or "") for item in report.details):
        report.tool, report.kind = "clippy", "lint"
    return report


def _message(report: ReportBuilder, message: dict[str, Any]) -> None:
    spans = [item for item in message.get("spans") or [] if isinstance(item, dict)]
    span = next((item for item in spans if item.get("is_primary")), spans[0] if spans else None)
    code = message.get("code")
    if span is None and not code:
        return  # the totals at the end
    report.issue(
        report_builder.detail(
            text_of(message.get("message")),
            file=text_of(span.get("file_name")) if span else None,
            line=number_of(span.get("line_start")) if span else None,
            column=number_of(span.get("column_start")) if span else None,
            context=text_of(message.get("rendered")),
            rule=text_of(code.get("code")) if isinstance(code, dict) else None,
            grade=report_builder.severity(message.get("level")),
        )
    )
