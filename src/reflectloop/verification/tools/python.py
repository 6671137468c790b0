"""Constants shared by the tools that run Python tests."""

from __future__ import annotations

TEST_FILE = r"(^|/)(test_[^/]*|[^/]*_tests?|tests?)\.py$"
LOOKED_AT = 60  # number of test files read to see what they are written for
ENDINGS = (".py", ".rst", ".txt", ".md")
