"""Read JUnit XML in the variants its writers produce."""

from __future__ import annotations

from reflectloop.verification.reports import failure, identity, xml_stream
from reflectloop.verification.reports.report_builder import COLLECTION, ReportBuilder
from reflectloop.verification.reports.xml_stream import XmlNode
from reflectloop.verification.result import Outcome, ReportReading

ROOTS = frozenset({"testsuites", "testsuite", "testcase"})
_ITEMS = frozenset({"testcase", "error", "failure"})
_UNRUN = {"disabled", "notrun", "not_run", "skipped", "ignored", "suppressed", "pending", "skip", "todo", "inactive"}
_FAILED = {"failed", "fail", "failure"}
_MARKS = (
    ("pytest.", "pytest"),
    ("gtest", "gtest"),
    ("jest", "jest"),
    ("mocha", "mocha"),
    ("vitest", "vitest"),
    ("phpunit", "phpunit"),
    ("rspec", "rspec"),
    ("ctest", "ctest"),
    ("nextest", "nextest"),
)


class _Dialect:
    def __init__(self) -> None:
        self.report = ReportBuilder("junit")
        self.expected = 0

    def visit(self, node: XmlNode, path: list[XmlNode]) -> None:
        if node.tag != "testcase":
            self._outside_tests(node, path)
            return
        if self.report.tool == "junit":
            self.report.tool = _tool(path)
        outcome, mark = _outcome(node)
        loaded = not (mark is not None and mark.get("message") == "collection failure")
        name = _name(node, path, pytest=self.report.tool == "pytest")
        problem = None
        if mark is not None and outcome in {"failed", "error"}:
            where = node.get("file", "filepath") or None
            line = _number(node.get("line", "lineno"))
            rule = mark.get("type") if loaded else COLLECTION
            message = mark.get("message") or mark.get("type") if loaded else ""
            problem = failure.detail(name, message, mark.text(), file=where, line=line, rule=rule)
        elif outcome in {"failed", "error"}:
            problem = failure.detail(name, node.get("message", "status", "result"))
        self.report.collected &= loaded
        if outcome == "xfailed":
            self.expected += 1
        self.report.test(name, outcome, problem)

    def _outside_tests(self, node: XmlNode, path: list[XmlNode]) -> None:
        """Record a failure outside any test: a fixture, or a file that did not load."""
        if path and path[-1].tag in {"testsuite", "testsuites"}:
            name = path[-1].get("name") or "suite"
            self.report.test(name, "error", failure.detail(name, node.get("message", "type"), node.text()))


def _tool(path: list[XmlNode]) -> str:
    names = " ".join(node.get("name") + " " + node.get("package") for node in path).lower()
    if "pytest" in names:
        return "pytest"
    return next((tool for mark, tool in _MARKS if mark in names), "junit")


def _outcome(node: XmlNode) -> tuple[Outcome, XmlNode | None]:
    marks = {child.tag: child for child in reversed(node.children)}
    if "error" in marks:
        return "error", marks["error"]
    if "failure" in marks:
        return "failed", marks["failure"]
    skipped = marks.get("skipped") or marks.get("disabled") or marks.get("ignored")
    if skipped is not None:
        return _left_out(skipped), skipped
    states = {node.get("status").lower(), node.get("result").lower()}
    if states & _UNRUN:
        return "skipped", None
    return ("failed", None) if states & _FAILED else ("passed", None)


def _left_out(mark: XmlNode) -> Outcome:
    if mark.get("message").startswith(
        "Unable to find executable"
    ):  # CTest reports a test it could not start as skipped
        return "error"
    return "xfailed" if mark.get("type") in {"pytest.xfail", "xfail"} else "skipped"


def _name(node: XmlNode, path: list[XmlNode], *, pytest: bool) -> str:
    classname, name, file = node.get("classname", "class"), node.get("name"), node.get("file", "filepath")
    if pytest:
        return identity.pytest(classname, name, file)
    if not classname or classname in {name, "test"}:
        suites = [suite.get("name").removeprefix("(empty)") for suite in path if suite.tag == "testsuite"]
        classname = " > ".join(suite for suite in suites if suite)
    return identity.plain(classname, name, file)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 8 else None  # noqa: PLR2004 - no file is that long


def read(text: str) -> ReportReading:
    dialect = _Dialect()
    broken = xml_stream.walk(text, _ITEMS, dialect.visit)
    if broken:
        dialect.report.cut(broken)
    counts = dialect.report.counts()
    # JUnit has no outcome for expected failures; its writers count them as skipped.
    skipped = counts.skipped + dialect.expected
    return dialect.report.reading(counts.model_copy(update={"skipped": skipped, "xfailed": 0}))
