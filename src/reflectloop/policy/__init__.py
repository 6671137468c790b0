"""Judges commands before they run, and what a patch adds, by rules that carry their own samples. Runs nothing."""

from reflectloop.policy.additions import Added, judge_added
from reflectloop.policy.commands import Policy
from reflectloop.policy.in_force import default, of
from reflectloop.policy.verdict import Verdict

__all__ = ["Added", "Policy", "Verdict", "default", "judge_added", "of"]
