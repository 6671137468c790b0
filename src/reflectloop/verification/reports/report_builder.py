"""Collect the contents of a report into one Reading."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

from reflectloop.verification.result import Counts, Detail, Kind, Outcome, ReportReading

Severity = Literal["error", "warning", "info"]

CUT = "report-cut"  # rule of a detail about an incomplete report
COLLECTION = "collection"  # rule of a detail about a test file that could not be loaded
MOST_DETAILS = 10_000
_LONGEST_ERROR, _LONGEST_CONTEXT, _MOST_CONTEXT = 600, 2400, 14

# From best to worst: a name reported twice is one test with the worse outcome.
_WORSE: tuple[Outcome, ...] = ("skipped", "xfailed", "passed", "xpassed", "failed", "error")
_FIELD: dict[Outcome, str] = {
    "passed": "passed",
    "xpassed": "passed",
    "failed": "failed",
    "error": "errors",
    "skipped": "skipped",
    "xfailed": "xfailed",
}

_SEVERITIES: dict[str, Severity] = {
    **dict.fromkeys(("error", "err", "fatal", "failure", "fail", "critical", "blocker", "high", "severe"), "error"),
    **dict.fromkeys(("e", "f", "✖", "✘", "×", "x", "major", "fatal error", "syntax error", "parse error"), "error"),
    **dict.fromkeys(("warning", "warn", "w", "⚠", "medium", "moderate", "minor", "deprecated", "!"), "warning"),
    **dict.fromkeys(("low", "style", "refactor", "convention", "c", "r", "performance", "portability"), "warning"),
    **dict.fromkeys(("note", "notice", "info", "information", "informational", "hint", "help"), "info"),
    **dict.fromkeys(("suggestion", "remark", "i", "n"), "info"),
}
KNOWN_SEVERITIES = frozenset(_SEVERITIES)


def severity(word: object, default: Severity = "error") -> Severity:
    return _SEVERITIES.get(str(word).strip().lower(), default)


def detail(
    error: str,
    *,
    file: str | None = None,
    line: int | None = None,
    column: int | None = None,
    context: str | None = None,
    rule: str | None = None,
    grade: Severity = "error",
    test: str | None = None,
) -> Detail:
    """Build a Detail with its texts cut to a bounded size."""
    excerpt = None
    if context and context.strip():
        excerpt = "\n".join(context.strip("\n").split("\n")[:_MOST_CONTEXT])[:_LONGEST_CONTEXT]
    return Detail(
        file=file or None,
        line=line or None,
        column=column or None,
        error=" ".join(error.split("\n", 4)[:4]).strip()[:_LONGEST_ERROR],
        context=excerpt,
        rule=rule or None,
        severity=grade,
        test=test,
    )


class ReportBuilder:
    """A builder that collects outcomes and details into one Reading."""

    def __init__(self, tool: str, kind: Kind = "test") -> None:
        self.tool = tool
        self.kind: Kind = kind
        self.details: list[Detail] = []
        self.tests: dict[str, Outcome] = {}
        self.collected = True
        self._counted: dict[str, int] = {}

    def test(self, name: str, outcome: Outcome, problem: Detail | None = None) -> None:
        self._counted[_FIELD[outcome]] = self._counted.get(_FIELD[outcome], 0) + 1
        self.tests[name] = _worse(outcome, self.tests.get(name, outcome))
        if problem is not None:
            self.issue(problem)

    def issue(self, problem: Detail) -> None:
        if len(self.details) < MOST_DETAILS:
            self.details.append(problem)

    def cut(self, why: str) -> None:
        """Mark the report as incomplete, so that it is not trusted."""
        self.collected = False
        self.details.insert(0, detail(f"the report is incomplete: {why}", rule=CUT))

    def counts(self) -> Counts:
        return Counts(**self._counted)

    def reading(self, counts: Counts | None = None) -> ReportReading:
        totals = counts if counts is not None else (self.counts() if self.kind == "test" else None)
        return ReportReading(self.tool, self.kind, tuple(self.details), totals, self.tests, self.collected)


def _worse(first: Outcome, second: Outcome) -> Outcome:
    return max(first, second, key=_WORSE.index)


def added(first: Counts, second: Counts) -> Counts:
    """Return the sum of two Counts."""
    return Counts(**{name: getattr(first, name) + getattr(second, name) for name in Counts.model_fields})


def joined(readings: Sequence[ReportReading]) -> ReportReading:
    """Join the reports of one run. A name that stands in several is one test with the worse outcome."""
    counts = [reading.counts for reading in readings if reading.counts is not None]
    tests: dict[str, Outcome] = {}
    for reading in readings:
        for name, outcome in reading.tests.items():
            tests[name] = _worse(outcome, tests.get(name, outcome))
    return ReportReading(
        readings[0].tool,
        readings[0].kind,
        tuple(detail for reading in readings for detail in reading.details),
        functools.reduce(added, counts) if counts else None,
        tests,
        all(reading.collected for reading in readings),
    )
