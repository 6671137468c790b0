"""Reads what `go test` prints: tests come first, their package after them."""

from __future__ import annotations

import re

from reflectloop.verify.reports import failure, identity, issues
from reflectloop.verify.reports.runner import Said
from reflectloop.verify.reports.tally import COLLECTION, Tally
from reflectloop.verify.result import Outcome

_TEST = re.compile(r"^\s*--- (?P<word>PASS|FAIL|SKIP|BENCH): (?P<name>\S+)")
_PACKAGE = re.compile(
    r"^(?P<word>ok|FAIL|\?|---)\s*\t(?P<name>\S+)(?:\t| )(?P<rest>.*)$|^(?P<bare>FAIL)\t(?P<only>\S+)$"
)
_LOOKS = re.compile(r"^(?:ok  |FAIL|\?   )\t\S+[\t ]|^--- (?:PASS|FAIL): \w+ \(", re.MULTILINE)
_OUTCOMES: dict[str, Outcome] = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped", "BENCH": "passed"}
_FRAME = ("=== ", "--- ", "FAIL", "ok  ", "PASS", "exit status")
_BUILD = ("[build failed]", "[setup failed]")


class _Reader:
    def __init__(self) -> None:
        self.tally = Tally("go")
        self.waiting: list[tuple[str, Outcome, int]] = []  # tests whose package is not named yet
        self.begun = 0  # where the package's output begins

    def go(self, lines: list[str]) -> None:
        for number, line in enumerate(lines):
            if test := _TEST.match(line):
                self.waiting.append((test["name"], _OUTCOMES[test["word"]], number))
            elif package := _PACKAGE.match(line):
                self._package(package, lines, number)
        self._tests("", lines, len(lines))

    def _package(self, found: re.Match[str], lines: list[str], number: int) -> None:
        name, word = found["name"] or found["only"], found["word"] or found["bare"]
        failed = any(outcome == "failed" for _, outcome, _ in self.waiting)
        told = bool(self.waiting)
        self._tests(name, lines, number)
        text = "\n".join(lines[self.begun : number][-200:])
        self.begun = number + 1
        if any(mark in lines[number] for mark in _BUILD):
            self.tally.collected, self.tally.kind = False, "build"
            self.tally.test(name, "error")
            for problem in issues.details(lines)[:50]:
                self.tally.issue(problem)
            if not self.tally.details:
                self.tally.issue(failure.detail(name, lines[number], rule=COLLECTION))
        elif word == "FAIL" and not failed:
            self.tally.test(name, "error", failure.detail(name, "", text))
        elif word == "ok" and not told and "[no tests to run]" not in lines[number]:
            self.tally.test(name, "passed")  # without -v a package is all that is told

    def _tests(self, package: str, lines: list[str], end: int) -> None:
        parents = identity.parents(name for name, outcome, _ in self.waiting if outcome == "failed")
        for place, (name, outcome, number) in enumerate(self.waiting):
            whole = identity.plain(package, name)
            problem = None
            if outcome == "failed" and name not in parents:
                until = self.waiting[place + 1][2] if place + 1 < len(self.waiting) else end
                problem = failure.detail(whole, "", self._text(name, lines, number, until))
            self.tally.test(whole, outcome, problem)
        self.waiting = []

    def _text(self, name: str, lines: list[str], number: int, until: int) -> str:
        """What a test said: after its result, or with -v before it."""
        after = [line for line in lines[number + 1 : until] if not line.startswith(_FRAME)]
        if any(line.strip() for line in after):
            return "\n".join(after[:120])
        before = lines[max(self.begun, number - 120) : number]
        starts = [place for place, line in enumerate(before) if line.endswith(f" {name}") and line.startswith("===")]
        return "\n".join(line for line in before[starts[0] if starts else 0 :] if not line.lstrip().startswith(_FRAME))


def read(shown: str, lines: list[str]) -> Said | None:
    found = _LOOKS.search(shown)
    if not found:
        return None
    reader = _Reader()
    reader.go(lines)
    return Said(reader.tally.reading(reader.tally.counts()), found.end())
