"""Judge commands before they run, and lines that a patch adds, by rules that contain their own samples.

Runs nothing.
"""

from reflectloop.policy.active_rules import default, of
from reflectloop.policy.additions import AddedLineRules, judge_added
from reflectloop.policy.commands import CommandPolicy
from reflectloop.policy.verdict import PolicyVerdict

__all__ = ["AddedLineRules", "CommandPolicy", "PolicyVerdict", "default", "judge_added", "of"]
