"""Judges what a patch adds, line by line: dangerous calls, switched-off safety, places nobody should write to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from reflectloop.policy import builtin_rules
from reflectloop.policy.rule import PolicyRule, compiled
from reflectloop.policy.verdict import PolicyVerdict, worst

_LONGEST = 20_000  # characters of a line that are looked at


class AddedLineRules:
    """The rules for added lines, all of whose patterns are looked for in one pass."""

    def __init__(self, rules: Iterable[PolicyRule], allowed: frozenset[str] = frozenset()) -> None:
        mine = [rule for rule in rules if rule.kind == "added" and rule.id not in allowed]
        self._paths = [rule for rule in mine if not rule.line]
        self._lines = [rule for rule in mine if rule.line]
        # One pass says for almost every line that no rule speaks about it.
        self._any = "|".join(f"(?:{rule.line})" for rule in self._lines) or r"[^\x00-\x{10FFFF}]"

    def judge(self, path: str, line_no: int, text: str) -> PolicyVerdict | None:
        """What the rules say about one line; None when none speaks. Line 0 asks about the path alone."""
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
    """Names and lines that are no text, as text: patterns know nothing else."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@cache
def _shipped() -> AddedLineRules:
    return AddedLineRules(builtin_rules.rules())


def judge_added(path: str, line_no: int, text: str) -> PolicyVerdict | None:
    """What the shipped rules say about one added line."""
    return _shipped().judge(path, line_no, text)


def fits(rule: PolicyRule, path: str, text: str) -> bool:
    """Say whether a rule speaks about a line, or about a path where it has no pattern for lines."""
    if rule.files and not compiled(rule.files).search(path):
        return False
    if not rule.line:
        return not (rule.unless and compiled(rule.unless).search(path))
    line = text[:_LONGEST]
    return compiled(rule.line).search(line) is not None and not (
        rule.unless and compiled(rule.unless).search(line) is not None
    )
