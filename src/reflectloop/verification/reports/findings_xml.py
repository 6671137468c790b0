"""Read the findings of linters and analysers in XML, whatever their elements are called."""

from __future__ import annotations

from reflectloop.verification.reports import locations, report_builder, xml_stream
from reflectloop.verification.reports.report_builder import ReportBuilder, Severity
from reflectloop.verification.reports.xml_stream import XmlNode
from reflectloop.verification.result import ReportReading


def _name_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ITEMS = _name_set(
    "error violation Violation issue Issue problem BugInstance duplication Duplicate bug Bug warning Warning message "
    "Message finding Finding defect offense lint diagnostic failure mutation match hint note PVS-Studio_Analysis_Log "
    "Entry codesmell smell"
)
_FILE = (
    "file",
    "filename",
    "path",
    "src",
    "sourcefile",
    "sourcepath",
    "source",
    "mutatedfile",
    "location",
    "uri",
    "name",
)
_LINE = ("line", "linenumber", "beginline", "startline", "start", "row", "lineno")
_COLUMN = ("column", "col", "begincolumn", "columnnumber", "char", "startcolumn", "offset")
_MESSAGE = (
    "message",
    "msg",
    "reason",
    "verbose",
    "text",
    "longmessage",
    "shortmessage",
    "description",
    "label",
    "problem_class",
)
_RULE = (
    "rule",
    "ruleid",
    "rulename",
    "check",
    "checkid",
    "id",
    "type",
    "source",
    "linter",
    "code",
    "typename",
    "problem_class",
)
_SEVERITY = ("severity", "level", "priority", "category")
_TOOLS = {
    "checkstyle": "checkstyle",
    "pmd": "pmd",
    "pmd-cpd": "cpd",
    "BugCollection": "spotbugs",
    "results": "cppcheck",
    "issues": "lint",
    "jslint": "jslint",
    "lint": "lint",
}


class _Reader:
    def __init__(self, tool: str) -> None:
        self.report = ReportBuilder(tool, "lint")
        self._reported_ids: set[int] = set()

    def visit(self, node: XmlNode, path: list[XmlNode]) -> None:
        if id(node) in self._reported_ids:  # an element inside it was reported already
            self._reported_ids.discard(id(node))
            self._mark_parents(path)
            return
        fields = _fields(node)
        file = fields.get("file") or _enclosing_file(path)
        line = fields.get("line")
        message = fields.get("message") or node.text().strip() or fields.get("rule")
        if not message or not (file or fields.get("rule")) or not (line or fields.get("rule") or file):
            return
        self._mark_parents(path)
        self.report.issue(
            report_builder.detail(
                message,
                file=locations.clean(file) if file else None,
                line=int(line) if line else None,
                column=int(fields["column"]) if fields.get("column") else None,
                rule=fields.get("rule"),
                grade=_grade(fields.get("severity")),
            )
        )

    def _mark_parents(self, path: list[XmlNode]) -> None:
        self._reported_ids.update(id(node) for node in path if node.tag in _ITEMS)


def _grade(word: str | None) -> Severity:
    numbers: dict[str, Severity] = {"1": "error", "2": "warning", "3": "warning", "4": "info", "5": "info"}
    return numbers.get(word or "", report_builder.severity(word, "warning") if word else "error")


def _fields(node: XmlNode) -> dict[str, str]:
    """Return the fields of the element, taking missing ones from the elements inside it."""
    fields: dict[str, str] = {}
    waiting = [node]
    while waiting and len(fields) < 6:  # noqa: PLR2004 - every field is filled
        current = waiting.pop(0)
        keys = {
            key.lower().replace("_", "").replace("-", ""): value for key, value in current.attributes.items() if value
        }
        keys.update(_from_children(current))
        _take(fields, "file", _FILE, keys)
        if "line" not in fields:
            _take(fields, "line", _LINE, keys)
            _take(fields, "column", _COLUMN, keys)
        _take(fields, "message", _MESSAGE, keys)
        _take(fields, "rule", _RULE, keys)
        _take(fields, "severity", _SEVERITY, keys)
        waiting.extend(current.children[:50])
    return fields


def _from_children(node: XmlNode) -> dict[str, str]:
    """Return child elements that stand for attributes, such as `<line>3</line>`."""
    return {
        child.tag.lower().replace("_", ""): child.text().strip()
        for child in node.children
        if not child.children and child.text().strip()
    }


def _take(fields: dict[str, str], field: str, names: tuple[str, ...], keys: dict[str, str]) -> None:
    if field in fields:
        return
    for name in names:
        value = keys.get(name, "")
        if field == "file" and not (value and locations.is_path(value)):
            continue
        if field in {"line", "column"} and not (value.isdecimal() and len(value) < 8):  # noqa: PLR2004
            continue
        if value:
            fields[field] = value
            return


def _enclosing_file(path: list[XmlNode]) -> str | None:
    for node in reversed(path):
        keys = {key.lower(): value for key, value in node.attributes.items()}
        fields: dict[str, str] = {}
        _take(fields, "file", _FILE, keys)
        if fields:
            return fields["file"]
    return None


def read(text: str, root: XmlNode) -> ReportReading | None:
    reader = _Reader(_TOOLS.get(root.tag, root.tag.lower()))
    broken = xml_stream.walk(text, _ITEMS, reader.visit)
    known = root.tag in _TOOLS or bool(reader.report.details)
    if broken and known:
        reader.report.cut(broken)
    return reader.report.reading() if known else None
