"""Reads TAP, with subtests as node:test and others write them."""

from __future__ import annotations

import re

from reflectloop.verify.reports import failure
from reflectloop.verify.reports.tally import Tally
from reflectloop.verify.result import Counts, Outcome, Reading

_POINT = re.compile(
    r"^(?P<indent> *)(?P<not>not )?ok\b(?: +(?P<number>\d+))?(?: *-)? *(?P<name>(?:[^#\\]|\\.)*)"
    r"(?:# *(?P<directive>.*))?$"
)
_PLAN = re.compile(r"^(?P<indent> *)1\.\.(?P<count>\d+)(?: *# *(?P<why>.*))?$")
_SUBTEST = re.compile(r"^(?P<indent> *)# Subtest: (?P<name>.*)$")
_BAIL = re.compile(r"^ *Bail out!(.*)$", re.MULTILINE)
_LOOKS = re.compile(r"^(?:TAP version \d+|1\.\.\d+|(?:not )?ok \d+\b.*|(?:not )?ok - .*)$", re.MULTILINE)
_STARTS = re.compile(r"^TAP version \d+$|^1\.\.\d+(?: |$)|^# Subtest: ", re.MULTILINE)
_SUM = re.compile(r"^# (tests|pass|fail|skipped|todo|cancelled) (\d+)$", re.MULTILINE)
_FIELD = re.compile(r"^\s+(?P<name>location|error|message|at|file|line|type|failureType): *(?P<value>.*)$")


def looks(shown: str) -> bool:
    if _BAIL.search(shown):
        return True
    return "ok " in shown and bool(_STARTS.search(shown)) and bool(_LOOKS.search(shown))


class _Reader:
    def __init__(self) -> None:
        self.tally = Tally("tap")
        self.names: list[tuple[int, str]] = []  # the subtests we are in, by indentation
        self.had_children: set[int] = set()
        self.planned: dict[int, int] = {}
        self.seen: dict[int, int] = {}

    def go(self, lines: list[str]) -> None:
        for number, line in enumerate(lines):
            if begun := _SUBTEST.match(line):
                self._enter(len(begun["indent"]), begun["name"].strip())
            elif plan := _PLAN.match(line):
                self.planned[len(plan["indent"])] = int(plan["count"])
            elif point := _POINT.match(line):
                if line.endswith("{"):  # what lies in it comes after it
                    self._enter(len(point["indent"]), point["name"].strip())
                    self.seen[len(point["indent"])] = self.seen.get(len(point["indent"]), 0) + 1
                else:
                    self._point(point, lines, number)

    def _enter(self, indent: int, name: str) -> None:
        self.names = [one for one in self.names if one[0] < indent]
        self.names.append((indent, name))

    def _point(self, point: re.Match[str], lines: list[str], number: int) -> None:
        indent = len(point["indent"])
        self.seen[indent] = self.seen.get(indent, 0) + 1
        parent = any(deep > indent for deep in self.had_children)
        self.had_children = {deep for deep in self.had_children if deep <= indent} | {indent}
        name = point["name"].replace("\\#", "#").strip() or f"test {point['number'] or self.seen[indent]}"
        scope = [told for deep, told in self.names if deep < indent]
        whole = " > ".join([*scope, name])
        self.names = [one for one in self.names if one[0] < indent]
        outcome = _outcome(point)
        if outcome != "failed":
            if not parent:
                self.tally.test(whole, outcome)
            return
        said, text = _diagnostic(lines, number, indent)
        if parent and ("subtest" in said.get("failureType", "") or "subtest" in said.get("error", "").lower()):
            return  # it failed because one of those in it did, and that is told
        location = re.match(r"(.+?):(\d+)(?::\d+)?$", said.get("location", said.get("at", "")))
        problem = failure.detail(
            whole,
            said.get("error") or said.get("message", ""),
            text,
            file=location[1] if location else None,
            line=int(location[2]) if location else None,
        )
        if not parent or not self.tally.details or not (self.tally.details[-1].test or "").startswith(whole + " > "):
            self.tally.test(whole, outcome, problem)


def _outcome(point: re.Match[str]) -> Outcome:
    directive = (point["directive"] or "").upper()
    if directive.startswith("SKIP"):
        return "skipped"
    if directive.startswith("TODO"):
        return "xfailed" if point["not"] else "skipped"
    return "failed" if point["not"] else "passed"


def _diagnostic(lines: list[str], number: int, indent: int) -> tuple[dict[str, str], str]:
    said: dict[str, str] = {}
    kept: list[str] = []
    for line in lines[number + 1 : number + 60]:
        if _POINT.match(line) or _PLAN.match(line) or _SUBTEST.match(line) or line.strip() == "...":
            break
        kept.append(line[indent:])
        if field := _FIELD.match(line):
            said.setdefault(field["name"], field["value"].strip().strip("'\"").removesuffix("|-").strip())
    if "error" in said and not said["error"]:
        after = [line.strip() for line in kept if line.strip()]
        spot = next((place for place, line in enumerate(after) if line.startswith("error:")), -1)
        said["error"] = " ".join(after[spot + 1 : spot + 3])
    return said, "\n".join(kept)


def read(shown: str, lines: list[str]) -> Reading:
    reader = _Reader()
    reader.go(lines)
    noted = reader.tally
    if bail := _BAIL.search(shown):
        noted.cut(f"it bailed out:{bail[1]}")
    elif 0 not in reader.planned:
        noted.cut("it has no plan line")
    elif reader.planned[0] != reader.seen.get(0, 0):
        noted.cut(f"{reader.planned[0]} tests were planned and {reader.seen.get(0, 0)} told")
    sums = {name: int(number) for name, number in _SUM.findall(shown)}
    if {"pass", "fail", "tests", "cancelled"} <= set(sums):
        noted.tool = "node"
        return noted.reading(_told(sums))
    return noted.reading()


def _told(sums: dict[str, int]) -> Counts:
    failed = sums["fail"] + sums.get("cancelled", 0)
    return Counts(passed=sums["pass"], failed=failed, skipped=sums.get("skipped", 0) + sums.get("todo", 0))
