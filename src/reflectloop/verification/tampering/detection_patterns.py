"""Patterns of source lines that behave differently under test, or silence a linter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Literal, NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.tools import javascript
from reflectloop.verification.tools.registry import tools

Grade = Literal["weakening", "suspect", "note"]


class DetectionPattern(NamedTuple):
    """A pattern that reveals behaviour specific to tests."""

    rule: str
    pattern: re.Pattern[str]
    why: str
    grade: Grade
    endings: frozenset[str] | None = None


_PY, _JS = frozenset({"py", "pyi"}), frozenset(javascript.CODE)
_C = frozenset({"c", "cc", "cpp", "cxx", "h", "hpp"})
_ENV = (
    r"(?:environ(?:\.get\(|\[|\.setdefault\()|getenv\(|env\.get\(|"
    r"ENV(?:\.fetch\(|\[)|env::var(?:_os)?\(|Getenv\(|LookupEnv\(|env\[)\s*[bf]?[\"']"
)
_CI_VARIABLES = (
    r"CI|GITHUB_ACTIONS|GITLAB_CI|TRAVIS|CIRCLECI|JENKINS_URL|BUILDKITE|APPVEYOR|TF_BUILD|CONTINUOUS_INTEGRATION"
)


def _any(patterns: Iterable[str]) -> str:
    return f"(?:{'|'.join(dict.fromkeys(patterns))})"


def _of_tools(field: str) -> list[str]:
    return [pattern for tool in tools() for pattern in getattr(tool.tampering, field)]


@cache
def signs() -> tuple[DetectionPattern, ...]:
    """Return the patterns in the order in which a line is compared with them.

    Python and JavaScript sources are read by their names instead (see `powers`); of these languages only tests are
    compared with the patterns.
    """
    runners = _any(_of_tools("imports"))
    ci = _any([_CI_VARIABLES, *_of_tools("variables")])
    table: tuple[tuple[str, str, str, Grade, frozenset[str] | None], ...] = (
        (
            "knows-the-test",
            rf"{_ENV}(?:TESTING|TEST|TEST_MODE|UNDER_TEST|IS_TEST|UNIT_TEST\w*)[\"']",
            "asks whether it is under test",
            "suspect",
            None,
        ),
        *_of_records(),
        (
            "knows-the-test",
            rf"{_ENV}(?:RAILS|RACK)_ENV[\"'][\])]*\s*==\s*[\"']test",
            "asks whether it is under test",
            "suspect",
            None,
        ),
        ("knows-the-ci", rf"{_ENV}{ci}[\"']", "asks whether it runs in continuous integration", "suspect", None),
        (
            "patches-the-runner",
            r"\b(?:unittest\.(?:TestCase|TestResult|main)|TestCase|TestResult|_?pytest(?:\.\w+)*)\.\w+\s*=[^=]",
            "replaces a part of the test framework",
            "suspect",
            _PY,
        ),
        (
            "patches-the-runner",
            r"^(?:builtins|__builtins__)\.\w+\s*=[^=]|setattr\(\s*(?:builtins|unittest|pytest|_pytest)\b",
            "replaces a builtin or a part of the test framework",
            "suspect",
            _PY,
        ),
        (
            "patches-the-runner",
            r"\b(?:expect|assert|describe|it|test)\.(?:extend|equal|strictEqual|prototype)\s*=[^=]",
            "replaces a part of the test framework",
            "suspect",
            _JS,
        ),
        ("knows-the-test", rf"\"{runners}\"", "names a test runner", "suspect", _C),
        (
            "ends-the-process",
            r"\b_exit\(|\b_Exit\(|\bquick_exit\(|\babort\(\)|\bkill\(\s*getpid\(",
            "ends the process at once, whatever the tests report",
            "suspect",
            _C,
        ),
    )
    return tuple(
        DetectionPattern(rule, re.compile(pattern), why, grade, endings) for rule, pattern, why, grade, endings in table
    )


def _of_records() -> Iterator[tuple[str, str, str, Grade, frozenset[str] | None]]:
    for sign in (sign for tool in tools() for sign in tool.tampering.source_signs):
        yield "knows-the-test", sign.pattern, sign.why, "suspect", frozenset(sign.endings) if sign.endings else None


# At the top of a test file, outside any test.
LEAVES = lazy(
    r"^process\.(?:exit|reallyExit|abort)\(|^(?:os\._exit|sys\.exit|exit|quit)\(|^raise SystemExit\b|"
    r"^atexit\.register\(\s*(?:os\._exit|lambda)|^(?P<chooses>def load_tests\()"
)


@cache
def silences_file() -> re.Pattern[str]:
    """Return the pattern of comments that silence a linter for a whole file."""
    return re.compile("|".join(_of_tools("silences_file")))


@cache
def silences_line() -> re.Pattern[str]:
    return re.compile("|".join(_of_tools("silences_line")))
