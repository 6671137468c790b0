"""Judge a command before it runs: every simple command in it, through all its wrappers, by every rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from reflectloop.policy import (
    checks,
    command_starters,
    files,
    git_commands,
    options,
    path_classes,
    scripts,
    variables,
    wrappers,
)
from reflectloop.policy.options import Arguments
from reflectloop.policy.rule import PolicyRule, compiled
from reflectloop.policy.simple_command import (
    LONGEST,
    Code,
    Inner,
    Opaque,
    ShellScript,
    ShellWord,
    SimpleCommand,
    of_argv,
)
from reflectloop.policy.verdict import PolicyVerdict, worst

_DEEPEST = 8  # commands that start commands
_MOST = 2000  # parts of one command that are judged
_DRY = ("--dry-run", "--dryrun", "--just-print", "--whatif", "-WhatIf", "--simulate", "--no-act")
_NOT_DRY = ("--dry-run=false", "--dry-run=none", "--dry-run=0")
# Options whose value would be mistaken for a path.
_TAKING = {
    "rsync": frozenset(("-e", "--rsh", "--exclude", "--include", "-f", "--filter", "--exclude-from", "--port")),
    "shred": frozenset(("-n", "-s", "--iterations", "--size", "--random-source")),
    "truncate": frozenset(("-s", "--size", "-r", "--reference")),
}
_INSIDE = frozenset(("here", "relative", "built", "temp", "unknown"))
_ELSEWHERE = frozenset(("-C", "--git-dir", "--work-tree"))
# Each finds commands that a command starts in one way.
_FINDERS = (
    command_starters.inner_commands,
    wrappers.inner_commands,
    scripts.inner_commands,
    variables.inner_commands,
    files.inner_commands,
    command_starters.indirect_programs,
    command_starters.hidden_in_arguments,
)


def _command_in(part: ShellScript, command: SimpleCommand) -> SimpleCommand:
    """Return a command of a script. If the script may not be shell text, glob characters in words are literal."""
    words = tuple(word._replace(glob=False) for word in command.words) if part.guess else command.words
    return command._replace(words=words, through=part.through)


class JudgedPart(NamedTuple):
    """One part of a command, and the verdict on it."""

    source: str
    through: tuple[str, ...]
    verdict: PolicyVerdict


class CommandPolicy:
    """The active rules, indexed by the program that they are about."""

    def __init__(
        self, rules: Iterable[PolicyRule], allowed: frozenset[str] = frozenset(), *, in_copy: bool = False
    ) -> None:
        self.rules = tuple(rules)
        self.allowed = allowed
        self._in_copy = in_copy
        self._by_id = {rule.id: rule for rule in self.rules}
        self._codes = [rule for rule in self.rules if rule.kind == "code"]
        self._programs: dict[str, list[PolicyRule]] = {}
        for rule in self.rules:
            for name in rule.program if rule.kind == "command" else ():
                self._programs.setdefault(name, []).append(rule)

    def judge(self, command: str | Sequence[str]) -> PolicyVerdict:
        return worst(part.verdict for part in self.look(command))

    @cached_property
    def in_workspace(self) -> CommandPolicy:
        """Return the policy for a copy of the project, where commands that stay in its folder are harmless."""
        return CommandPolicy(self.rules, self.allowed, in_copy=True)

    def look(self, command: str | Sequence[str]) -> Iterator[JudgedPart]:
        """Yield every part of a command with its verdict, from the outside in."""
        first: Inner = ShellScript(command, ()) if isinstance(command, str) else of_argv(tuple(command))
        waiting: list[tuple[Inner, int]] = [(first, 0)]
        count = 0
        while waiting:
            part, depth = waiting.pop(0)
            count += 1
            if depth > _DEEPEST or count > _MOST:
                yield self._judge_by("shell.too-deep", _source(part), part.through)
                return
            judged, inner = self._part(part)
            yield from (
                judged_part
                for judged_part in judged
                if command_starters.HIDDEN not in judged_part.through or judged_part.verdict.verdict == "deny"
            )
            waiting += [(inner_part, depth + 1) for inner_part in inner]

    def _part(self, part: Inner) -> tuple[list[JudgedPart], list[Inner]]:
        if isinstance(part, ShellScript):
            return self._script(part)
        if isinstance(part, Code):
            return [self._code(part)], list(scripts.shell_in_code(part))
        if isinstance(part, Opaque):
            return [self._judge_by(part.rule, part.source, part.through)], []
        return [self._simple(part)], [inner for find in _FINDERS for inner in find(part)]

    def _script(self, part: ShellScript) -> tuple[list[JudgedPart], list[Inner]]:
        from reflectloop.policy import shell  # noqa: PLC0415 - loads the parser

        if len(part.text) > LONGEST:
            return [self._judge_by("shell.too-long", part.text[:60], part.through)], []
        # A shell drops NULs and runs the rest.
        line = shell.read(part.text.replace("\0", ""), part.variables, part.folder)
        judged = []
        if "\0" in part.text:
            judged.append(self._judge_by("shell.unparsable", "a NUL in it", part.through))
        if line.broken and not part.guess:
            judged.append(self._judge_by("shell.unparsable", line.broken, part.through))
        if line.deep:
            judged.append(self._judge_by("shell.too-deep", part.text[:60], part.through))
        if line.bomb:
            judged.append(self._judge_by("shell.fork-bomb", line.bomb, part.through))
        if line.endless:
            judged.append(self._judge_by("shell.endless-jobs", line.endless, part.through))
        return judged, [_command_in(part, command) for command in line.commands]

    def _simple(self, command: SimpleCommand) -> JudgedPart:
        inside = self._in_copy and _stays_inside(command)
        command = git_commands.without_global_options(command) if command.program == "git" else command
        facts = _CommandFacts(command)
        rules = (*self._programs.get(command.program, ()), *self._programs.get("*", ()))
        if facts.harmless:
            return JudgedPart(command.source, command.through, PolicyVerdict("allow"))
        hits = [
            self._verdict(rule, command.source, command.through)
            for rule in rules
            if not (inside and rule.reach == "folder") and facts.fits(rule)
        ]
        return JudgedPart(command.source, command.through, worst(hits))

    def _code(self, code: Code) -> JudgedPart:
        rules = (rule for rule in self._codes if not (self._in_copy and rule.reach == "folder"))
        hits = [self._verdict(rule, code.text, code.through) for rule in rules if _fits_code(rule, code)]
        return JudgedPart(code.text, code.through, worst(hits))

    def _judge_by(self, rule: str, source: str, through: tuple[str, ...]) -> JudgedPart:
        return JudgedPart(source, through, self._verdict(self._by_id[rule], source, through))

    def _verdict(self, rule: PolicyRule, source: str, through: tuple[str, ...]) -> PolicyVerdict:
        if rule.id in self.allowed:
            return PolicyVerdict("allow", rule.id, "allowed by the project's settings", source, through)
        return PolicyVerdict(rule.verdict, rule.id, rule.reason, source, through)


def _source(part: Inner) -> str:
    return (part.text if isinstance(part, ShellScript | Code) else part.source)[:200]


class _CommandFacts:
    """A command with facts that several rules need, each computed once."""

    def __init__(self, command: SimpleCommand) -> None:
        self.command = command
        self.args = options.split(command.words[1:], _TAKING.get(command.program, frozenset()))
        self._places: list[str] | None = None

    @property
    def places(self) -> list[str]:
        if self._places is None:
            self._places = [path_classes.path_class(word, self.command.folder) for word in self.args.rest]
        return self._places

    @property
    def harmless(self) -> bool:
        """Return True if the command asks for help or the version, or is a dry run."""
        if "--help" in self.args.flags or self.command.texts[-1:] == ["--version"]:
            return True
        dry = any(flag in self.args.flags for flag in _DRY) and not set(_NOT_DRY) & set(self.command.texts)
        return dry and not (self.command.program == "git" and self.args.has(("-f",)) and "clean" in self.command.texts)

    def fits(self, rule: PolicyRule) -> bool:
        return (
            (not rule.sub or _has_sub(self.args, rule.sub, exact=self.command.program == "git"))
            and all(self.args.has(flag.split("|")) for flag in rule.flags)
            and not (rule.without and self.args.has(rule.without))
            and (not rule.args or any(compiled(rule.args).search(word.text) for word in self.command.words[1:]))
            and (not rule.place or any(place in rule.place for place in self.places))
            and (not rule.writes or _writes(self.command, rule.writes))
            and (not rule.check or checks.CHECKS[rule.check](self.command))
        )


def _stays_inside(command: SimpleCommand) -> bool:
    """Return True if every path of a command is inside the folder that the line started in."""
    args = options.split(command.words[1:], _ELSEWHERE)
    words = [*args.rest, *(ShellWord(value) for name, value in args.values if name in _ELSEWHERE)]
    words += [ShellWord(command.folder)] if command.folder else []
    return all(path_classes.path_class(word, command.folder) in _INSIDE for word in words)


def _has_sub(args: Arguments, sub: tuple[str, ...], *, exact: bool) -> bool:
    """Return True if the words of `sub` occur in a row, after nothing but possible values of options."""
    texts = [word.text for word in args.rest]
    wanted = [names.split("|") for names in sub]
    for start in range(len(texts) - len(wanted) + 1):
        if start > (0 if exact else args.before[start]):
            break
        if all(
            text in alternatives or "*" in alternatives
            for text, alternatives in zip(texts[start:], wanted, strict=False)
        ):
            return True
    return False


def _writes(command: SimpleCommand, wanted: tuple[str, ...]) -> bool:
    return any(
        path_classes.path_class(redirect.target, command.folder) in wanted
        for redirect in command.redirects
        if redirect.operator.startswith((">", "&>", "<>"))
    )


def _fits_code(rule: PolicyRule, code: Code) -> bool:
    if code.language not in rule.language and "*" not in rule.language:
        return False
    match = compiled(rule.code).search(code.text)
    return match is not None and not (rule.unless and compiled(rule.unless).search(code.text))
