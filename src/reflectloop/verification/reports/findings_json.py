"""Read the findings of linters and scanners in JSON, whatever their fields are called."""

from __future__ import annotations

import re
from typing import Any

from reflectloop.verification.reports import locations, report_builder, tool_signs
from reflectloop.verification.reports.report_builder import ReportBuilder, Severity
from reflectloop.verification.result import FINDING_KINDS, ReportReading
from reflectloop.verification.tools.json_values import number_of, text_of
from reflectloop.verification.tools.registry import by_name, tools

_DEEPEST = 60
_WHERE = 4  # levels of nested location objects


def _name_list(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Field names in lower case without separators; the first one present is used.
_FILE = _name_list(
    "file filename filepath fullpath path uri absolutepath relativepath sourcefile buildfile maineventfilepathname "
    "strippedmaineventfilepathname mainsource source resource name module target"
)
_LINE = _name_list(
    "line linenumber startline linestart beginline linefrom row lineno startlineno begin maineventlinenumber"
)
_COLUMN = _name_list("column col columnnumber startcolumn columnfrom begincolumn character charnumber startcol linepos")
_MESSAGE = _name_list(
    "message msg text issuetext description details failure reason ruledescription title shortdescription summary body "
    "maineventdescription remediation"
)
_RULE = _name_list(
    "ruleid rulecode checkname checkid testid rulename rule code symbol messageid check issuecode checkername "
    "vulnerabilityid errorcode copname sourcename vuln cve type id"
)
_SEVERITY = _name_list("severity level issueseverity priority prioritystring impact messageseverity type levelname")
_PLACES = _name_list(
    "location locations range start pos position startposition span spans region physicallocation artifactlocation "
    "lines loc extent primary begin positions object metadata resource"
)
_NESTED = _name_list("extra check diagnostic")
_NAMED = {"vuln", "cve", "vulnerabilityid"}  # fields that name a finding without a message
_NOT_FINDINGS = {
    *("rules", "driver", "pluginsused", "plugins", "config", "metrics", "linters", "notifications"),
    *("suggestions", "fixes", "fix", "edits", "replacements", "relatedlocations", "codeflows", "useddeprecatedrules"),
}
_LSP: dict[int, Severity] = {1: "error", 2: "warning", 3: "info", 4: "info"}


def _plain(key: str) -> str:
    return re.sub(r"[_\-. ]", "", key).lower()


class FindingLocation:
    """The file, line and column of a finding, as far as its object gives them."""

    def __init__(self) -> None:
        self.file: str | None = None
        self.line: int | None = None
        self.column: int | None = None

    def look(self, thing: dict[str, Any], depth: int = 0) -> None:
        """Fill in the missing parts of the location from `thing` and its nested location objects."""
        keys = {_plain(key): value for key, value in thing.items()}
        self.file = self.file or _path(keys)
        if self.line is None and (line := _first_number(keys, _LINE, zero="character" in keys)):
            self.line = line
            self.column = _first_number(keys, _COLUMN, zero="character" in keys)
        for name in _PLACES if depth < _WHERE else ():
            inner = keys.get(name)
            inner = inner[0] if isinstance(inner, list) and inner else inner
            if isinstance(inner, dict):
                self.look(inner, depth + 1)


def _path(keys: dict[str, Any]) -> str | None:
    for name in _FILE:
        value = keys.get(name)
        if isinstance(value, str) and locations.is_path(value):
            return locations.clean(value)
    return None


def _first_number(keys: dict[str, Any], names: tuple[str, ...], *, zero: bool) -> int | None:
    """Return the first positive number among the named fields; with `zero`, numbers are counted from 0 and shifted."""
    for name in names:
        value = keys.get(name)
        if zero and isinstance(value, int) and not isinstance(value, bool):
            return value + 1
        if (number := number_of(value)) is not None:
            return number
    return None


def _first_text(keys: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = keys.get(name)
        if isinstance(value, dict):
            value = value.get("text") or value.get("name") or value.get("id") or value.get("value")
        if isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, int) and not isinstance(value, bool) and name not in _MESSAGE:
            value = str(value)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def _severity(keys: dict[str, Any]) -> Severity | None:
    for name in _SEVERITY:
        value = keys.get(name)
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int):
            eslint = {1: "warning", 2: "error"} if "ruleid" in keys else _LSP
            return eslint.get(value, "error")  # type: ignore[return-value]
        if isinstance(value, str) and value.strip().lower() in report_builder.KNOWN_SEVERITIES:
            return report_builder.severity(value)
    return None


