"""Read and judge the output of test runners, linters, type checkers, compilers and build tools; run nothing."""

from reflectloop.verification.reports.recognise import read
from reflectloop.verification.reports.verdict import judge

__all__ = ["judge", "read"]
