"""Judge the lines and files that a patch adds: dangerous calls, disabled safety, paths that nobody should write to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from reflectloop.policy import builtin_rules
from reflectloop.policy.rule import PolicyRule, compiled
from reflectloop.policy.verdict import PolicyVerdict, worst

_LONGEST = 20_000  # characters of a line that are matched


class AddedLineRules:
    """The rules for added lines, with all their patterns joined for one first pass."""

    def __init__(self, rules: Iterable[PolicyRule], allowed: frozenset[str] = frozenset()) -> None:
        active = [rule for rule in rules if rule.kind == "added" and rule.id not in allowed]
        self._paths = [rule for rule in active if not rule.line]
        self._lines = [rule for rule in active if rule.line]
        # One pass shows for almost every line that no rule matches it.
        self._any = "|".join(f"(?:{rule.line})" for rule in self._lines) or r"[^\x00-\x{10FFFF}]"

    def judge(self, path: str, line_no: int, text: str) -> PolicyVerdict | None:
        """Return the verdict on a line, or None if no rule matches. Line 0 means the path alone."""
        path, text = _plain(path), _plain(text)
        where = f"{path}:{line_no}" if line_no else path
        candidates = self._candidates(text[:_LONGEST]) if line_no else self._paths
        hits = [
            PolicyVerdict(rule.verdict, rule.id, rule.reason, where) for rule in candidates if fits(rule, path, text)
        ]
        return worst(hits) if hits else None

    def _candidates(self, line: str) -> list[PolicyRule]:
        return self._lines if compiled(self._any).search(line) else []


def _plain(text: str) -> str:
    """Return a path or line as valid text, which is all that patterns match."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@cache
def _builtin() -> AddedLineRules:
    return AddedLineRules(builtin_rules.rules())


def judge_added(path: str, line_no: int, text: str) -> PolicyVerdict | None:
    """Return the verdict of the built-in rules on one added line."""
    return _builtin().judge(path, line_no, text)


def fits(rule: PolicyRule, path: str, text: str) -> bool:
    """Return True if a rule matches a line, or the path if the rule has no pattern for lines."""
    if rule.files and not compiled(rule.files).search(path):
        return False
    if not rule.line:
        return not (rule.unless and compiled(rule.unless).search(path))
    line = text[:_LONGEST]
    return compiled(rule.line).search(line) is not None and not (
        rule.unless and compiled(rule.unless).search(line) is not None
    )