class _Reader:
    def __init__(self) -> None:
        self.report = ReportBuilder("json", "lint")

    def walk(self, root: object) -> None:
        waiting: list[tuple[object, str | None, int]] = [(root, None, 0)]
        while waiting:
            thing, file, depth = waiting.pop()
            if depth > _DEEPEST:
                continue
            if isinstance(thing, list):
                waiting.extend((item, file, depth + 1) for item in reversed(thing))
            elif isinstance(thing, dict) and not self._issue(thing, file):
                inner = _path({_plain(key): value for key, value in thing.items()}) or file
                waiting.extend(
                    (value, _key_path(key) or inner, depth + 1)
                    for key, value in reversed(thing.items())
                    if _plain(key) not in _NOT_FINDINGS
                )

    def _issue(self, thing: dict[str, Any], file: str | None) -> bool:
        keys = {_plain(key): value for key, value in thing.items()}
        if any(
            isinstance(value, list) and _are_issues(value) for key, value in keys.items() if key not in _NOT_FINDINGS
        ):
            return False
        for name in _NESTED:
            if isinstance(keys.get(name), dict):
                keys = {**{_plain(key): value for key, value in keys[name].items()}, **keys}
        message, rule, grade = _first_text(keys, _MESSAGE), _first_text(keys, _RULE), _severity(keys)
        where = FindingLocation()
        where.look(thing)
        if keys.get("kind") == "pass" or keys.get("suppressions"):
            return True  # the report marks it as passed or suppressed
        placed = (where.line and (message or rule)) or (message and (grade or rule) and (where.file or file))
        if not placed and not (rule and grade and (message or keys.keys() & _NAMED)):
            return False
        self.report.issue(
            report_builder.detail(
                message or rule,
                file=where.file or file,
                line=where.line,
                column=where.column,
                rule=rule if rule != message else None,
                grade=grade or "error",
            )
        )
        return True


def _key_path(key: str) -> str | None:
    return key if locations.is_path(key) and ("/" in key or "." in key) else None


def _are_issues(things: list[Any]) -> bool:
    """Return True if the objects are findings, rather than locations or fixes of one finding."""
    first = things[0] if things else None
    if not isinstance(first, dict):
        return False
    keys = {_plain(key) for key in first}
    return bool(keys & set(_MESSAGE)) and bool(keys & {*_LINE, *_RULE[:-1], "range", "location", "pos"})


def read(root: object, tool: str | None = None) -> ReportReading | None:
    """Read findings, or return None if the document is no report of findings.

    A document without any is a clean report if its shape is known, or if the tool that was asked for it is a linter.
    """
    reader = _Reader()
    reader.walk(root)
    reader.report.tool = _tool(root)
    reader.report.kind = tool_signs.kind_of(reader.report.tool)
    if reader.report.kind == "test":
        reader.report.kind = "lint"
    asked = by_name().get(tool or "")
    if reader.report.details or _known_empty(root, reader.report.tool) or (asked and asked.kind in FINDING_KINDS):
        return reader.report.reading()
    return None


def _tool(root: object) -> str:
    if isinstance(root, dict) and isinstance(root.get("runs"), list):
        run = root["runs"][0] if root["runs"] and isinstance(root["runs"][0], dict) else {}
        name = (
            text_of((run.get("tool") or {}).get("driver", {}).get("name")) if isinstance(run.get("tool"), dict) else ""
        )
        return name.lower() or "sarif"
    first = root[0] if isinstance(root, list) and root else root
    if isinstance(first, dict):
        known = ((tool.name, tool.output.findings_keys.split()) for tool in tools())
        return next((name for name, keys in known if keys and set(keys) <= set(first)), "json")
    return "json"


# Keys under which reports list their findings, in lower case.
_LISTS = frozenset(
    "runs issues results violations generaldiagnostics offenses warnings matches messages vulnerabilities".split()  # noqa: SIM905
)
_LISTS_OF_A_FILE = _LISTS | {"errors", "diagnostics", "findings", "problems"}


def _known_empty(root: object, tool: str) -> bool:
    """Return True if the report has a known shape and lists no findings."""
    if root == [] or tool != "json":
        return True
    if isinstance(root, dict):
        return any(_plain(key) in _LISTS and isinstance(value, list | dict | None) for key, value in root.items())
    return isinstance(root, list) and all(isinstance(entry, dict) and _is_clean_file(entry) for entry in root)


def _is_clean_file(entry: dict[str, Any]) -> bool:
    """Return True for a file with an empty list of findings, as linters write one for each file."""
    keys = {_plain(key): value for key, value in entry.items()}
    return _path(keys) is not None and any(keys.get(name) == [] for name in _LISTS_OF_A_FILE)
