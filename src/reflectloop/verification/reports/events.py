"""Read test results written as JSON, one event per line: go, cargo, libtest, dart, pytest's report log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reflectloop.verification.reports import failure, identity, report_builder
from reflectloop.verification.reports.find_json import number_of, text_of
from reflectloop.verification.reports.report_builder import COLLECTION, ReportBuilder
from reflectloop.verification.result import Outcome, ReportReading

_Events = list[dict[str, Any]]
_GO: dict[str, Outcome] = {"pass": "passed", "fail": "failed", "skip": "skipped"}
_LIBTEST: dict[str, Outcome] = {"ok": "passed", "failed": "failed", "ignored": "skipped", "timeout": "failed"}
_MOST_OUTPUT = 400  # lines stored per test


def read(events: _Events, *, cut: bool) -> ReportReading | None:
    for fits, reader in _READERS:
        if any(fits(event) for event in events[:400]):
            report = reader(events)
            if cut:
                report.cut("its last line is incomplete")
            return report.reading() if report.kind == "test" else report.reading(None)
    return None


def _go(events: _Events) -> ReportBuilder:
    report = ReportBuilder("go")
    output: dict[str, list[str]] = {}
    begun: dict[str, str] = {}
    broken: set[str] = set()  # packages with a failed test
    for event in events:
        package, test, action = text_of(event.get("Package")), text_of(event.get("Test")), event.get("Action")
        name = identity.plain(package, test) if test else package or text_of(event.get("ImportPath"))
        if action in {"output", "build-output"}:
            lines = output.setdefault(name, [])
            if len(lines) < _MOST_OUTPUT:
                lines.append(text_of(event.get("Output")))
        elif action == "run":
            begun[name] = package
        elif action in _GO and test:
            begun.pop(name, None)
            bad = action == "fail"
            broken |= {package} if bad else set()
            text = "".join(output.pop(name, []))
            report.test(name, _GO[action], failure.detail(name, "", _go_text(text)) if bad else None)
        elif action in {"fail", "build-fail"} and package not in broken:
            _go_package(report, package or name, event, output)
    for name, package in begun.items():  # started but never finished
        report.test(
            name, "error", failure.detail(name, "it did not end", "".join(output.get(name) or output.get(package, [])))
        )
    _without_parents(report)
    return report


def _go_text(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(("=== ", "--- ")))


def _go_package(report: ReportBuilder, package: str, event: dict[str, Any], output: dict[str, list[str]]) -> None:
    """Record a package that failed although none of its tests did: the build failed or the test program crashed."""
    built = event.get("FailedBuild") or event.get("ImportPath")
    text = "".join(output.get(text_of(built), []) + output.get(package, []))
    if "[build failed]" in text or "[setup failed]" in text or built:
        report.collected = False
        report.kind = "build"
    if event.get("Action") == "fail" and package not in report.tests:
        report.test(package, "error", failure.detail(package, "", text, rule=None if report.collected else COLLECTION))


def _without_parents(report: ReportBuilder) -> None:
    """Drop the details of tests that failed only because a subtest did."""
    parents = identity.parents(name for name, outcome in report.tests.items() if outcome == "failed")
    report.details = [item for item in report.details if item.test not in parents or item.line]


def _libtest(events: _Events) -> ReportBuilder:
    report = ReportBuilder("cargo")
    for event in events:
        outcome = _LIBTEST.get(text_of(event.get("event")))
        if event.get("type") != "test" or outcome is None:
            continue
        name = text_of(event.get("name"))
        text = text_of(event.get("stdout")) or text_of(event.get("message"))
        report.test(name, outcome, failure.detail(name, "", text) if outcome == "failed" else None)
    ended = [event for event in events if event.get("type") == "suite" and event.get("event") != "started"]
    if not ended:
        report.cut("no suite ended")
    return report


def _cargo(events: _Events) -> ReportBuilder:
    report = ReportBuilder("cargo", "build")
    for event in events:
        message = event.get("message")
        if event.get("reason") == "compiler-message" and isinstance(message, dict):
            _rustc(report, message)
    if any("clippy::" in (item.rule or "") for item in report.details):
        report.tool, report.kind = "clippy", "lint"
    return report


def _rustc(report: ReportBuilder, message: dict[str, Any]) -> None:
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


def _dart(events: _Events) -> ReportBuilder:
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
            _dart_test(report, event, names.pop(event.get("testID"), {}), errors, suites)
        elif kind == "done":
            done = True
    if not done:
        report.cut("it has no event for the end of the run")
    return report


def _dart_test(
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


def _pytest_log(events: _Events) -> ReportBuilder:
    report = ReportBuilder("pytest")
    for event in events:
        outcome, when = text_of(event.get("outcome")), event.get("when")
        name = text_of(event.get("nodeid"))
        if event.get("$report_type") == "CollectReport" and outcome == "failed":
            report.collected = False
            report.test(name, "error", failure.detail(name, "", text_of(event.get("longrepr")), rule=COLLECTION))
        elif event.get("$report_type") == "TestReport" and (when == "call" or outcome != "passed"):
            result: Outcome = "error" if outcome == "failed" and when != "call" else outcome  # type: ignore[assignment]
            report.test(
                name, result, failure.detail(name, "", str(event.get("longrepr"))) if outcome == "failed" else None
            )
    return report


_READERS: tuple[tuple[Callable[[dict[str, Any]], bool], Callable[[_Events], ReportBuilder]], ...] = (
    (lambda event: "Action" in event and ("Package" in event or "ImportPath" in event), _go),
    (lambda event: event.get("type") in {"suite", "test"} and "event" in event, _libtest),
    (lambda event: event.get("type") in {"testStart", "testDone", "suite", "start"} and "time" in event, _dart),
    (lambda event: "$report_type" in event, _pytest_log),
    (lambda event: event.get("reason") in {"compiler-message", "build-finished", "compiler-artifact"}, _cargo),
)
