"""Decide which files judge the work and so are protected, why, and which changes to them count.

The path of a file is judged here; `changes` and `inline_tests` read contents, and load parsers.
"""

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
    "configures",
    "dependencies",
    "guard",
    "is_test",
    "judged_by",
    "runs_at_start",
]
