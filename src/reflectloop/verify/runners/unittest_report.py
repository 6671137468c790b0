"""Runs unittest as `python -m unittest` does, and writes what each test came to as JUnit XML.

Started by the project's own Python, whichever that is: standard library only, nothing of ours, and no news since 3.8.
unittest has no report of its own, and its words leave out which subtests passed.
"""

from __future__ import annotations

import os
import re
import sys
import unittest
from typing import Any
from xml.sax.saxutils import escape, quoteattr

_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Failure|Interrupt|Exit|Warning)\b")
_WORST_FIRST = ("unloaded", "error", "failure", "xfail", "skipped", "passed", "skipped in part")
_XML = '<?xml version="1.0" encoding="utf-8"?>\n<testsuites>\n<testsuite>\n{}</testsuite>\n</testsuites>\n'


class Result(unittest.TextTestResult):
    """The usual one; besides, notes each test's outcome under its id."""

    def __init__(self, *words: Any, **named: Any) -> None:  # noqa: ANN401
        super().__init__(*words, **named)
        self._told: dict[str, dict[str, str]] = {}  # by test: kind of outcome, text

    def _tell(self, test: Any, kind: str, text: str = "") -> None:  # noqa: ANN401
        self._told.setdefault(test.id(), {}).setdefault(kind, text)

    def addSuccess(self, test: Any) -> None:  # noqa: ANN401, N802
        super().addSuccess(test)
        self._tell(test, "passed")

    def addError(self, test: Any, err: Any) -> None:  # noqa: ANN401, N802
        super().addError(test, err)
        unloaded = type(test).__name__ == "_FailedTest"
        self._tell(test, "unloaded" if unloaded else "error", self.errors[-1][1])

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: ANN401, N802
        super().addFailure(test, err)
        self._tell(test, "failure", self.failures[-1][1])

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: ANN401, N802
        super().addSkip(test, reason)
        if type(test).__name__ == "_SubTest":
            self._tell(test.test_case, "skipped in part", reason)
        else:
            self._tell(test, "skipped", reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: ANN401, N802
        super().addExpectedFailure(test, err)
        self._tell(test, "xfail")

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: ANN401, N802
        super().addUnexpectedSuccess(test)
        self._tell(test, "failure", "passed, though it was expected to fail")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: ANN401, N802
        super().addSubTest(test, subtest, err)
        if err is None:
            self._tell(test, "passed")
        else:
            failed = issubclass(err[0], test.failureException)
            told = (self.failures if failed else self.errors)[-1][1]
            self._tell(test, "failure" if failed else "error", f"{subtest}\n{told}")

    def stopTestRun(self) -> None:  # noqa: N802
        super().stopTestRun()
        cases = "".join(_case(name, told) for name, told in self._told.items())
        with open(sys.argv[1], "w", encoding="utf-8") as file:  # noqa: PTH123 - nothing more is imported than need be
            file.write(_XML.format(cases))


def _case(name: str, told: dict[str, str]) -> str:
    """Of a test's parts the worst counts; one that left out some parts and passed the others has passed."""
    kind = next(kind for kind in _WORST_FIRST if kind in told)
    text = _NO_XML.sub("\ufffd", told[kind])
    said = quoteattr(_saying(text))
    inner = {
        "passed": "",
        "xfail": '<skipped type="xfail"/>',
        "skipped": f"<skipped message={said}/>",
        "skipped in part": f"<skipped message={said}/>",
        "unloaded": f'<error message="collection failure">{escape(text)}</error>',
    }.get(kind, f"<{kind} message={said}>{escape(text)}</{kind}>")
    return f"<testcase name={quoteattr(_NO_XML.sub(chr(0xFFFD), name))}>{inner}</testcase>\n"


def _saying(text: str) -> str:
    """The line that names the exception, or a plain reason."""
    lines = text.strip().splitlines() or [""]
    named = [line for line in lines if _EXCEPTION.match(line)]
    return named[-1] if named else lines[0]


class Runner(unittest.TextTestRunner):
    resultclass = Result


if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # noqa: PTH109 - where `-m` would have put it
    unittest.main(module=None, argv=["python -m unittest", *sys.argv[2:]], testRunner=Runner)
