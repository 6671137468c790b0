"""Finds out what a report or a log is, and has it read."""

from __future__ import annotations

from reflectloop.verify.reports import (
    dialects,
    findings_json,
    findings_xml,
    go_text,
    issues,
    junit,
    markup,
    objects,
    plain,
    pytest_text,
    runner,
    suites_json,
    tap,
    tools,
)
from reflectloop.verify.reports import events as stream
from reflectloop.verify.reports.runner import Said
from reflectloop.verify.reports.runners import RUNNERS
from reflectloop.verify.reports.tally import Tally
from reflectloop.verify.result import Reading

_OPENINGS = {'{"', "{\n", '["', "[{", "[\n", "{ "}


def read(data: bytes | str, *, tool: str | None = None) -> Reading | None:
    """What a report file or a log says; None where nothing in it is known. Never raises on any input."""
    start = data[:4096].lstrip()
    if start[:1] in {b"<", "<"} and len(data) > plain.MOST:
        return _refused(tool or "xml", f"it is larger than {plain.MOST >> 20} MB")
    shown = plain.text(
        data if start[:1] in {b"<", "<", b"{", "{", b"[", "["} and len(data) <= plain.MOST else plain.bounded(data)
    )
    head = shown.lstrip()[:1]
    if head == "<" and (found := _markup(shown, tool)):
        return found
    return _structured(shown, tool, whole=head in {"{", "["}) or _log(shown, tool)


def _refused(tool: str, why: str) -> Reading:
    noted = Tally(tool)
    noted.cut(why)
    return noted.reading()


def _markup(shown: str, tool: str | None) -> Reading | None:
    root = markup.root(shown)
    if root is None:
        return _refused(tool or "xml", "it is not XML that can be read") if shown.lstrip().startswith("<?xml") else None
    if root.tag in junit.ROOTS:
        return junit.read(shown)
    if root.tag in dialects.DIALECTS:
        return dialects.read(shown, root.tag)
    return findings_xml.read(shown, root)


def _structured(shown: str, tool: str | None, *, whole: bool) -> Reading | None:
    """JSON: one document, or one a line."""
    if not whole and "\n{" not in shown and "\n[" not in shown:
        return None
    root = objects.document(shown)
    if root is not None:
        return suites_json.read(root) or findings_json.read(root)
    events, cut = objects.lines(shown)
    found = events and (stream.read(events, cut=cut) or findings_json.read(events))
    if found:
        return found
    return (
        _refused(tool or "json", "it is not JSON that can be read")
        if whole and shown.lstrip()[:2] in _OPENINGS
        else None
    )


def _log(shown: str, tool: str | None) -> Reading | None:
    lines = plain.lines(shown)
    if tap.looks(shown):
        return tap.read(shown, lines)
    said = [
        pytest_text.read(shown, lines),
        go_text.read(shown, lines),
        *(runner.read(one, shown, lines) for one in RUNNERS),
    ]
    told = [one for one in said if one]
    if told:
        return _chosen(told, tool).reading
    return _complaints(lines, tool)


def _chosen(told: list[Said], tool: str | None) -> Said:
    """The runner that was asked for; else one that failed; else the one that summed up last."""

    def weight(one: Said) -> tuple[bool, bool, int]:
        counts = one.reading.counts
        bad = not one.reading.collected or bool(counts and (counts.failed or counts.errors))
        return one.reading.tool == tool, bad, one.at

    return max(told, key=weight)


def _complaints(lines: list[str], tool: str | None) -> Reading | None:
    some = tools.sample(lines)
    name = tool or tools.recognise(some)
    kind = tools.kind_of(name) if name else "lint"
    found = issues.details(lines, "warning" if kind == "build" else "error")
    if not found:
        found = issues.without_place(lines)
    if found or (name and tools.says_clean(some)):
        return Reading(name or "log", kind, tuple(found))
    return None
