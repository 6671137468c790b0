"""Read TAP, with subtests as node:test and others write them."""

from __future__ import annotations

import re

from reflectloop.system.patterns import lazy
from reflectloop.verification.reports import failure
from reflectloop.verification.reports.report_builder import ReportBuilder
from reflectloop.verification.result import Counts, Outcome, ReportReading

_POINT = lazy(
    r"^(?P<indent> *)(?P<not>not )?ok\b(?: +(?P<number>\d+))?(?: *-)? *(?P<name>(?:[^#\\]|\\.)*)"
    r"(?:# *(?P<directive>.*))?$"
)
_PLAN = lazy(r"^(?P<indent> *)1\.\.(?P<count>\d+)(?: *# *(?P<why>.*))?$")
_SUBTEST = lazy(r"^(?P<indent> *)# Subtest: (?P<name>.*)$")
_BAIL = lazy(r"^ *Bail out!(.*)$", re.MULTILINE)
_LOOKS = lazy(r"^(?:TAP version \d+|1\.\.\d+|(?:not )?ok \d+\b.*|(?:not )?ok - .*)$", re.MULTILINE)
_STARTS = lazy(r"^TAP version \d+$|^1\.\.\d+(?: |$)|^# Subtest: ", re.MULTILINE)
_SUM = lazy(r"^# (tests|pass|fail|skipped|todo|cancelled) (\d+)$", re.MULTILINE)
_COMMENT = lazy(r"^# (?!(?:tests|pass|fail|skip|todo) +\d+$|ok$)(?P<name>\S.*)$")
_FIELD = lazy(r"^\s+(?P<name>location|error|message|at|file|line|type|failureType): *(?P<value>.*)$")


def looks(text: str) -> bool:
    """Return True if the text looks like TAP."""
    if _BAIL.search(text):
        return True
    return "ok " in text and bool(_STARTS.search(text)) and bool(_LOOKS.search(text))


class _Reader:
    def __init__(self, *, comments: bool) -> None:
        self.report = ReportBuilder("tap")
        self._comments = comments
        self.names: list[tuple[int, str]] = []  # the enclosing subtests, by indentation
        self.had_children: set[int] = set()
        self.planned: dict[int, int] = {}
        self.counted: dict[int, int] = {}

    def go(self, lines: list[str]) -> None:
        for number, line in enumerate(lines):
            if begun := _SUBTEST.match(line):
                self._enter(len(begun["indent"]), begun["name"].strip())
            elif self._comments and (comment := _COMMENT.match(line)):
                self.names = [(-1, comment["name"].strip())]
            elif plan := _PLAN.match(line):
                self.planned[len(plan["indent"])] = int(plan["count"])
            elif point := _POINT.match(line):
                if line.endswith("{"):  # its subtests follow it
                    self._enter(len(point["indent"]), point["name"].strip())
                    self.counted[len(point["indent"])] = self.counted.get(len(point["indent"]), 0) + 1
                else:
                    self._point(point, lines, number)

    def _enter(self, indent: int, name: str) -> None:
        self.names = [outer for outer in self.names if outer[0] < indent]
        self.names.append((indent, name))

    def _point(self, point: re.Match[str], lines: list[str], number: int) -> None:
        indent = len(point["indent"])
        self.counted[indent] = self.counted.get(indent, 0) + 1
        parent = any(deep > indent for deep in self.had_children)
        self.had_children = {deep for deep in self.had_children if deep <= indent} | {indent}
        name = point["name"].replace("\\#", "#").strip() or f"test {point['number'] or self.counted[indent]}"
        scope = [outer_name for deep, outer_name in self.names if deep < indent]
        full_name = " > ".join([*scope, name])
        self.names = [outer for outer in self.names if outer[0] < indent]
        outcome = _outcome(point)
        if outcome != "failed":
            if not parent:
                self.report.test(full_name, outcome)
            return
        fields, text = _diagnostic(lines, number, indent)
        if parent and ("subtest" in fields.get("failureType", "") or "subtest" in fields.get("error", "").lower()):
            return  # it failed because a subtest did, which is reported itself
        location = re.match(r"(.+?):(\d+)(?::\d+)?$", fields.get("location", fields.get("at", "")))
        problem = failure.detail(
            full_name,
            fields.get("error") or fields.get("message", ""),
            text,
            file=location[1] if location else None,
            line=int(location[2]) if location else None,
        )
        if (
            not parent
            or not self.report.details
            or not (self.report.details[-1].test or "").startswith(full_name + " > ")
        ):
            self.report.test(full_name, outcome, problem)


def _outcome(point: re.Match[str]) -> Outcome:
    directive = (point["directive"] or "").upper()
    if directive.startswith("SKIP"):
        return "skipped"
    if directive.startswith("TODO"):
        return "xfailed" if point["not"] else "skipped"
    return "failed" if point["not"] else "passed"


def _diagnostic(lines: list[str], number: int, indent: int) -> tuple[dict[str, str], str]:
    """Return the fields and the text of the diagnostic block below a test line."""
    fields: dict[str, str] = {}
    block: list[str] = []
    for line in lines[number + 1 : number + 60]:
        if _POINT.match(line) or _PLAN.match(line) or _SUBTEST.match(line) or line.strip() == "...":
            break
        block.append(line[indent:])
        if field := _FIELD.match(line):
            fields.setdefault(field["name"], field["value"].strip().strip("'\"").removesuffix("|-").strip())
    if "error" in fields and not fields["error"]:
        after = [line.strip() for line in block if line.strip()]
        spot = next((place for place, line in enumerate(after) if line.startswith("error:")), -1)
        fields["error"] = " ".join(after[spot + 1 : spot + 3])
    return fields, "\n".join(block)


def read(text: str, lines: list[str], *, comments: bool = False) -> ReportReading:
    """Read TAP; with `comments`, a comment names the test that the assertions below it are part of."""
    reader = _Reader(comments=comments)
    reader.go(lines)
    report = reader.report
    if bail := _BAIL.search(text):
        report.cut(f"it bailed out:{bail[1]}")
    elif 0 not in reader.planned:
        report.cut("it has no plan line")
    elif reader.planned[0] != reader.counted.get(0, 0):
        report.cut(f"{reader.planned[0]} tests were planned and {reader.counted.get(0, 0)} reported")
    sums = {name: int(number) for name, number in _SUM.findall(text)}
    if {"pass", "fail", "tests", "cancelled"} <= set(sums):
        report.tool = "node"
        return report.reading(_totals(sums))
    return report.reading()


def _totals(sums: dict[str, int]) -> Counts:
    failed = sums["fail"] + sums.get("cancelled", 0)
    return Counts(passed=sums["pass"], failed=failed, skipped=sums.get("skipped", 0) + sums.get("todo", 0))
