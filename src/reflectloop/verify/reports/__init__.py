"""Reads what test runners, linters, type checkers, compilers and build tools print, and judges it; runs nothing."""

from reflectloop.verify.reports.recognise import read
from reflectloop.verify.reports.verdict import judge

__all__ = ["judge", "read"]
