"""What one rule is: a kind of command, of code, or of line that a patch adds, and what is said about it."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import re2

Verb = Literal["confirm", "deny"]


class PolicyRule(NamedTuple):
    id: str
    verdict: Verb
    reason: str
    program: tuple[str, ...] = ()  # of a command; `*` is every one
    sub: tuple[str, ...] = ()  # its first words that are no options, each `one|or|other`
    flags: tuple[str, ...] = ()  # options that must all be there, each `-f|--force`
    without: tuple[str, ...] = ()  # options that make it harmless
    args: str = ""  # what one of its words must match
    place: tuple[str, ...] = ()  # what kind of place one of its words must name
    writes: tuple[str, ...] = ()  # what kind of place a redirection must go to
    check: str = ""  # which of `checks.CHECKS` has the last word
    language: tuple[str, ...] = ()  # of code
    code: str = ""  # what the code must match
    files: str = ""  # of an added line: what its path must match
    line: str = ""  # what the line must match
    unless: str = ""  # and what it must not
    reach: Literal["", "folder"] = ""  # `folder`: the harm stays in the folder it runs in, which may be a copy

    @property
    def kind(self) -> Literal["command", "code", "added", "shape"]:
        if self.line or self.files:
            return "added"
        if self.language:
            return "code"
        return "command" if self.program else "shape"


def from_row(row: list[Any]) -> PolicyRule:
    return PolicyRule._make(tuple(value) if isinstance(value, list) else value for value in row)


@cache
def compiled(pattern: str) -> re2._Regexp:
    """Linear in the text, whatever the pattern."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = 64 << 20
    return re2.compile(pattern, options)
