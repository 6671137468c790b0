"""Read and judge the output of test runners, linters, type checkers, compilers and build tools; run nothing."""

from reflectloop.verify.reports.recognise import read
from reflectloop.verify.reports.verdict import judge

__all__ = ["judge", "read"]
