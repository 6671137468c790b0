"""The progress of a verification: which run of a check is on, how many tests are done, how long it may take."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from reflectloop.system import files
from reflectloop.system.patterns import lazy

_MINUTE = 60
_LONG = 90  # seconds from which minutes are shown
_MOST_TIMES = 400  # runs whose time is stored
_LONGEST_LINE = 4096
_COLOUR = lazy(r"\x1b\[[0-9;?]*[A-Za-z]")
_DOTS = lazy(r"(?:\S+\.py:? )?([.FEsxXu*]+)(?:\s+\[\s*\d{1,3}%\])?\s*")
_DONE_OF_TOTAL = lazy(r"\s*(\d+)/(\d+) Test\s+#\d+: |.*\s(\d+) / (\d+) \(\s*\d+%\)\s*$")  # ctest
_TOTAL = lazy(r"collected (\d+) items?$|collected \d+ items? / .*\b(\d+) selected$|1\.\.(\d+)$")  # pytest, TAP
_ONE_TEST = lazy(
    r".*\b(?:PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR)\b.*\[\s*\d+%\]\s*$|"  # pytest -v
    r"\s*(?:not )?ok \d+\b|"  # TAP
    r"test .+ \.\.\. (?:ok|FAILED|ignored)|"  # cargo
    r"\s*--- (?:PASS|FAIL|SKIP): |\{.*\"Action\":\s*\"(?:pass|fail|skip)\".*\"Test\":|"  # go
    r"\s*(?:✓|✔|√|✖|✗|×) \S|\s+\d+\) \S|"  # mocha, jest, node
    r".+ \.\.\. (?:ok|FAIL|ERROR|skipped .*|expected failure)\s*$|"  # unittest -v
    r"\[\s+(?:OK|FAILED|SKIPPED)\s+\] .+\(\d+ ms|"  # GoogleTest
    r"\s+(?:Passed|Failed|Skipped) \S"  # dotnet
)


class TestCounter:
    """Counts the tests that a runner reports while it prints."""

    __test__ = False  # no test class, whatever pytest thinks of its name

    def __init__(self) -> None:
        self.total: int | None = None
        self._done = 0
        self._rest = b""

    @property
    def done(self) -> int:
        return self._done + self._count(self._rest)

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        for line in lines:
            self._done += self._count(line)

    def _count(self, raw: bytes) -> int:
        """Return how many tests a line reports; a line with its own count sets the number instead."""
        line = _COLOUR.sub("", raw[-_LONGEST_LINE:].decode("utf-8", "replace"))
        if match := _DONE_OF_TOTAL.match(line):
            done, self.total = (int(number) for number in match.groups() if number)
            return done - self._done
        if match := _TOTAL.match(line):
            self.total = next(int(number) for number in match.groups() if number)
            return 0
        if (match := _DOTS.fullmatch(line)) and ("." in match[1] or "%" in line):
            return len(match[1])
        return 1 if _ONE_TEST.match(line) else 0


@dataclass(frozen=True)
class RunningCheck:
    """One run of a check: its place among the runs, what the last such run took, and the tests that are done."""

    number: int  # 0 if it is not counted
    total: int  # an estimate
    name: str
    place: str  # description of the tree
    expected_ms: int | None = None
    tests: int | None = None  # of the last such run
    counter: TestCounter = field(default_factory=TestCounter, compare=False)

    @property
    def expected(self) -> str:
        """Return how long it is expected to take, or nothing if no such run is known."""
        return duration(max(1.0, self.expected_ms / 1000)) if self.expected_ms is not None else ""

    @property
    def title(self) -> str:
        name = f"{self.name} {self.place}"
        return f"{self.number} of about {max(self.number, self.total)}: {name}" if self.number else name

    def status(self, elapsed_s: float) -> str:
        return ", ".join(self.facts(elapsed_s))

    def facts(self, elapsed_s: float) -> list[str]:
        """Return what is known while it runs: which run it is, tests done of all, time passed of the expected."""
        parts = [self.title]
        total, done = self.counter.total or self.tests, self.counter.done
        if done:
            parts.append(f"{min(done, total)} of {total} tests" if total else f"{done} test{'s' * (done > 1)}")
        passed = duration(elapsed_s)
        return [*parts, f"{passed} of about {self.expected}" if self.expected else passed]


class CheckObserver(Protocol):
    """An observer of runs: it is told when one begins, what it prints, and how it ended."""

    def check_started(self, run: RunningCheck) -> None: ...
    def output(self, name: str, data: bytes) -> None: ...
    def check_ended(self, run: RunningCheck, summary: str, duration_ms: int, *, ok: bool) -> None: ...


def duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < _LONG else f"{whole // _MINUTE} min {whole % _MINUTE} s"


class Times:
    """The time and the number of tests of earlier runs, stored in one small file. A damaged file is started again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, list[int]] | None = None

    def last(self, name: str, only: Sequence[str] = ()) -> tuple[int, int] | None:
        """Return the milliseconds and the number of tests of the last run of a check, or None."""
        entry = self._entries().get(_key(name, only))
        return (entry[0], entry[1]) if entry else None

    def add(self, name: str, only: Sequence[str], duration_ms: int, tests: int) -> None:
        entries = self._entries()
        entries.pop(_key(name, only), None)
        entries[_key(name, only)] = [duration_ms, tests]
        for oldest in list(entries)[:-_MOST_TIMES]:
            del entries[oldest]
        with files.room_for(self._path.name, self._path.parent):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(entries))  # not flushed to disk: a damaged file is started again

    def _entries(self) -> dict[str, list[int]]:
        if self._known is None:
            try:
                stored = json.loads(self._path.read_bytes())
                self._known = {str(key): [int(entry[0]), int(entry[1])] for key, entry in stored.items()}
            except (OSError, ValueError, TypeError, AttributeError, LookupError):
                self._known = {}
        return self._known


def _key(name: str, only: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps([name, sorted(only)]).encode()).hexdigest()[:16]
