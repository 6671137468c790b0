"""Load the recorder, then run a program as `python PROGRAM ARGUMENTS` would: for runners without plugins.

The project's Python runs this file: standard library of 3.8 only.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import unittest
from typing import Any


def main() -> None:
    """Run the program that the first argument names."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(here)
    recorder = importlib.import_module(os.path.basename(here) + ".recorder")
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    _follow_tests(recorder)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        recorder.pytest_unconfigure()


def _follow_tests(recorder: Any) -> None:
    """Tell the recorder which test runs."""
    result = unittest.TestResult
    usual_start, usual_stop = result.startTest, result.stopTest

    def start(this: Any, test: Any) -> None:
        recorder.pytest_runtest_logstart(test.id())
        usual_start(this, test)

    def stop(this: Any, test: Any) -> None:
        usual_stop(this, test)
        recorder.pytest_runtest_logfinish()

    result.startTest, result.stopTest = start, stop  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    main()
