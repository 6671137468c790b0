"""Reads the XML of test frameworks that do not write JUnit's: NUnit, xUnit, MSTest, TestNG, CTest, Qt, Boost."""

from __future__ import annotations

from typing import NamedTuple

from reflectloop.verify.reports import failure, identity, markup
from reflectloop.verify.reports.markup import Node
from reflectloop.verify.reports.tally import Tally
from reflectloop.verify.result import Detail, Outcome, Reading

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
    """Where a framework puts a test's name, what came of it, and what it said."""

    tool: str
    item: str
    outcome: tuple[str, ...]  # attributes; of several the first that is there
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
        self.tally = Tally(dialect.tool)

    def visit(self, node: Node, path: list[Node]) -> None:
        if any(one.tag == "TestList" for one in path) or (node.tag == "Test" and not node.attributes):
            return  # CTest names its tests before it tells what came of them
        if any(one.tag == node.tag for one in path):
            return  # a part of a test that is told as a whole
        if node.get("is-config") == "true" and node.get("status") != "FAIL":
            return
        outcome = self._outcome(node)
        name = self._name(node, path)
        self.tally.test(name, outcome, _problem(name, node) if outcome in {"failed", "error"} else None)

    def _outcome(self, node: Node) -> Outcome:
        """A word we do not know is no pass."""
        if self._dialect.tool in {"qtest", "boost"}:
            return _by_parts(node)
        if node.get("executed").lower() == "false":
            return "skipped"
        word = node.get(*self._dialect.outcome).lower()
        if self._dialect.tool == "ctest" and word == "notrun" and "Unable to find" in _all_text(node):
            return "error"
        if word == "failed" and node.get("label").lower() in {"error", "invalid"}:
            return "error"
        return _OUTCOMES.get(word, "error")

    def _name(self, node: Node, path: list[Node]) -> str:
        name = node.get(*self._dialect.name)
        inner = node.find(*self._dialect.name)
        if not name and inner is not None:
            name = inner.text().strip()
        if self._dialect.tool in {"qtest", "boost"}:
            return identity.plain(" > ".join(one.get("name") for one in path if one.get("name")), name)
        return identity.plain(node.get(*self._dialect.scope) if self._dialect.scope else "", name)


def _by_parts(node: Node) -> Outcome:
    """What a test is made of tells: the worst of it counts."""
    kinds = {child.get("type").lower() for child in node.children if child.tag == "Incident"}
    tags = {child.tag for child in node.children}
    if kinds & {"fail", "xpass"} or tags & {"Error", "FatalError", "Exception"}:
        return "failed"
    if tags & {"Skipped"} or kinds & {"skip"} or any(child.get("type") == "skip" for child in node.children):
        return "skipped"
    return "xfailed" if "xfail" in kinds else "passed"


_MESSAGES = ("message", "Message", "reason", "Error", "FatalError", "Exception", "Description", "Value")
_STACKS = ("stack-trace", "StackTrace", "full-stacktrace")


def _problem(name: str, node: Node) -> Detail:
    spoken = node.deep(*_MESSAGES)
    stack = node.deep(*_STACKS)
    message = _all_text(spoken) if spoken is not None else ""
    text = _all_text(stack) if stack is not None else ""
    place = spoken if spoken is not None and spoken.get("file") else node
    line = place.get("line")
    return failure.detail(
        name,
        message,
        text or message,
        file=place.get("file") or None,
        line=int(line) if line.isdecimal() else None,
    )


def _all_text(node: Node) -> str:
    """Of an element and all that lies in it."""
    pieces, waiting = [], [node]
    while waiting:
        one = waiting.pop()
        pieces.append(one.text())
        waiting.extend(reversed(one.children))
    return "".join(pieces).strip()


def read(shown: str, root: str) -> Reading:
    reader = _Reader(DIALECTS[root])
    broken = markup.walk(shown, {DIALECTS[root].item}, reader.visit)
    if broken:
        reader.tally.cut(broken)
    return reader.tally.reading()
