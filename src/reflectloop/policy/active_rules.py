"""Which rules are in force: the shipped ones, the user's, and those that were accepted in the project."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from reflectloop.config import PolicyConfig
from reflectloop.errors import InvalidInput
from reflectloop.policy import builtin_rules
from reflectloop.policy.commands import CommandPolicy
from reflectloop.policy.rule import PolicyRule

ACCEPTED = Path(".reflectloop") / "rules"  # each file one accepted patch of the rules


def of(settings: PolicyConfig, root: Path) -> CommandPolicy:
    """A rule file with faults is refused: nothing is judged by half of the rules."""
    own = _own(([root / settings.rules] if settings.rules else []) + sorted((root / ACCEPTED).glob("*.yaml")))
    rules = (*builtin_rules.rules(), *own)
    unknown = sorted(set(settings.allow) - {rule.id for rule in rules})
    if unknown:
        raise InvalidInput(f"[policy] allow names no rule: {', '.join(unknown)}", next_step="reflectloop policy rules")
    return CommandPolicy(rules, frozenset(settings.allow)) if own or settings.allow else default()


def _own(paths: list[Path]) -> list[PolicyRule]:
    if not paths:
        return []
    from reflectloop.policy import rulefile  # noqa: PLC0415 - reading rule files is slow and seldom needed

    found: dict[str, Path] = {}
    rules: list[PolicyRule] = []
    for path in paths:
        for rule in rulefile.checked(path):
            if rule.id in found:
                raise InvalidInput(f"{path}: {found[rule.id]} has a rule '{rule.id}' too", next_step=f"correct {path}")
            found[rule.id] = path
            rules.append(rule)
    return rules


@cache
def default() -> CommandPolicy:
    """The shipped rules alone."""
    return CommandPolicy(builtin_rules.rules())
