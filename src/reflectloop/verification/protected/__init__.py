"""Decide which files judge the work and so are protected, why, and which changes to them count."""

from reflectloop.verification.protected.changes import built_by_lists, restored, serves_tests
from reflectloop.verification.protected.inline_tests import has_inline_tests, with_tests_of
from reflectloop.verification.protected.names import CODE_ENDINGS
from reflectloop.verification.protected.paths import (
    Protection,
    configures,
    dependencies,
    guard,
    is_test,
    judged_by,
    runs_at_start,
)

__all__ = [
    "CODE_ENDINGS",
    "Protection",
    "built_by_lists",
    "configures",
    "dependencies",
    "guard",
    "has_inline_tests",
    "is_test",
    "judged_by",
    "restored",
    "runs_at_start",
    "serves_tests",
    "with_tests_of",
]
