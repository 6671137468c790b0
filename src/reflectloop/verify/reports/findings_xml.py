"""Reads the findings of linters and analysers in XML, whatever they call their elements."""

from __future__ import annotations

from reflectloop.verify.reports import markup, places, tally
from reflectloop.verify.reports.markup import Node
from reflectloop.verify.reports.tally import Severity, Tally
from reflectloop.verify.result import Reading


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ITEMS = _words(
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
        self.tally = Tally(tool, "lint")
        self._told: set[int] = set()

    def visit(self, node: Node, path: list[Node]) -> None:
        if id(node) in self._told:  # something in it was told already
            self._told.discard(id(node))
            self._mark(path)
            return
        found = _fields(node)
        file = found.get("file") or _around(path)
        line = found.get("line")
        said = found.get("message") or node.text().strip() or found.get("rule")
        if not said or not (file or found.get("rule")) or not (line or found.get("rule") or file):
            return
        self._mark(path)
        self.tally.issue(
            tally.detail(
                said,
                file=places.clean(file) if file else None,
                line=int(line) if line else None,
                column=int(found["column"]) if found.get("column") else None,
                rule=found.get("rule"),
                grade=_grade(found.get("severity")),
            )
        )

    def _mark(self, path: list[Node]) -> None:
        self._told.update(id(one) for one in path if one.tag in _ITEMS)


def _grade(word: str | None) -> Severity:
    numbers: dict[str, Severity] = {"1": "error", "2": "warning", "3": "warning", "4": "info", "5": "info"}
    return numbers.get(word or "", tally.severity(word, "warning") if word else "error")


def _fields(node: Node) -> dict[str, str]:
    """What the element says, and where it says nothing, what lies in it."""
    found: dict[str, str] = {}
    waiting = [node]
    while waiting and len(found) < 6:  # noqa: PLR2004 - all there are
        one = waiting.pop(0)
        keys = {key.lower().replace("_", "").replace("-", ""): value for key, value in one.attributes.items() if value}
        keys.update(_from_children(one))
        _take(found, "file", _FILE, keys)
        if "line" not in found:
            _take(found, "line", _LINE, keys)
            _take(found, "column", _COLUMN, keys)
        _take(found, "message", _MESSAGE, keys)
        _take(found, "rule", _RULE, keys)
        _take(found, "severity", _SEVERITY, keys)
        waiting.extend(one.children[:50])
    return found


def _from_children(node: Node) -> dict[str, str]:
    """Elements that stand for attributes: `<line>3</line>`."""
    return {
        child.tag.lower().replace("_", ""): child.text().strip()
        for child in node.children
        if not child.children and child.text().strip()
    }


def _take(found: dict[str, str], field: str, names: tuple[str, ...], keys: dict[str, str]) -> None:
    if field in found:
        return
    for name in names:
        value = keys.get(name, "")
        if field == "file" and not (value and places.is_path(value)):
            continue
        if field in {"line", "column"} and not (value.isdecimal() and len(value) < 8):  # noqa: PLR2004
            continue
        if value:
            found[field] = value
            return


def _around(path: list[Node]) -> str | None:
    for node in reversed(path):
        keys = {key.lower(): value for key, value in node.attributes.items()}
        found: dict[str, str] = {}
        _take(found, "file", _FILE, keys)
        if found:
            return found["file"]
    return None


def read(shown: str, root: Node) -> Reading | None:
    reader = _Reader(_TOOLS.get(root.tag, root.tag.lower()))
    broken = markup.walk(shown, _ITEMS, reader.visit)
    known = root.tag in _TOOLS or bool(reader.tally.details)
    if broken and known:
        reader.tally.cut(broken)
    return reader.tally.reading() if known else None
