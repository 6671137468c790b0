"""Reads JUnit XML in the dialects of those who write it."""

from __future__ import annotations

from reflectloop.verify.reports import failure, identity, markup
from reflectloop.verify.reports.markup import Node
from reflectloop.verify.reports.tally import COLLECTION, Tally
from reflectloop.verify.result import Outcome, Reading

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
        self.tally = Tally("junit")
        self.expected = 0

    def visit(self, node: Node, path: list[Node]) -> None:
        if node.tag != "testcase":
            self._beside(node, path)
            return
        if self.tally.tool == "junit":
            self.tally.tool = _tool(path)
        outcome, mark = _outcome(node)
        loaded = not (mark is not None and mark.get("message") == "collection failure")
        name = _name(node, path, pytest=self.tally.tool == "pytest")
        problem = None
        if mark is not None and outcome in {"failed", "error"}:
            where = node.get("file", "filepath") or None
            line = _number(node.get("line", "lineno"))
            rule = mark.get("type") if loaded else COLLECTION
            said = mark.get("message") or mark.get("type") if loaded else ""
            problem = failure.detail(name, said, mark.text(), file=where, line=line, rule=rule)
        elif outcome in {"failed", "error"}:
            problem = failure.detail(name, node.get("message", "status", "result"))
        self.tally.collected &= loaded
        if outcome == "xfailed":
            self.expected += 1
        self.tally.test(name, outcome, problem)

    def _beside(self, node: Node, path: list[Node]) -> None:
        """What failed outside any test: a fixture, a file that did not load."""
        if path and path[-1].tag in {"testsuite", "testsuites"}:
            name = path[-1].get("name") or "suite"
            self.tally.test(name, "error", failure.detail(name, node.get("message", "type"), node.text()))


def _tool(path: list[Node]) -> str:
    names = " ".join(node.get("name") + " " + node.get("package") for node in path).lower()
    if "pytest" in names:
        return "pytest"
    return next((tool for mark, tool in _MARKS if mark in names), "junit")


def _outcome(node: Node) -> tuple[Outcome, Node | None]:
    marks = {child.tag: child for child in reversed(node.children)}
    if "error" in marks:
        return "error", marks["error"]
    if "failure" in marks:
        return "failed", marks["failure"]
    skipped = marks.get("skipped") or marks.get("disabled") or marks.get("ignored")
    if skipped is not None:
        return _left_out(skipped), skipped
    words = {node.get("status").lower(), node.get("result").lower()}
    if words & _UNRUN:
        return "skipped", None
    return ("failed", None) if words & _FAILED else ("passed", None)


def _left_out(mark: Node) -> Outcome:
    if mark.get("message").startswith("Unable to find executable"):  # CTest could not start it, and calls that skipped
        return "error"
    return "xfailed" if mark.get("type") in {"pytest.xfail", "xfail"} else "skipped"


def _name(node: Node, path: list[Node], *, pytest: bool) -> str:
    classname, name, file = node.get("classname", "class"), node.get("name"), node.get("file", "filepath")
    if pytest:
        return identity.pytest(classname, name, file)
    if not classname or classname in {name, "test"}:
        suites = [suite.get("name").removeprefix("(empty)") for suite in path if suite.tag == "testsuite"]
        classname = " > ".join(suite for suite in suites if suite)
    return identity.plain(classname, name, file)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 8 else None  # noqa: PLR2004 - no file is that long


def read(shown: str) -> Reading:
    dialect = _Dialect()
    broken = markup.walk(shown, _ITEMS, dialect.visit)
    if broken:
        dialect.tally.cut(broken)
    counts = dialect.tally.counts()
    # JUnit knows no expected failure: its writers count them among the skipped, and so do its readers.
    skipped = counts.skipped + dialect.expected
    return dialect.tally.reading(counts.model_copy(update={"skipped": skipped, "xfailed": 0}))
