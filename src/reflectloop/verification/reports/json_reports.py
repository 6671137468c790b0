"""Read test results written as JSON, as one document or as one event per line, in the formats tools are known for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from reflectloop.verification.reports import failure, identity
from reflectloop.verification.reports.report_builder import COLLECTION, ReportBuilder
from reflectloop.verification.result import ReportReading
from reflectloop.verification.tools.json_values import outcome_of
from reflectloop.verification.tools.record import EventFormat, JsonFormat, TestEntry
from reflectloop.verification.tools.registry import tools

_LOOKED_AT = 400  # events by which a format is recognised


def read(root: object) -> ReportReading | None:
    """Read a document, or return None if no tool writes its shape."""
    for tool, form in _documents():
        if form.keys <= _keys(root, listed=form.listed):
            known = form.tool(root) if form.tool and isinstance(root, dict) else tool
            report = ReportBuilder(known)
            for entry in form.read(root):
                _add(report, entry)
            if form.incomplete and isinstance(root, dict) and form.incomplete(root):
                report.collected = False
            return report.reading()
    return None


@cache
def _documents() -> tuple[tuple[str, JsonFormat], ...]:
    """Return the known formats with their tools; those with more keys come first."""
    known = [(tool.name, form) for tool in tools() for form in tool.output.json]
    return tuple(sorted(known, key=lambda pair: -len(pair[1].keys)))


def _keys(root: object, *, listed: bool) -> set[str]:
    """Return the keys of an object, or those that all objects of a list have."""
    if isinstance(root, dict):
        return set() if listed else set(root)
    if not listed or not isinstance(root, list) or not root or not all(isinstance(entry, dict) for entry in root):
        return set()
    return set.intersection(*(set(entry) for entry in root))


def _add(report: ReportBuilder, entry: TestEntry) -> None:
    name = entry.id or identity.plain(entry.scope, entry.name, entry.file)
    outcome = outcome_of(entry.outcome)
    report.collected &= not entry.unloaded
    problem = None
    if outcome in {"failed", "error"}:
        rule = COLLECTION if entry.unloaded else None
        problem = failure.detail(name, entry.message, entry.text, file=entry.at_file, line=entry.at_line, rule=rule)
    report.test(name, outcome, problem)


def read_events(events: list[dict[str, Any]], *, cut: bool) -> ReportReading | None:
    """Read a report of one object per line, or return None if no tool writes such events."""
    for form in _event_formats():
        if any(form.fits(event) for event in events[:_LOOKED_AT]):
            report: ReportBuilder = form.read(events)
            if cut:
                report.cut("its last line is incomplete")
            return report.reading()
    return None


def _event_formats() -> Iterator[EventFormat]:
    return (form for tool in tools() for form in tool.output.events)
