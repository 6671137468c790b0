"""Finds what a sed script runs or writes: a small reader of its commands. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_ADDRESS = re.compile(
    r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*|\\(.)(?:(?!\1)[^\\\n]|\\.)*\1[IM]*)"
    r"\s*(?:[,+~]\s*)?(?:[+~]?\d+|\$)?[ \t,]*"
)
_MOST = 500  # commands of one script


class SedEffect(NamedTuple):
    """`runs` with an empty text runs what is in the pattern space."""

    kind: Literal["runs", "writes"]
    text: str


def effects(script: str) -> Iterator[SedEffect]:
    """Yield what the commands of a script run, and the files they write."""
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
            ended = _substituted(script, at)
            flags = re.match(r"[gpiImM\d]*(e?)[gpiImM\d]*(?:w\s*([^\n]*))?", script[ended:])
            if command == "s" and flags and flags[1]:
                yield SedEffect("runs", "")
            if command == "s" and flags and flags[2]:
                yield SedEffect("writes", flags[2].strip())
            at = ended + (flags.end() if flags else 0)
            continue
        at = _behind(script, at)


def _start(script: str, at: int) -> int:
    """Skip blanks, separators and addresses before a command."""
    while at < len(script):
        if script[at] in " \t\n;{}!":
            at += 1
            continue
        found = _ADDRESS.match(script, at)
        if found is None or found.end() == at:
            return at
        at = found.end()
    return at


def _substituted(script: str, at: int) -> int:
    """Return the place behind the third delimiter of `s` or `y`."""
    mark, left, at = script[at + 1 : at + 2], 2, at + 2
    while at < len(script) and left:
        if script[at] == "\\":
            at += 1
        elif script[at] == mark:
            left -= 1
        at += 1
    return at


def _behind(script: str, at: int) -> int:
    """Return the place behind a command that takes the rest of its line, or ends at a separator."""
    to_line_end = script[at] in "aicrRwWeb:tT#"
    ends = "\n" if to_line_end else "\n;}"
    while at < len(script) and script[at] not in ends:
        at += 1
    return at
