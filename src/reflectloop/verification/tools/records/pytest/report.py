"""Read the text output of pytest, and its report log."""

from __future__ import annotations

import re
from typing import Any

from reflectloop.system.patterns import lazy
from reflectloop.verification.reports import failure, report_builder, runner
from reflectloop.verification.reports.report_builder import COLLECTION, ReportBuilder
from reflectloop.verification.reports.runner import RunnerReading
from reflectloop.verification.result import Counts, Outcome
from reflectloop.verification.tools.json_values import text_of

_COUNTED = r"\d+ (?:failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?|rerun)"
_SUM = lazy(rf"^(?:=+ )?((?:{_COUNTED}(?:, )?)+|no tests ran) in [\d.]+s(?: \([\d:, a-z]+\))?(?: =+)?$", re.MULTILINE)
_NAMED = lazy(r"^(FAILED|ERROR|XFAIL|XPASS|SKIPPED|PASSED) (\S.*)$")
_LOUD = lazy(
    r"^(?:\[gw\d+\] \[ *\d+%\] )?(?P<first>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)? ?(?P<id>\S+\.\w+::.+?)"
    r"(?: (?P<word>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?: \(.*\))?(?: +\[ *\d+%\])?)?$"
)
_OUTCOMES: dict[str, Outcome] = {
    "PASSED": "passed",
    "FAILED": "failed",
    "ERROR": "error",
    "SKIPPED": "skipped",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
}
_HEADER = lazy(r"^_{3,} (?P<test>\S.*?) _{3,}$")
_SECTION = lazy(r"^=+ .* =+$|^=+$|^-+ .* -+$")
_COLLECTING = lazy(r"^ERROR collecting (\S+)$")
_ABOUT = lazy(r"^ERROR (?:at \w+ of )")
_STOPPED = lazy(r"^!+ (?:Interrupted: \d+ errors? during collection|.*collection) !+$", re.MULTILINE)
_USAGE = lazy(
    r"^(?:ERROR: (?:file or directory not found|not found|usage|found no collectors).*|INTERNALERROR> .+|"
    r"ImportError while loading conftest .*|E +\w*Error: .*conftest.*)$",
    re.MULTILINE,
)
_MARKS = (
    "test session starts",
    "short test summary info",
    " passed in ",
    " failed in ",
    " deselected in ",
    "no tests ran",
    "INTERNALERROR>",
)
_MORE_MARKS = (
    "rror in ",
    "rrors in ",
    "skipped in ",
    "ERROR: file or directory not found",
    "loading conftest",
    "warning",
)


def read(text: str, lines: list[str]) -> RunnerReading | None:
    if not any(mark in text for mark in (*_MARKS, *_MORE_MARKS)):
        return None
    sums = list(_SUM.finditer(text))
    usage = _USAGE.search(text)
    if not sums and not usage and "test session starts" not in text:
        return None
    report = ReportBuilder("pytest")
    names = _outcomes(lines, report)
    _failures(lines, report, names)
    if usage or _STOPPED.search(text) or any(item.rule == COLLECTION for item in report.details):
        report.collected = False
    if usage and not report.details:
        report.issue(failure.detail(None, usage[0], text[usage.start() : usage.start() + 4000], rule=COLLECTION))
    if not sums and report.collected:
        report.cut("pytest started but wrote no summary")
    at = sums[-1].end() if sums else len(text)
    return RunnerReading(report.reading(_counts([item[1] for item in sums])), at)


def passed(log: str) -> frozenset[str]:
    """Return the tests that the summary at the end of a log calls passed."""
    summary = log.rpartition("short test summary info")[2]
    return frozenset(
        match[2] for line in summary.splitlines() if (match := _NAMED.match(line)) and match[1] == "PASSED"
    )


def _counts(sums: list[str]) -> Counts:
    each = [runner.counts(runner.words(text)) for text in sums]
    total = each[-1] if each else Counts()
    if not (total.failed or total.errors):  # several runs in one log: a later pass hides no failure
        for earlier in each[:-1]:
            total = report_builder.added(total, earlier) if earlier.failed or earlier.errors else total
    return total


def _outcomes(lines: list[str], report: ReportBuilder) -> dict[str, str]:
    """Record every outcome given by test name, and return the messages of the failed tests."""
    messages: dict[str, str] = {}
    for line in lines:
        named = _NAMED.match(line)
        if named and "::" not in line and not re.match(r"\S+\.py(?: -|$)", named[2]):
            continue
        if named:
            name, message = _split(named[2])
            if name not in messages:
                messages[name] = message
                report.test(name, _OUTCOMES[named[1]])
        elif (loud := _LOUD.match(line)) and (word := loud["first"] or loud["word"]) and loud["id"] not in report.tests:
            report.test(loud["id"], _OUTCOMES[word])
    return {name: text for name, text in messages.items() if report.tests.get(name) in {"failed", "error"}}


def _split(text: str) -> tuple[str, str]:
    """Split `id - message`, where the parameters in the id may contain dashes."""
    open_at = text.find("[")
    dash = text.find(" - ")
    if 0 <= open_at < dash:
        closed = text.find("] - ", open_at)
        dash = closed + 1 if closed >= 0 else (-1 if text.endswith("]") else dash)
    return (text[:dash], text[dash + 3 :]) if dash >= 0 else (text, "")


def _failures(lines: list[str], report: ReportBuilder, messages: dict[str, str]) -> None:
    texts = _texts(lines)
    for name, message in messages.items():
        short = re.sub(r"^[^\[]*?\.py::", "", name).replace("::", ".")
        text = texts.pop(short, None) or texts.pop(name, "")
        loaded = "::" in name
        if not loaded and not text:
            text = texts.pop(f"ERROR collecting {name}", "")
        file = None if loaded else name
        report.issue(failure.detail(name, message, text, file=file, rule=None if loaded else COLLECTION))
    for header, text in texts.items():
        collecting = _COLLECTING.match(header)
        known = collecting[1] if collecting else header
        if any(item.test == known for item in report.details):
            continue
        file = known if collecting else None
        report.issue(failure.detail(known, "", text, file=file, rule=COLLECTION if collecting else None))


def _texts(lines: list[str]) -> dict[str, str]:
    """Return the text under each failure header."""
    texts: dict[str, str] = {}
    name, start = "", -1
    for number, line in enumerate([*lines, "=" * 10]):
        header = _HEADER.match(line)
        if start >= 0 and (header or _SECTION.match(line)):
            texts.setdefault(name, "\n".join(lines[start:number][:400]))
            start = -1
        if header and len(texts) < report_builder.MOST_DETAILS:
            name, start = _ABOUT.sub("", header["test"]), number + 1
    return texts


def read_events(events: list[dict[str, Any]]) -> ReportBuilder:
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
