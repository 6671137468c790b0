"""Knows what judges work: which files are protected, why, and which of their changes count."""

from reflectloop.verify.protected.changes import restored, serves_tests
from reflectloop.verify.protected.paths import Guard, dependencies, guard, is_test

__all__ = ["Guard", "dependencies", "guard", "is_test", "restored", "serves_tests"]
