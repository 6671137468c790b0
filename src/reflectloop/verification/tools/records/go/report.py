"""Read the output of `go test`: its text, which prints each package after its tests, and its JSON events."""

from __future__ import annotations

import re
from typing import Any

from reflectloop.system.patterns import lazy
from reflectloop.verification.reports import failure, identity, issues
from reflectloop.verification.reports.report_builder import COLLECTION, ReportBuilder
from reflectloop.verification.reports.runner import RunnerReading
from reflectloop.verification.result import Outcome
from reflectloop.verification.tools.json_values import text_of

_TEST = lazy(r"^\s*--- (?P<word>PASS|FAIL|SKIP|BENCH): (?P<name>\S+)")
_PACKAGE = lazy(r"^(?P<word>ok|FAIL|\?|---)\s*\t(?P<name>\S+)(?:\t| )(?P<rest>.*)$|^(?P<bare>FAIL)\t(?P<only>\S+)$")
_LOOKS = lazy(r"^(?:ok  |FAIL|\?   )\t\S+[\t ]|^--- (?:PASS|FAIL): \w+ \(", re.MULTILINE)
_OUTCOMES: dict[str, Outcome] = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped", "BENCH": "passed"}
_FRAME = ("=== ", "--- ", "FAIL", "ok  ", "PASS", "exit status")
_BUILD = ("[build failed]", "[setup failed]")
_ACTIONS: dict[str, Outcome] = {"pass": "passed", "fail": "failed", "skip": "skipped"}
_MOST_OUTPUT = 400  # lines stored per test


class _Reader:
    def __init__(self) -> None:
        self.report = ReportBuilder("go")
        self.waiting: list[tuple[str, Outcome, int]] = []  # tests whose package line has not been read yet
        self.begun = 0  # index of the package's first output line

    def go(self, lines: list[str]) -> None:
        for number, line in enumerate(lines):
            if test := _TEST.match(line):
                self.waiting.append((test["name"], _OUTCOMES[test["word"]], number))
            elif package := _PACKAGE.match(line):
                self._package(package, lines, number)
        self._tests("", lines, len(lines))

    def _package(self, match: re.Match[str], lines: list[str], number: int) -> None:
        name, word = match["name"] or match["only"], match["word"] or match["bare"]
        failed = any(outcome == "failed" for _, outcome, _ in self.waiting)
        has_tests = bool(self.waiting)
        self._tests(name, lines, number)
        text = "\n".join(lines[self.begun : number][-200:])
        self.begun = number + 1
        if any(mark in lines[number] for mark in _BUILD):
            self.report.collected, self.report.kind = False, "build"
            self.report.test(name, "error")
            for problem in issues.details(lines)[:50]:
                self.report.issue(problem)
            if not self.report.details:
                self.report.issue(failure.detail(name, lines[number], rule=COLLECTION))
        elif word == "FAIL" and not failed:
            self.report.test(name, "error", failure.detail(name, "", text))
        elif word == "ok" and not has_tests and "[no tests to run]" not in lines[number]:
            self.report.test(name, "passed")  # without -v only the package is reported

    def _tests(self, package: str, lines: list[str], end: int) -> None:
        parents = identity.parents(name for name, outcome, _ in self.waiting if outcome == "failed")
        for place, (name, outcome, number) in enumerate(self.waiting):
            full_name = identity.plain(package, name)
            problem = None
            if outcome == "failed" and name not in parents:
                until = self.waiting[place + 1][2] if place + 1 < len(self.waiting) else end
                problem = failure.detail(full_name, "", self._text(name, lines, number, until))
            self.report.test(full_name, outcome, problem)
        self.waiting = []

    def _text(self, name: str, lines: list[str], number: int, until: int) -> str:
        """Return a test's output, which follows its result, or precedes it with -v."""
        after = [line for line in lines[number + 1 : until] if not line.startswith(_FRAME)]
        if any(line.strip() for line in after):
            return "\n".join(after[:120])
        before = lines[max(self.begun, number - 120) : number]
        starts = [place for place, line in enumerate(before) if line.endswith(f" {name}") and line.startswith("===")]
        return "\n".join(line for line in before[starts[0] if starts else 0 :] if not line.lstrip().startswith(_FRAME))


def read(text: str, lines: list[str]) -> RunnerReading | None:
    match = _LOOKS.search(text)
    if not match:
        return None
    reader = _Reader()
    reader.go(lines)
    return RunnerReading(reader.report.reading(reader.report.counts()), match.end())


def read_events(events: list[dict[str, Any]]) -> ReportBuilder:
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
        elif action in _ACTIONS and test:
            begun.pop(name, None)
            bad = action == "fail"
            broken |= {package} if bad else set()
            text = "".join(output.pop(name, []))
            report.test(name, _ACTIONS[action], failure.detail(name, "", _without_frame(text)) if bad else None)
        elif action in {"fail", "build-fail"} and package not in broken:
            _failed_package(report, package or name, event, output)
    for name, package in begun.items():  # started but never finished
        report.test(
            name, "error", failure.detail(name, "it did not end", "".join(output.get(name) or output.get(package, [])))
        )
    _without_parents(report)
    return report


def _without_frame(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(("=== ", "--- ")))


def _failed_package(report: ReportBuilder, package: str, event: dict[str, Any], output: dict[str, list[str]]) -> None:
    """Record a package that failed although none of its tests did: the build failed or the test program crashed."""
    built = event.get("FailedBuild") or event.get("ImportPath")
    text = "".join(output.get(text_of(built), []) + output.get(package, []))
    if any(mark in text for mark in _BUILD) or built:
        report.collected = False
        report.kind = "build"
    if event.get("Action") == "fail" and package not in report.tests:
        report.test(package, "error", failure.detail(package, "", text, rule=None if report.collected else COLLECTION))


def _without_parents(report: ReportBuilder) -> None:
    """Drop the details of tests that failed only because a subtest did."""
    parents = identity.parents(name for name, outcome in report.tests.items() if outcome == "failed")
    report.details = [item for item in report.details if item.test not in parents or item.line]
