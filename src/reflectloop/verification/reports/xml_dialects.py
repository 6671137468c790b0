"""Read XML reports of test frameworks other than JUnit's: NUnit, xUnit, MSTest, TestNG, CTest, Qt, Boost."""

from __future__ import annotations

from typing import NamedTuple

from reflectloop.verification.reports import failure, identity, xml_stream
from reflectloop.verification.reports.report_builder import ReportBuilder
from reflectloop.verification.reports.xml_stream import XmlNode
from reflectloop.verification.result import Detail, Outcome, ReportReading

_OUTCOMES: dict[str, Outcome] = {
    **dict.fromkeys(
        ("pass", "passed", "success", "succeeded", "ok", "true", "passedbutrunaborted", "completed"), "passed"
    ),
    **dict.fromkeys(("warning", "bpass"), "passed"),
    **dict.fromkeys(("fail", "failed", "failure", "false", "timeout", "aborted"), "failed"),
    **dict.fromkeys(("error", "cancelled", "notrunnable", "invalid", "disconnected"), "error"),
    **dict.fromkeys(("skip", "skipped", "ignored", "inconclusive", "notrun", "notexecuted", "notimpl"), "skipped"),
    **dict.fromkeys(("disabled", "pending", "explicit", "not_run", "notrunyet", "bskip"), "skipped"),
    **dict.fromkeys(("xfail", "bxfail"), "xfailed"),
    **dict.fromkeys(("xpass", "bxpass"), "xpassed"),
}


class Dialect(NamedTuple):
    """The element and attributes in which a framework writes a test's name and outcome."""

    tool: str
    item: str
    outcome: tuple[str, ...]  # attribute names; the first one present is used
    name: tuple[str, ...] = ("fullname", "name")
    scope: tuple[str, ...] = ("classname", "type")


DIALECTS = {
    "test-run": Dialect("nunit", "test-case", ("result", "label"), scope=()),
    "test-results": Dialect("nunit", "test-case", ("result", "success", "executed"), ("name",), ()),
    "assemblies": Dialect("xunit", "test", ("result",), ("name",), ()),
    "assembly": Dialect("xunit", "test", ("result",), ("name",), ()),
    "TestRun": Dialect("trx", "UnitTestResult", ("outcome",), ("testName",), ()),
    "testng-results": Dialect("testng", "test-method", ("status",), ("signature", "name"), ()),
    "Site": Dialect("ctest", "Test", ("Status",), ("Name",), ()),
    "TestCase": Dialect("qtest", "TestFunction", (), ("name",), ()),
    "TestLog": Dialect("boost", "TestCase", (), ("name",), ()),
    "Tests": Dialect("testsuite", "Test", ("Result", "Outcome", "Status"), ("Name",), ()),
}


class _Reader:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.report = ReportBuilder(dialect.tool)

    def visit(self, node: XmlNode, path: list[XmlNode]) -> None:
        if any(parent.tag == "TestList" for parent in path) or (node.tag == "Test" and not node.attributes):
            return  # CTest lists the test names before it reports their outcomes
        if any(parent.tag == node.tag for parent in path):
            return  # a part of a test that is reported as one element
        if node.get("is-config") == "true" and node.get("status") != "FAIL":
            return
        outcome = self._outcome(node)
        name = self._name(node, path)
        self.report.test(name, outcome, _problem(name, node) if outcome in {"failed", "error"} else None)

    def _outcome(self, node: XmlNode) -> Outcome:
        """Return the test's outcome; an unknown word counts as an error, never as a pass."""
        if self._dialect.tool in {"qtest", "boost"}:
            return _outcome_of_parts(node)
        if node.get("executed").lower() == "false":
            return "skipped"
        word = node.get(*self._dialect.outcome).lower()
        if self._dialect.tool == "ctest" and word == "notrun" and "Unable to find" in _all_text(node):
            return "error"
        if word == "failed" and node.get("label").lower() in {"error", "invalid"}:
            return "error"
        return _OUTCOMES.get(word, "error")

    def _name(self, node: XmlNode, path: list[XmlNode]) -> str:
        name = node.get(*self._dialect.name)
        inner = node.find(*self._dialect.name)
        if not name and inner is not None:
            name = inner.text().strip()
        if self._dialect.tool in {"qtest", "boost"}:
            return identity.plain(" > ".join(parent.get("name") for parent in path if parent.get("name")), name)
        return identity.plain(node.get(*self._dialect.scope) if self._dialect.scope else "", name)


def _outcome_of_parts(node: XmlNode) -> Outcome:
    """Return the worst outcome among the elements inside a test."""
    kinds = {child.get("type").lower() for child in node.children if child.tag == "Incident"}
    tags = {child.tag for child in node.children}
    if kinds & {"fail", "xpass"} or tags & {"Error", "FatalError", "Exception"}:
        return "failed"
    if tags & {"Skipped"} or kinds & {"skip"} or any(child.get("type") == "skip" for child in node.children):
        return "skipped"
    return "xfailed" if "xfail" in kinds else "passed"


_MESSAGES = ("message", "Message", "reason", "Error", "FatalError", "Exception", "Description", "Value")
_STACKS = ("stack-trace", "StackTrace", "full-stacktrace")


def _problem(name: str, node: XmlNode) -> Detail:
    message_node = node.deep(*_MESSAGES)
    stack_node = node.deep(*_STACKS)
    message = _all_text(message_node) if message_node is not None else ""
    text = _all_text(stack_node) if stack_node is not None else ""
    place = message_node if message_node is not None and message_node.get("file") else node
    line = place.get("line")
    return failure.detail(
        name,
        message,
        text or message,
        file=place.get("file") or None,
        line=int(line) if line.isdecimal() else None,
    )


def _all_text(node: XmlNode) -> str:
    """Return the text of an element and of every element inside it."""
    pieces, waiting = [], [node]
    while waiting:
        current = waiting.pop()
        pieces.append(current.text())
        waiting.extend(reversed(current.children))
    return "".join(pieces).strip()


def read(text: str, root: str) -> ReportReading:
    reader = _Reader(DIALECTS[root])
    broken = xml_stream.walk(text, {DIALECTS[root].item}, reader.visit)
    if broken:
        reader.report.cut(broken)
    return reader.report.reading()
