"""Read XML reports of tests: JUnit's in the variants its writers produce, and those of other frameworks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from reflectloop.verification.reports import failure, identity, xml_stream
from reflectloop.verification.reports.report_builder import COLLECTION, ReportBuilder
from reflectloop.verification.reports.xml_stream import XmlNode
from reflectloop.verification.result import Detail, Outcome, ReportReading
from reflectloop.verification.tools.record import XmlFormat
from reflectloop.verification.tools.registry import by_name, tools

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


@cache
def formats() -> dict[str, XmlFormat]:
    """Return the known formats by the name of their root element."""
    return {form.root: form for tool in tools() for form in tool.output.xml}


class _Reader:
    def __init__(self, form: XmlFormat) -> None:
        self._form = form
        self.report = ReportBuilder(form.tool)

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
        if not self._form.outcome:
            return _outcome_of_parts(node)
        if node.get("executed").lower() == "false":
            return "skipped"
        word = node.get(*self._form.outcome).lower()
        not_started = self._form.not_started
        if not_started and word == "notrun" and not_started in _all_text(node):
            return "error"
        if word == "failed" and node.get("label").lower() in {"error", "invalid"}:
            return "error"
        return _OUTCOMES.get(word, "error")

    def _name(self, node: XmlNode, path: list[XmlNode]) -> str:
        name = node.get(*self._form.name)
        inner = node.find(*self._form.name)
        if not name and inner is not None:
            name = inner.text().strip()
        if not self._form.outcome:
            return identity.plain(" > ".join(parent.get("name") for parent in path if parent.get("name")), name)
        return identity.plain(node.get(*self._form.scope) if self._form.scope else "", name)


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
        name, message, text or message, file=place.get("file") or None, line=int(line) if line.isdecimal() else None
    )


def _all_text(node: XmlNode) -> str:
    """Return the text of an element and of every element inside it."""
    pieces, waiting = [], [node]
    while waiting:
        current = waiting.pop()
        pieces.append(current.text())
        waiting.extend(reversed(current.children))
    return "".join(pieces).strip()


def read_other(text: str, root: str) -> ReportReading:
    reader = _Reader(formats()[root])
    broken = xml_stream.walk(text, {formats()[root].item}, reader.visit)
    if broken:
        reader.report.cut(broken)
    return reader.report.reading()


ROOTS = frozenset({"testsuites", "testsuite", "testcase"})
_ITEMS = frozenset({"testcase", "error", "failure"})
_UNRUN = {"disabled", "notrun", "not_run", "skipped", "ignored", "suppressed", "pending", "skip", "todo", "inactive"}
_FAILED = {"failed", "fail", "failure"}


# Reads the cases in the output of a program that is one test of a report.
CaseReader = Callable[[str], ReportReading | None]


class _Dialect:
    def __init__(self, cases: CaseReader | None) -> None:
        self.report = ReportBuilder("junit")
        self.expected = 0
        self._cases = cases

    def visit(self, node: XmlNode, path: list[XmlNode]) -> None:
        if node.tag != "testcase":
            self._outside_tests(node, path)
            return
        if self.report.tool == "junit":
            self.report.tool = _tool(path)
        outcome, mark = _outcome(node)
        loaded = not (mark is not None and mark.get("message") == "collection failure")
        name = _name(node, path, self.report.tool)
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
        if self._cases is not None:
            self._add_cases(name, node)
        self.report.test(name, outcome, problem)

    def _add_cases(self, program: str, node: XmlNode) -> None:
        """Add the cases that a program's output names; a case that CMake lists by itself is no second test."""
        output = node.find("system-out")
        cases = self._cases(output.text()) if self._cases and output is not None else None
        if cases is None:
            return
        for name, outcome in cases.tests.items():
            if name not in program:
                self.report.tests[f"{program}::{name}"] = outcome
        for problem in cases.details:
            self.report.issue(problem.model_copy(update={"test": f"{program}::{problem.test}"}))

    def _outside_tests(self, node: XmlNode, path: list[XmlNode]) -> None:
        """Record a failure outside any test: a fixture, or a file that did not load."""
        if path and path[-1].tag in {"testsuite", "testsuites"}:
            name = path[-1].get("name") or "suite"
            self.report.test(name, "error", failure.detail(name, node.get("message", "type"), node.text()))


def _tool(path: list[XmlNode]) -> str:
    names = " ".join(node.get("name") + " " + node.get("package") for node in path).lower()
    return next((tool.name for tool in tools() if any(mark in names for mark in tool.output.junit_names)), "junit")


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


def _name(node: XmlNode, path: list[XmlNode], tool: str) -> str:
    classname, name, file = node.get("classname", "class"), node.get("name"), node.get("file", "filepath")
    if tool in by_name() and by_name()[tool].output.dotted_junit_ids:
        return identity.pytest(classname, name, file)
    if not classname or classname in {name, "test"}:
        suites = [suite.get("name").removeprefix("(empty)") for suite in path if suite.tag == "testsuite"]
        classname = " > ".join(suite for suite in suites if suite)
    return identity.plain(classname, name, file)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 8 else None  # noqa: PLR2004 - no file is that long


def read_junit(text: str, cases: CaseReader | None = None) -> ReportReading:
    """Read a JUnit report; with `cases`, also the output of its tests, each of which is a program."""
    dialect = _Dialect(cases)
    broken = xml_stream.walk(text, _ITEMS, dialect.visit)
    if broken:
        dialect.report.cut(broken)
    counts = dialect.report.counts()
    # JUnit has no outcome for expected failures; its writers count them as skipped.
    skipped = counts.skipped + dialect.expected
    return dialect.report.reading(counts.model_copy(update={"skipped": skipped, "xfailed": 0}))
