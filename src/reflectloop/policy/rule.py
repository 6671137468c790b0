"""A policy rule: which commands, code or added lines it matches, and its verdict."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import re2

Verb = Literal["confirm", "deny"]


class PolicyRule(NamedTuple):
    id: str
    verdict: Verb
    reason: str
    program: tuple[str, ...] = ()  # of a command; `*` is any program
    sub: tuple[str, ...] = ()  # its first arguments that are not options, each `a|b|c`
    flags: tuple[str, ...] = ()  # options that must all be present, each `-f|--force`
    without: tuple[str, ...] = ()  # options that make it harmless
    args: str = ""  # a pattern that one argument must match
    place: tuple[str, ...] = ()  # path classes; one argument must be in one of them
    writes: tuple[str, ...] = ()  # path classes; a redirection must write to one of them
    check: str = ""  # name in `checks.CHECKS` of a final check
    language: tuple[str, ...] = ()  # of code
    code: str = ""  # a pattern that the code must match
    files: str = ""  # of an added line: a pattern that its path must match
    line: str = ""  # a pattern that the line must match
    unless: str = ""  # a pattern that must not match
    reach: Literal["", "folder"] = ""  # `folder`: the harm stays in the current folder, which may be a copy

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
    """Compile a pattern for an engine whose time is linear in the text."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = 64 << 20
    return re2.compile(pattern, options)
