"""Does a rule speak about this command, this code? Pure."""

from __future__ import annotations

from reflectloop.policy import checks, options, path_classes
from reflectloop.policy.options import Arguments
from reflectloop.policy.rule import PolicyRule, compiled
from reflectloop.policy.simple_command import Code, ShellWord, SimpleCommand

_DRY = ("--dry-run", "--dryrun", "--just-print", "--whatif", "-WhatIf", "--simulate", "--no-act")
_NOT_DRY = ("--dry-run=false", "--dry-run=none", "--dry-run=0")
# Options with a value of their own, where that would be taken for a path.
_TAKING = {
    "rsync": frozenset(("-e", "--rsh", "--exclude", "--include", "-f", "--filter", "--exclude-from", "--port")),
    "shred": frozenset(("-n", "-s", "--iterations", "--size", "--random-source")),
    "truncate": frozenset(("-s", "--size", "-r", "--reference")),
}


class CommandFacts:
    """A command with what several rules ask of it, found out once."""

    def __init__(self, one: SimpleCommand) -> None:
        self.one = one
        self.given = options.split(one.words[1:], _TAKING.get(one.program, frozenset()))
        self._places: list[str] | None = None

    @property
    def places(self) -> list[str]:
        if self._places is None:
            self._places = [path_classes.of(word, self.one.folder) for word in self.given.rest]
        return self._places

    @property
    def harmless(self) -> bool:
        """It asks for help, or says what it would do."""
        if "--help" in self.given.flags or self.one.texts[-1:] == ["--version"]:
            return True
        dry = any(flag in self.given.flags for flag in _DRY) and not set(_NOT_DRY) & set(self.one.texts)
        return dry and not (self.one.program == "git" and self.given.has(("-f",)) and "clean" in self.one.texts)

    def fits(self, rule: PolicyRule) -> bool:
        return (
            (not rule.sub or _has_sub(self.given, rule.sub, exact=self.one.program == "git"))
            and all(self.given.has(flag.split("|")) for flag in rule.flags)
            and not (rule.without and self.given.has(rule.without))
            and (not rule.args or any(compiled(rule.args).search(word.text) for word in self.one.words[1:]))
            and (not rule.place or any(place in rule.place for place in self.places))
            and (not rule.writes or _writes(self.one, rule.writes))
            and (not rule.check or checks.CHECKS[rule.check](self.one))
        )


_INSIDE = frozenset(("here", "relative", "built", "temp", "unknown"))
_ELSEWHERE = frozenset(("-C", "--git-dir", "--work-tree"))


def stays_inside(one: SimpleCommand) -> bool:
    """Nothing a command names lies outside the folder that the line began in."""
    named = options.split(one.words[1:], _ELSEWHERE)
    words = [*named.rest, *(ShellWord(value) for name, value in named.values if name in _ELSEWHERE)]
    words += [ShellWord(one.folder)] if one.folder else []
    return all(path_classes.of(word, one.folder) in _INSIDE for word in words)


def _has_sub(given: Arguments, sub: tuple[str, ...], *, exact: bool) -> bool:
    """The words of `sub` one after the other; before them only what options may have taken for their values."""
    texts = [word.text for word in given.rest]
    wanted = [one.split("|") for one in sub]
    for start in range(len(texts) - len(wanted) + 1):
        if start > (0 if exact else given.before[start]):
            break
        if all(text in names or "*" in names for text, names in zip(texts[start:], wanted, strict=False)):
            return True
    return False


def _writes(one: SimpleCommand, wanted: tuple[str, ...]) -> bool:
    return any(
        path_classes.of(redirect.target, one.folder) in wanted
        for redirect in one.redirects
        if redirect.operator.startswith((">", "&>", "<>"))
    )


def fits_code(rule: PolicyRule, code: Code) -> bool:
    if code.language not in rule.language and "*" not in rule.language:
        return False
    found = compiled(rule.code).search(code.text)
    return found is not None and not (rule.unless and compiled(rule.unless).search(code.text))
