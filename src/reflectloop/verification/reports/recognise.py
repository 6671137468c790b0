"""Recognise the format of a report or a log, and read it."""

from __future__ import annotations

from reflectloop.verification.reports import events as stream
from reflectloop.verification.reports import (
    find_json,
    findings_json,
    findings_xml,
    go_text,
    issues,
    junit,
    plain,
    pytest_text,
    runner,
    suites_json,
    tap,
    tools,
    xml_dialects,
    xml_stream,
)
from reflectloop.verification.reports.report_builder import ReportBuilder
from reflectloop.verification.reports.runner import RunnerReading
from reflectloop.verification.reports.runners import RUNNERS
from reflectloop.verification.result import ReportReading

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
    if root.tag in junit.ROOTS:
        return junit.read(text)
    if root.tag in xml_dialects.DIALECTS:
        return xml_dialects.read(text, root.tag)
    return findings_xml.read(text, root)


def _structured(text: str, tool: str | None, *, is_json: bool) -> ReportReading | None:
    """Read JSON, as one document or one object per line."""
    if not is_json and "\n{" not in text and "\n[" not in text:
        return None
    root = find_json.document(text)
    if root is not None:
        return suites_json.read(root) or findings_json.read(root)
    events, cut = find_json.lines(text)
    reading = events and (stream.read(events, cut=cut) or findings_json.read(events))
    if reading:
        return reading
    return _refused(tool or "json", "it is not readable JSON") if is_json and text.lstrip()[:2] in _OPENINGS else None


def _log(text: str, tool: str | None) -> ReportReading | None:
    lines = plain.lines(text)
    if tap.looks(text):
        return tap.read(text, lines)
    readings = [
        pytest_text.read(text, lines),
        go_text.read(text, lines),
        *(runner.read(known, text, lines) for known in RUNNERS),
    ]
    matching = [reading for reading in readings if reading]
    if matching:
        return _chosen(matching, tool).reading
    return _complaints(lines, tool)


def _chosen(readings: list[RunnerReading], tool: str | None) -> RunnerReading:
    """Choose the requested runner's result, else a failed one, else the one with the last summary."""

    def weight(candidate: RunnerReading) -> tuple[bool, bool, int]:
        counts = candidate.reading.counts
        bad = not candidate.reading.collected or bool(counts and (counts.failed or counts.errors))
        return candidate.reading.tool == tool, bad, candidate.at

    return max(readings, key=weight)


def _complaints(lines: list[str], tool: str | None) -> ReportReading | None:
    some = tools.sample(lines)
    name = tool or tools.recognise(some)
    kind = tools.kind_of(name) if name else "lint"
    details = issues.details(lines, "warning" if kind == "build" else "error")
    if not details:
        details = issues.without_place(lines)
    if details or (name and tools.says_clean(some)):
        return ReportReading(name or "log", kind, tuple(details))
    return None
