"""Build the active policy: the built-in rules, the user's rules, and the rules accepted in the project."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Protocol

from reflectloop import settings_files
from reflectloop.errors import InvalidInput
from reflectloop.policy import builtin_rules
from reflectloop.policy.commands import CommandPolicy
from reflectloop.policy.rule import PolicyRule


class PolicySettings(Protocol):
    """The settings `[policy]`, which only `config` reads."""

    @property
    def allow(self) -> tuple[str, ...]: ...
    @property
    def rules(self) -> Path | None: ...


def of(settings: PolicySettings, root: Path) -> CommandPolicy:
    """Return the policy of a project.

    A rule file with faults is refused, so no command is judged by half of the rules.
    """
    added = _added_rules(settings_files.policy_rules(root, settings.rules))
    rules = (*builtin_rules.rules(), *added)
    unknown = sorted(set(settings.allow) - {rule.id for rule in rules})
    if unknown:
        raise InvalidInput(f"[policy] allow names no rule: {', '.join(unknown)}", next_step="reflectloop policy rules")
    return CommandPolicy(rules, frozenset(settings.allow)) if added or settings.allow else default()


def _added_rules(paths: list[Path]) -> list[PolicyRule]:
    if not paths:
        return []
    from reflectloop.policy import rulefile  # noqa: PLC0415 - loads pydantic, and rule files are rare

    paths_by_id: dict[str, Path] = {}
    rules: list[PolicyRule] = []
    for path in paths:
        for rule in rulefile.checked(path):
            if rule.id in paths_by_id:
                raise InvalidInput(
                    f"{path}: {paths_by_id[rule.id]} also has a rule '{rule.id}'", next_step=f"correct {path}"
                )
            paths_by_id[rule.id] = path
            rules.append(rule)
    return rules


@cache
def default() -> CommandPolicy:
    """Return the policy with the built-in rules only."""
    return CommandPolicy(builtin_rules.rules())
