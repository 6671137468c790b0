"""Outcomes of unittest are seen as they happen, as those of pytest are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from observed_runs import ObservedRun, observe, write
from test_observed_outcomes import CASES, WRONG

FORGED = """
import glob, os, sys, tempfile
TEXT = ('<testsuites><testsuite><testcase name="test_calc.Adds.test_add"/>'
    '<testcase name="test_calc.Adds.test_zero"/></testsuite></testsuites>')

def forge(*_):
    with open(sys.modules["__main__"]._report, "w") as file:
        file.write(TEXT)
"""
CHEATS = {
    "assertEqual": "import unittest\nunittest.TestCase.assertEqual = lambda self, a, b, msg=None: None\n",
    "assertEqual of one test": """
import unittest
old = unittest.TestCase.assertEqual
def equal(self, a, b, msg=None):
    if not self.id().endswith("test_add"):
        old(self, a, b, msg)
unittest.TestCase.assertEqual = equal
""",
    "the run of a test case": """
import unittest
def run(self, result=None):
    result.startTest(self)
    result.addSuccess(self)
    result.stopTest(self)
    return result
unittest.case.TestCase.run = run
""",
    "the result of the runner": """
import sys
def add(self, test, err):
    self.addSuccess(test)
sys.modules["__main__"].Result.addFailure = add
""",
    "what the runner records": """
import sys
record = sys.modules["__main__"].Result._record
sys.modules["__main__"].Result._record = lambda self, test, kind, text="": record(self, test, "passed")
""",
    "the report is rewritten at exit": f"{FORGED}\nimport atexit\natexit.register(forge)\n",
    "the process ends with a forged report": f"{FORGED}\ndef add(a, b):\n    forge()\n    os._exit(0)\n",
    "a fork goes on in place of the runner": f"""
{FORGED}
def add(a, b):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        forge()
        os._exit(0)
    return a - b
""",
    "unittest is started again": f"""
{FORGED}
if not os.environ.get("AGAIN"):
    os.environ["AGAIN"] = "1"
    forge()
    os.execv(sys.executable, [sys.executable, "-m", "unittest", "-k", "zero"])
""",
}


def run(project: Path, *arguments: str) -> ObservedRun:
    return observe(project, "unittest", (sys.executable, "-m", "unittest", *arguments))


@pytest.mark.parametrize("name", CHEATS)
def test_source_that_changes_unittest_is_noticed(tmp_path: Path, name: str) -> None:
    source = CHEATS[name] if "def add(a" in CHEATS[name] else CHEATS[name] + WRONG
    ran = run(write(tmp_path / "project", {"calc.py": source, "test_calc.py": CASES}))
    assert set(ran.report.values()) == {"passed"}, ran.output
    assert ran.odd


HONEST = """
import os, sys, unittest

def setUpModule():
    assert not os.environ.get("SET_UP")
    os.environ["SET_UP"] = "1"

class Kinds(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.value = 1

    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                if number == 1:
                    self.skipTest("not this one")
                self.assertEqual(self.value, 1)

    def test_fails_in_part(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)

    @unittest.expectedFailure
    def test_wrong(self): self.fail("as expected")

    @unittest.expectedFailure
    def test_unexpected(self): pass

    @unittest.skip("not now")
    def test_skipped(self): pass

    def test_error(self): raise ValueError("no")

    def test_closes(self): os.closerange(20, 60000)

    def test_arguments(self): assert sys.argv[0].endswith(" -m unittest"), sys.argv
"""


def test_nothing_is_odd_about_honest_test_cases(tmp_path: Path) -> None:
    ran = run(
        write(tmp_path / "project", {"test_it.py": HONEST, "test_broken.py": "import nothing_of_this_name\n"}), "-v"
    )
    assert not ran.odd
    assert {name.rpartition(".")[2]: outcome for name, outcome in ran.report.items()} == {
        "test_parts": "passed",
        "test_fails_in_part": "failed",
        "test_wrong": "xfailed",
        "test_unexpected": "failed",
        "test_skipped": "skipped",
        "test_error": "error",
        "test_closes": "passed",
        "test_arguments": "passed",
        "test_broken": "error",
    }
    assert "Ran 9 tests" in ran.output
