"""Recognise the format of a report or a log, and read it; JSON may also stand among other lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from reflectloop.verification.reports import (
    findings_json,
    findings_xml,
    issues,
    json_reports,
    plain,
    runner,
    tap,
    tool_signs,
    xml_reports,
    xml_stream,
)
from reflectloop.verification.reports.report_builder import ReportBuilder
from reflectloop.verification.reports.runner import RunnerReading
from reflectloop.verification.result import ReportReading
from reflectloop.verification.tools.record import Output
from reflectloop.verification.tools.registry import by_name, tools

UNKNOWN_TOOL = "log"  # name of the tool of a log that none is recognised in
_MOST_LINES = 2_000_000
_STARTS = 40  # positions at which a document may begin


def _json_document(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON document in the text, or None."""
    stripped = text.strip()
    if stripped[:1] in {"{", "["}:
        try:
            return json.loads(stripped)
        except (ValueError, RecursionError):
            return None
    return _embedded(text)


def _embedded(text: str) -> Any:  # noqa: ANN401
    decoder = json.JSONDecoder()
    at = -1
    for _ in range(_STARTS):
        starts = [spot for mark in ("\n{", "\n[") if (spot := text.find(mark, at + 1)) >= 0]
        if not starts:
            return None
        at = min(starts)
        try:
            document, end = decoder.raw_decode(text, at + 1)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict | list) and "\n" in text[at + 1 : end] and document:
            return document
    return None


def _json_lines(text: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the objects that each stand on one line, and whether the last such line is incomplete."""
    objects: list[dict[str, Any]] = []
    cut = False
    for line in text.split("\n", _MOST_LINES):
        stripped = line.strip()
        if not stripped.startswith("{"):
            stripped = (
                stripped[1:].strip() if stripped.startswith("[{") else ""
            )  # dart starts its list of events on one line
        if not stripped:
            continue
        if not stripped.endswith("}"):
            cut = cut or stripped.startswith('{"')
            continue
        try:
            parsed = json.loads(stripped)
        except (ValueError, RecursionError):
            cut = True
            continue
        cut = False
        if isinstance(parsed, dict):
            objects.append(parsed)
    return objects, cut


_OPENINGS = {'{"', "{\n", '["', "[{", "[\n", "{ "}


def read(data: bytes | str, *, tool: str | None = None) -> ReportReading | None:
    """Read a report file or a log; return None if no format matches. Never raises."""
    start = data[:4096].lstrip()
    if start[:1] in {b"<", "<"} and len(data) > plain.MOST:
        return _refused(tool or "xml", f"it is larger than {plain.MOST >> 20} MB")
    text = plain.text(
        data if start[:1] in {b"<", "<", b"{", "{", b"[", "["} and len(data) <= plain.MOST else plain.bounded(data)
    )
    head = text.lstrip()[:1]
    if head == "<" and (reading := _markup(text, tool)):
        return reading
    return _structured(text, tool, is_json=head in {"{", "["}) or _log(text, tool)


def _refused(tool: str, why: str) -> ReportReading:
    report = ReportBuilder(tool)
    report.cut(why)
    return report.reading()


def _markup(text: str, tool: str | None) -> ReportReading | None:
    root = xml_stream.root(text)
    if root is None:
        return _refused(tool or "xml", "it is not readable XML") if text.lstrip().startswith("<?xml") else None
    if root.tag in xml_reports.ROOTS:
        known = by_name().get(tool or "")
        return xml_reports.read_junit(text, _cases if known and known.output.runs_programs else None)
    if root.tag in xml_reports.formats():
        return xml_reports.read_other(text, root.tag)
    return findings_xml.read(text, root)


def _structured(text: str, tool: str | None, *, is_json: bool) -> ReportReading | None:
    """Read JSON, as one document or one object per line."""
    if not is_json and "\n{" not in text and "\n[" not in text:
        return None
    root = _json_document(text)
    if root is not None:
        return json_reports.read(root) or findings_json.read(root, tool)
    events, cut = _json_lines(text)
    reading = events and (json_reports.read_events(events, cut=cut) or findings_json.read(events, tool))
    if reading:
        return reading
    return _refused(tool or "json", "it is not readable JSON") if is_json and text.lstrip()[:2] in _OPENINGS else None


def _log(text: str, tool: str | None) -> ReportReading | None:
    lines = plain.lines(text)
    return _of_runner(text, lines, tool) or _complaints(lines, tool)


def read_tests(log: str, reading: ReportReading | None, tool: str | None) -> ReportReading | None:
    """Return the reading of a test run; without a known framework by the numbers that programs print at their end."""
    counts = runner.tally(plain.lines(plain.text(plain.bounded(log)))) if not reading or not reading.counts else None
    if counts is None:
        return reading
    details = reading.details if reading and counts.failed + counts.errors else ()  # else warnings of a compiler
    return ReportReading(tool or UNKNOWN_TOOL, "test", details, counts)


def _of_runner(text: str, lines: list[str], tool: str | None) -> ReportReading | None:
    around_tap = [known.output for known in tools() if known.output.contains_tap]
    if readings := [reading for output in around_tap for reading in _readings(output, text, lines)]:
        return _chosen(readings, tool).reading
    if tap.looks(text):
        known = by_name().get(tool or "")
        return tap.read(text, lines, comments=known is not None and known.output.tap_comments)
    matching = [reading for output in (known.output for known in tools()) for reading in _readings(output, text, lines)]
    return _chosen(matching, tool).reading if matching else None


def _readings(output: Output, text: str, lines: list[str]) -> Iterator[RunnerReading]:
    """Yield what a tool's reader or patterns find in a log."""
    if output.read_text and (reading := output.read_text(text, lines)):
        yield reading
    if output.text and (reading := runner.read(output.text, text, lines)):
        yield reading


def _cases(output: str) -> ReportReading | None:
    """Return the cases that a program's output names, or None if it does not name all that passed."""
    text = plain.text(output)
    reading = _of_runner(text, plain.lines(text), None)
    if reading is None or reading.counts is None or not reading.collected:
        return None
    named = sum(outcome in ("passed", "xpassed") for outcome in reading.tests.values())
    complete = named >= reading.counts.passed and (named or _names_passed(reading.tool))
    return reading if complete else reading._replace(tests={})


def _names_passed(name: str) -> bool:
    """Return True if a runner names the cases that passed, too, so that without any name none did."""
    tool = by_name().get(name)
    text = tool.output.text if tool else None
    return text is not None and any(outcome == "passed" for _, outcome in text.cases)


def _chosen(readings: list[RunnerReading], tool: str | None) -> RunnerReading:
    """Choose the requested runner's result, else a failed one, else the one with the last summary."""

    def weight(candidate: RunnerReading) -> tuple[bool, bool, int]:
        counts = candidate.reading.counts
        bad = not candidate.reading.collected or bool(counts and (counts.failed or counts.errors))
        return candidate.reading.tool == tool, bad, candidate.at

    return max(readings, key=weight)


def _complaints(lines: list[str], tool: str | None) -> ReportReading | None:
    some = tool_signs.sample(lines)
    name = tool or tool_signs.recognise(some)
    kind = tool_signs.kind_of(name) if name else "lint"
    known = by_name().get(name or "")
    has_levels = kind == "build" and not (known and known.output.errors_only)
    details = issues.details(lines, "warning" if has_levels else "error")
    if not details:
        details = issues.without_place(lines)
    if details or (name and tool_signs.says_clean(some)):
        return ReportReading(name or UNKNOWN_TOOL, kind, tuple(details))
    return None
