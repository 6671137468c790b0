"""Decide which files judge the work and so are protected, why, and which changes to them count."""

from reflectloop.verification.protected.changes import restored, serves_tests
from reflectloop.verification.protected.paths import Protection, dependencies, guard, is_test

__all__ = ["Protection", "dependencies", "guard", "is_test", "restored", "serves_tests"]
