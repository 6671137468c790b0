"""Decides which settings of a project apply: restrictions always, permissions only after the user trusted them."""

from reflectloop.trust.grants import Grant, SettingsSplit, split
from reflectloop.trust.session import VARIABLE, ignore, is_by_flag, notices, trust_by_flag, trusting_project

__all__ = [
    "VARIABLE",
    "Grant",
    "SettingsSplit",
    "ignore",
    "is_by_flag",
    "notices",
    "split",
    "trust_by_flag",
    "trusting_project",
]
