"""Adapts the project's policy rules to what the gates ask: is this line or command dangerous?"""

from __future__ import annotations

from pathlib import Path

from reflectloop import policy
from reflectloop.config import Config
from reflectloop.gates.rules import Breach, DangerPolicy
from reflectloop.policy import AddedLineRules, PolicyVerdict


def of(settings: Config, root: Path) -> DangerPolicy:
    """Return the project's rules as the gates ask them; raise if a rule file has faults."""
    rules = policy.of(settings.policy, root)
    added = AddedLineRules(rules.rules, rules.allowed)
    return DangerPolicy(
        lambda path, number, text: _breach(added.judge(path, number, text)),
        lambda command: _breach(rules.in_workspace.judge(command)),
    )


def _breach(verdict: PolicyVerdict | None) -> Breach | None:
    if verdict is None or verdict.allowed:
        return None
    return Breach(verdict.verdict == "deny", verdict.rule or "policy", verdict.reason)
