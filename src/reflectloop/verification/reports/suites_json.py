"""Read test results written as one JSON document: jest, vitest, mocha, RSpec, pytest, cucumber and more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from reflectloop.verification.reports import failure, identity
from reflectloop.verification.reports.find_json import number_of, text_of
from reflectloop.verification.reports.report_builder import COLLECTION, ReportBuilder
from reflectloop.verification.result import Outcome, ReportReading

_OUTCOMES: dict[str, Outcome] = {
    **dict.fromkeys(("passed", "pass", "ok", "expected", "success", "completed", "flaky"), "passed"),
    **dict.fromkeys(("failed", "fail", "unexpected", "timedout", "interrupted", "failure", "undefined"), "failed"),
    **dict.fromkeys(("error", "broken"), "error"),
    **dict.fromkeys(("skipped", "pending", "todo", "disabled", "ignored", "skip", "suppressed"), "skipped"),
    **dict.fromkeys(("xfailed",), "xfailed"),
    **dict.fromkeys(("xpassed",), "xpassed"),
}


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _outcome(word: object) -> Outcome:
    """Return the outcome for a word; an unknown word counts as an error, never as a pass."""
    return _OUTCOMES.get(text_of(word).lower(), "error")


def _jest(root: dict[str, Any]) -> ReportBuilder:
    report = ReportBuilder(
        "vitest" if "numTotalTestSuites" in root and "startTime" in root and "wasInterrupted" not in root else "jest"
    )
    for suite in _dicts(root.get("testResults")):
        file = text_of(suite.get("name")) or text_of(suite.get("testFilePath"))
        tests = list(_dicts(suite.get("assertionResults"))) or list(_dicts(suite.get("testResults")))
        for test in tests:
            _jest_test(report, file, test)
        if not tests and suite.get("status") == "failed":
            report.collected = False
            message = text_of(suite.get("message"))
            report.test(file, "error", failure.detail(file, "", message, file=file, rule=COLLECTION))
    return report


def _jest_test(report: ReportBuilder, file: str, test: dict[str, Any]) -> None:
    scope = " > ".join(title for title in test.get("ancestorTitles") or [] if isinstance(title, str))
    name = identity.plain(scope, text_of(test.get("title")) or text_of(test.get("fullName")), file)
    outcome = _outcome(test.get("status"))
    problem = None
    if outcome in {"failed", "error"}:
        place = test.get("location") if isinstance(test.get("location"), dict) else {}
        text = text_of(test.get("failureMessages"))
        problem = failure.detail(name, "", text, file=file, line=number_of((place or {}).get("line")))
    report.test(name, outcome, problem)


def _mocha(root: dict[str, Any]) -> ReportBuilder:
    report = ReportBuilder("mocha")
    lists: tuple[tuple[str, Outcome], ...] = (("passes", "passed"), ("failures", "failed"), ("pending", "skipped"))
    for key, outcome in lists:
        for test in _dicts(root.get(key)):
            name = identity.plain(
                "", text_of(test.get("fullTitle")) or text_of(test.get("title")), text_of(test.get("file"))
            )
            error = test.get("err") if isinstance(test.get("err"), dict) else {}
            message, stack = text_of((error or {}).get("message")), text_of((error or {}).get("stack"))
            report.test(name, outcome, failure.detail(name, message, stack) if outcome == "failed" else None)
    return report


def _mochawesome(root: dict[str, Any]) -> ReportBuilder:
    report = ReportBuilder("mocha")
    waiting = list(_dicts(root.get("results")))
    while waiting:
        suite = waiting.pop()
        waiting.extend(_dicts(suite.get("suites")))
        for test in _dicts(suite.get("tests")):
            outcome: Outcome = "passed" if test.get("pass") else "failed" if test.get("fail") else "skipped"
            name = identity.plain("", text_of(test.get("fullTitle")), text_of(suite.get("file")))
            error = test.get("err") if isinstance(test.get("err"), dict) else {}
            message, stack = text_of((error or {}).get("message")), text_of((error or {}).get("estack"))
            report.test(name, outcome, failure.detail(name, message, stack) if outcome == "failed" else None)
    return report


def _rspec(root: dict[str, Any]) -> ReportBuilder:
    report = ReportBuilder("rspec")
    for example in _dicts(root.get("examples")):
        file = text_of(example.get("file_path"))
        name = identity.plain("", text_of(example.get("full_description")), file)
        outcome = _outcome(example.get("status"))
        error = example.get("exception") if isinstance(example.get("exception"), dict) else {}
        message, stack = text_of((error or {}).get("message")), text_of((error or {}).get("backtrace"))
        line = number_of(example.get("line_number"))
        bad = outcome in {"failed", "error"}
        report.test(name, outcome, failure.detail(name, message, stack, file=file, line=line) if bad else None)
    summary = root.get("summary") if isinstance(root.get("summary"), dict) else {}
    if number_of((summary or {}).get("errors_outside_of_examples_count")):
        report.collected = False
    return report


def _pytest(root: dict[str, Any]) -> ReportBuilder:
    report = ReportBuilder("pytest")
    for collector in _dicts(root.get("collectors")):
        if collector.get("outcome") == "failed":
            name = text_of(collector.get("nodeid"))
            report.collected = False
            report.test(name, "error", failure.detail(name, "", text_of(collector.get("longrepr")), rule=COLLECTION))
    for test in _dicts(root.get("tests")):
        name, outcome = text_of(test.get("nodeid")), _outcome(test.get("outcome"))
        part: dict[str, Any] = next(
            (test[when] for when in ("call", "setup", "teardown") if _broke(test.get(when))), {}
        )
        bad = outcome in {"failed", "error"}
        report.test(name, outcome, failure.detail(name, "", text_of(part.get("longrepr"))) if bad else None)
    return report


def _broke(part: object) -> bool:
    return isinstance(part, dict) and part.get("outcome") == "failed"


def _playwright(root: dict[str, Any]) -> ReportBuilder:
    report = ReportBuilder("playwright")
    waiting = [(suite, "") for suite in _dicts(root.get("suites"))]
    while waiting:
        suite, scope = waiting.pop()
        inner = f"{scope} > {text_of(suite.get('title'))}".removeprefix(" > ")
        waiting.extend((child, inner) for child in _dicts(suite.get("suites")))
        for spec in _dicts(suite.get("specs")):
            for test in _dicts(spec.get("tests")):
                project = text_of(test.get("projectName"))
                name = identity.plain(inner, text_of(spec.get("title")), project and f"[{project}]")
                results = list(_dicts(test.get("results")))
                error = results[-1].get("error") if results else {}
                outcome = _outcome(test.get("status"))
                message = text_of(error) if isinstance(error, dict) else ""
                line = number_of(spec.get("line"))
                file = text_of(spec.get("file")) or None
                bad = outcome in {"failed", "error"}
                report.test(name, outcome, failure.detail(name, message, "", file=file, line=line) if bad else None)
    return report


def _cucumber(features: list[Any]) -> ReportBuilder:
    report = ReportBuilder("cucumber")
    for feature in _dicts(features):
        for scenario in _dicts(feature.get("elements")):
            if scenario.get("type") == "background":
                continue
            results = [step["result"] for step in _dicts(scenario.get("steps")) if isinstance(step.get("result"), dict)]
            each = [_outcome(result.get("status")) for result in results]
            outcome: Outcome = "passed" if each else "skipped"
            outcome = next((candidate for candidate in ("error", "failed", "skipped") if candidate in each), outcome)
            name = identity.plain(
                text_of(feature.get("name")), text_of(scenario.get("name")), text_of(feature.get("uri"))
            )
            message = next((text_of(result["error_message"]) for result in results if result.get("error_message")), "")
            bad = outcome in {"failed", "error"}
            line = number_of(scenario.get("line"))
            report.test(name, outcome, failure.detail(name, message, message, line=line) if bad else None)
    return report


def _gtest(root: dict[str, Any]) -> ReportBuilder:
    report = ReportBuilder("gtest")
    for suite in _dicts(root.get("testsuites")):
        for test in _dicts(suite.get("testsuite")):
            name = identity.plain(
                text_of(test.get("classname")) or text_of(suite.get("name")), text_of(test.get("name"))
            )
            broken = list(_dicts(test.get("failures")))
            ran = text_of(test.get("status")).upper() == "RUN" and text_of(test.get("result")).upper() != "SKIPPED"
            outcome: Outcome = "failed" if broken else "passed" if ran else "skipped"
            message = text_of(broken[0].get("failure")) if broken else ""
            report.test(name, outcome, failure.detail(name, message, message) if broken else None)
    return report


_READERS: tuple[tuple[frozenset[str], Callable[[dict[str, Any]], ReportBuilder]], ...] = (
    (frozenset({"testResults", "numTotalTests"}), _jest),
    (frozenset({"stats", "passes", "failures"}), _mocha),
    (frozenset({"stats", "results"}), _mochawesome),
    (frozenset({"examples", "summary"}), _rspec),
    (frozenset({"tests", "exitcode"}), _pytest),
    (frozenset({"suites", "config"}), _playwright),
    (frozenset({"testsuites", "tests"}), _gtest),
)


def read(root: object) -> ReportReading | None:
    if isinstance(root, dict):
        for keys, reader in _READERS:
            if keys <= set(root):
                return reader(root).reading()
    if isinstance(root, list) and root and all(isinstance(feature, dict) and "elements" in feature for feature in root):
        return _cucumber(root).reading()
    return None
