"""Find what a sed script runs or writes, with a small parser of its commands. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from reflectloop.system import patterns

_ADDRESS = patterns.lazy(
    r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*|\\(.)(?:(?!\1)[^\\\n]|\\.)*\1[IM]*)"
    r"\s*(?:[,+~]\s*)?(?:[+~]?\d+|\$)?[ \t,]*"
)
_MOST = 500  # commands of one script


class SedEffect(NamedTuple):
    """A command or file of a sed script. `runs` with an empty text runs the pattern space."""

    kind: Literal["runs", "writes"]
    text: str


def effects(script: str) -> Iterator[SedEffect]:
    """Yield the commands that a script runs, and the files that it writes."""
    at = 0
    for _ in range(_MOST):
        at = _start(script, at)
        if at >= len(script):
            return
        command = script[at]
        line = script[at + 1 :].split("\n", 1)[0]
        if command == "e":
            yield SedEffect("runs", line.strip())
        elif command in "wW":
            yield SedEffect("writes", line.strip())
        elif command in "sy":
            ended = _after_substitution(script, at)
            flags = re.match(r"[gpiImM\d]*(e?)[gpiImM\d]*(?:w\s*([^\n]*))?", script[ended:])
            if command == "s" and flags and flags[1]:
                yield SedEffect("runs", "")
            if command == "s" and flags and flags[2]:
                yield SedEffect("writes", flags[2].strip())
            at = ended + (flags.end() if flags else 0)
            continue
        at = _after_command(script, at)


def _start(script: str, at: int) -> int:
    """Return the position of the next command, after blanks, separators and addresses."""
    while at < len(script):
        if script[at] in " \t\n;{}!":
            at += 1
            continue
        match = _ADDRESS.match(script, at)
        if match is None or match.end() == at:
            return at
        at = match.end()
    return at


def _after_substitution(script: str, at: int) -> int:
    """Return the position after the third delimiter of `s` or `y`."""
    mark, left, at = script[at + 1 : at + 2], 2, at + 2
    while at < len(script) and left:
        if script[at] == "\\":
            at += 1
        elif script[at] == mark:
            left -= 1
        at += 1
    return at


def _after_command(script: str, at: int) -> int:
    """Return the position after a command that takes the rest of its line, or ends at a separator."""
    to_line_end = script[at] in "aicrRwWeb:tT#"
    ends = "\n" if to_line_end else "\n;}"
    while at < len(script) and script[at] not in ends:
        at += 1
    return at
