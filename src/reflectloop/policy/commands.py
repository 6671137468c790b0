"""Judges a command before it runs: every simple command in it, through whatever it is wrapped in, by every rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from reflectloop.policy import (
    command_starters,
    embedded_shell,
    files,
    git_commands,
    hidden_commands,
    matching,
    programs,
    scripts,
    variables,
    wrappers,
)
from reflectloop.policy.rule import PolicyRule
from reflectloop.policy.simple_command import LONGEST, Code, Inner, Opaque, ShellScript, SimpleCommand, of_argv
from reflectloop.policy.verdict import PolicyVerdict, worst

_DEEPEST = 8  # commands that start commands
_MOST = 2000  # parts of one command that are looked at
# Each finds what a command starts in one way.
_STARTS = (
    command_starters.inner,
    wrappers.inner,
    scripts.inner,
    variables.inner,
    files.inner,
    programs.inner,
    hidden_commands.inner,
)


def _found_in(part: ShellScript, one: SimpleCommand) -> SimpleCommand:
    """Return a command of a text; where the text may be no shell, marks in a name are no pattern."""
    words = tuple(word._replace(glob=False) for word in one.words) if part.guess else one.words
    return one._replace(words=words, through=part.through)


class JudgedPart(NamedTuple):
    """One part of a command, and what the rules say about it."""

    source: str
    through: tuple[str, ...]
    verdict: PolicyVerdict


class CommandPolicy:
    """The rules in force, by the program they are about."""

    def __init__(
        self, rules: Iterable[PolicyRule], allowed: frozenset[str] = frozenset(), *, in_copy: bool = False
    ) -> None:
        self.rules = tuple(rules)
        self.allowed = allowed
        self._in_copy = in_copy
        self._named = {rule.id: rule for rule in self.rules}
        self._codes = [rule for rule in self.rules if rule.kind == "code"]
        self._programs: dict[str, list[PolicyRule]] = {}
        for rule in self.rules:
            for name in rule.program if rule.kind == "command" else ():
                self._programs.setdefault(name, []).append(rule)

    def judge(self, command: str | Sequence[str]) -> PolicyVerdict:
        return worst(seen.verdict for seen in self.look(command))

    @cached_property
    def in_workspace(self) -> CommandPolicy:
        """The same rules for what runs in a copy of the project: what stays in its folder harms nobody."""
        return CommandPolicy(self.rules, self.allowed, in_copy=True)

    def look(self, command: str | Sequence[str]) -> Iterator[JudgedPart]:
        """Every part of a command, from the outside in."""
        first: Inner = ShellScript(command, ()) if isinstance(command, str) else of_argv(tuple(command))
        waiting: list[tuple[Inner, int]] = [(first, 0)]
        looked = 0
        while waiting:
            part, depth = waiting.pop(0)
            looked += 1
            if depth > _DEEPEST or looked > _MOST:
                yield self._seen("shell.too-deep", _source(part), part.through)
                return
            seen, inner = self._part(part)
            yield from (one for one in seen if hidden_commands.MARK not in one.through or one.verdict.verdict == "deny")
            waiting += [(one, depth + 1) for one in inner]

    def _part(self, part: Inner) -> tuple[list[JudgedPart], list[Inner]]:
        if isinstance(part, ShellScript):
            return self._script(part)
        if isinstance(part, Code):
            return [self._code(part)], list(embedded_shell.inner(part))
        if isinstance(part, Opaque):
            return [self._seen(part.rule, part.source, part.through)], []
        return [self._simple(part)], [found for inner in _STARTS for found in inner(part)]

    def _script(self, part: ShellScript) -> tuple[list[JudgedPart], list[Inner]]:
        from reflectloop.policy import shell  # noqa: PLC0415 - the parser is loaded when there is something to parse

        if len(part.text) > LONGEST:
            return [self._seen("shell.too-long", part.text[:60], part.through)], []
        # A shell drops what no text holds, and runs what is left.
        line = shell.read(part.text.replace("\0", ""), part.variables, part.folder)
        seen = []
        if "\0" in part.text:
            seen.append(self._seen("shell.unparsable", "a NUL in it", part.through))
        if line.broken and not part.guess:
            seen.append(self._seen("shell.unparsable", line.broken, part.through))
        if line.deep:
            seen.append(self._seen("shell.too-deep", part.text[:60], part.through))
        if line.bomb:
            seen.append(self._seen("shell.fork-bomb", line.bomb, part.through))
        if line.endless:
            seen.append(self._seen("shell.endless-jobs", line.endless, part.through))
        return seen, [_found_in(part, one) for one in line.commands]

    def _simple(self, one: SimpleCommand) -> JudgedPart:
        inside = self._in_copy and matching.stays_inside(one)
        one = git_commands.plain(one) if one.program == "git" else one
        looked = matching.CommandFacts(one)
        rules = (*self._programs.get(one.program, ()), *self._programs.get("*", ()))
        if looked.harmless:
            return JudgedPart(one.source, one.through, PolicyVerdict("allow"))
        hits = [
            self._verdict(rule, one.source, one.through)
            for rule in rules
            if not (inside and rule.reach == "folder") and looked.fits(rule)
        ]
        return JudgedPart(one.source, one.through, worst(hits))

    def _code(self, code: Code) -> JudgedPart:
        rules = (rule for rule in self._codes if not (self._in_copy and rule.reach == "folder"))
        hits = [self._verdict(rule, code.text, code.through) for rule in rules if matching.fits_code(rule, code)]
        return JudgedPart(code.text, code.through, worst(hits))

    def _seen(self, rule: str, source: str, through: tuple[str, ...]) -> JudgedPart:
        return JudgedPart(source, through, self._verdict(self._named[rule], source, through))

    def _verdict(self, rule: PolicyRule, source: str, through: tuple[str, ...]) -> PolicyVerdict:
        if rule.id in self.allowed:
            return PolicyVerdict("allow", rule.id, "allowed by the project's settings", source, through)
        return PolicyVerdict(rule.verdict, rule.id, rule.reason, source, through)


def _source(part: Inner) -> str:
    return (part.text if isinstance(part, ShellScript | Code) else part.source)[:200]
