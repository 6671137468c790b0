"""Read and judge the output of test runners, linters, type checkers, compilers and build tools; run nothing."""

from reflectloop.verification.reports.identity import failing_issues, issue_key, issue_shown
from reflectloop.verification.reports.recognise import read
from reflectloop.verification.reports.verdict import judge

__all__ = ["failing_issues", "issue_key", "issue_shown", "judge", "read"]
