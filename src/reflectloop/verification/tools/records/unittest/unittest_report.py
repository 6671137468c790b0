"""Run unittest as `python -m unittest` does, and write each test's outcome as JUnit XML.

The project's Python runs this file, so it uses only the standard library of Python 3.8, and no module of the engine.
unittest writes no report, and its text output does not name the subtests that passed.
"""

from __future__ import annotations

import io
import json
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


_report = ""  # where to write the report
_observer: Any = None  # tells each outcome when it happens, if there is one


class Result(unittest.TextTestResult):
    """The usual text result, which also records each test's outcome under its id."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self._outcomes: dict[str, dict[str, str]] = {}  # by test: kind of outcome, text
        self.tells = True

    def _record(self, test: Any, kind: str, text: str = "") -> None:  # noqa: ANN401
        self._outcomes.setdefault(test.id(), {}).setdefault(kind, text)
        if _observer is not None and self.tells:
            _observer.told(test.id(), kind)

    def kinds_of(self, test: str) -> list[str]:
        return list(self._outcomes.get(test, ()))

    def addSuccess(self, test: Any) -> None:  # noqa: ANN401, N802
        super().addSuccess(test)
        self._record(test, "passed")

    def addError(self, test: Any, err: Any) -> None:  # noqa: ANN401, N802
        super().addError(test, err)
        unloaded = type(test).__name__ == "_FailedTest"
        self._record(test, "unloaded" if unloaded else "error", self.errors[-1][1])

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: ANN401, N802
        super().addFailure(test, err)
        self._record(test, "failure", self.failures[-1][1])

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: ANN401, N802
        super().addSkip(test, reason)
        if type(test).__name__ == "_SubTest":
            self._record(test.test_case, "skipped in part", reason)
        else:
            self._record(test, "skipped", reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: ANN401, N802
        super().addExpectedFailure(test, err)
        self._record(test, "xfail")

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: ANN401, N802
        super().addUnexpectedSuccess(test)
        self._record(test, "failure", "passed, though it was expected to fail")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: ANN401, N802
        super().addSubTest(test, subtest, err)
        if err is None:
            self._record(test, "passed")
        else:
            failed = issubclass(err[0], test.failureException)
            trace = (self.failures if failed else self.errors)[-1][1]
            self._record(test, "failure" if failed else "error", f"{subtest}\n{trace}")

    def stopTestRun(self) -> None:  # noqa: N802
        super().stopTestRun()
        cases = "".join(_case(name, outcomes) for name, outcomes in self._outcomes.items())
        with open(_report, "w", encoding="utf-8") as file:  # noqa: PTH123 - imports as little as possible
            file.write(_XML.format(cases))


def _case(name: str, outcomes: dict[str, str]) -> str:
    """Return one test case with its worst outcome.

    A test that skipped some subtests and passed the others has passed.
    """
    kind = next(kind for kind in _WORST_FIRST if kind in outcomes)
    text = _NO_XML.sub("\ufffd", outcomes[kind])
    message = quoteattr(_message(text))
    inner = {
        "passed": "",
        "xfail": '<skipped type="xfail"/>',
        "skipped": f"<skipped message={message}/>",
        "skipped in part": f"<skipped message={message}/>",
        "unloaded": f'<error message="collection failure">{escape(text)}</error>',
    }.get(kind, f"<{kind} message={message}>{escape(text)}</{kind}>")
    return f"<testcase name={quoteattr(_NO_XML.sub(chr(0xFFFD), name))}>{inner}</testcase>\n"


def _message(text: str) -> str:
    """Return the line that names the exception, or else the first line."""
    lines = text.strip().splitlines() or [""]
    named = [line for line in lines if _EXCEPTION.match(line)]
    return named[-1] if named else lines[0]


class Runner(unittest.TextTestRunner):
    resultclass = Result

    def run(self, test: Any) -> Any:  # noqa: ANN401
        return _observer.run(test, _quiet_result, super().run) if _observer is not None else super().run(test)


def _quiet_result() -> Any:  # noqa: ANN401
    """Return a result for tests that are not the project's."""
    result: Any = Runner(stream=io.StringIO(), verbosity=0)._makeResult()  # noqa: SLF001
    result.tells = False
    return result


def _load_observer(folder: str) -> Any:  # noqa: ANN401
    """Return the observer whose text stands next to this file, or None."""
    path = os.path.join(folder, "observer.json")  # noqa: PTH118
    if not os.path.isfile(path):  # noqa: PTH113
        return None
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        values = json.load(file)
    names: dict[str, Any] = {"__name__": "observer"}
    for text in values["texts"]:
        exec(compile(text, "<string>", "exec"), names)  # noqa: S102 - a text of our own
    return names["Observer"](values, folder)


if __name__ == "__main__":
    _report = sys.argv[1]
    _observer = _load_observer(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    sys.path[0] = os.getcwd()  # noqa: PTH109 - as `-m` would set it
    sys.argv[:] = [os.path.basename(sys.executable) + " -m unittest", *sys.argv[2:]]  # noqa: PTH119
    unittest.main(module=None, argv=["python -m unittest", *sys.argv[1:]], testRunner=Runner)
