"""What a test runner said at its end, read so that two runs of the same suite can be compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Outcome(NamedTuple):
    """How a suite ended. Two are the same when all three are equal."""

    exit_code: int
    counts: tuple[tuple[str, int], ...]
    failing: frozenset[str]

    def __str__(self) -> str:
        told = ", ".join(f"{number} {word}" for word, number in self.counts) or "no summary"
        return f"{told} (exit {self.exit_code})"


Reader = Callable[[int, str], Outcome]


def _outcome(exit_code: int, counts: dict[str, int], failing: list[str]) -> Outcome:
    return Outcome(exit_code, tuple((word, number) for word, number in counts.items() if number), frozenset(failing))


def of_pytest(exit_code: int, text: str) -> Outcome:
    """Reads the last line and the short summary (`-rfE`); warnings are not outcomes."""
    text = _COLOUR.sub("", text)
    words = ("passed", "failed", "error", "skipped", "xfailed", "xpassed", "deselected")
    endings = re.findall(r"^.*\d+ (?:passed|failed|skipped|error).* in [\d.]+s.*$", text, re.MULTILINE)
    last = endings[-1] if endings else ""
    counts = {word: int(found[1]) for word in words if (found := re.search(rf"(\d+) {word}", last))}
    return _outcome(exit_code, counts, re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+(?:\[.*?\])?)", text, re.MULTILINE))


def of_unittest(exit_code: int, text: str) -> Outcome:
    ran = re.findall(r"^Ran (\d+) tests? in", text, re.MULTILINE)
    ended = re.findall(r"^(?:OK|FAILED)(?: \((.*)\))?$", text, re.MULTILINE)
    others = {word: int(number) for word, number in re.findall(r"([a-z]+)=(\d+)", ended[-1] if ended else "")}
    counts = {"passed": sum(map(int, ran)) - sum(others.values())} | others
    return _outcome(exit_code, counts, re.findall(r"^(?:FAIL|ERROR): (.+)$", text, re.MULTILINE))


def of_node(exit_code: int, text: str) -> Outcome:
    """Reads TAP with a count at its end, as node's own runner and tape write it."""
    words = ("pass", "fail", "cancelled", "skipped", "todo")
    counts = {word: int(found[1]) for word in words if (found := re.search(rf"^# {word} +(\d+)$", text, re.MULTILINE))}
    failing = [name for name in re.findall(r"^ *not ok \d+ (?:- )?(.+)$", text, re.MULTILINE) if "# TODO" not in name]
    return _outcome(exit_code, counts, failing)
