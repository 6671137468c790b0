"""Outcomes of pytest are seen as they happen: code under test that changes its runner is noticed, honest code is not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from observed_runs import FEW_PLUGINS, observe, write
from reflectloop.verification import tools
from reflectloop.verification.observe import TamperWatch
from reflectloop.verification.observe.channel import read_events
from reflectloop.verification.result import DetectedCheck, VerificationResult
from support import Answer, Repo, reflectloop

pytestmark = pytest.mark.usefixtures("without_probing")

WRONG = "\n\ndef add(a, b):\n    return a - b\n"
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n"
CASES = (
    "import unittest\n\nfrom calc import add\n\n\nclass Adds(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n\n"
    "    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n"
)
FORGED = """
import glob, os, sys
REPORT = next(word.partition("=")[2] for word in sys.argv if word.startswith("--junitxml="))
TEXT = ('<testsuites><testsuite name="pytest">'
    '<testcase classname="test_calc" name="test_add" file="test_calc.py"/>'
    '<testcase classname="test_calc" name="test_zero" file="test_calc.py"/></testsuite></testsuites>')

def forge(*_):
    with open(REPORT, "w") as file:
        file.write(TEXT)
"""
CHEATS = {
    "the class of reports": """
import _pytest.reports as r
old = r.TestReport.__init__
def init(self, nodeid, location, keywords, outcome, *rest, **more):
    old(self, nodeid, location, keywords, "passed", *rest, **more)
r.TestReport.__init__ = init
""",
    "the report of one test only": """
import _pytest.reports as r
old = r.TestReport.__init__
def init(self, nodeid, location, keywords, outcome, *rest, **more):
    old(self, nodeid, location, keywords, "passed" if str(nodeid).endswith("test_add") else outcome, *rest, **more)
r.TestReport.__init__ = init
""",
    "the report of one test, put back at once": """
import _pytest.reports as r
old = r.TestReport.__init__
def init(self, nodeid, location, keywords, outcome, *rest, **more):
    old(self, nodeid, location, keywords, "passed" if str(nodeid).endswith("test_add") else outcome, *rest, **more)
    if str(nodeid).endswith("test_add") and more.get("when", rest[1] if len(rest) > 1 else "") == "teardown":
        r.TestReport.__init__ = old
def add(a, b):
    r.TestReport.__init__ = init
    return a - b
""",
    "the code of a function": """
import _pytest.runner as r
def changed(item):
    pass
r.pytest_runtest_call.__code__ = changed.__code__
""",
    "the information about calls": """
import _pytest.runner as r
old = r.CallInfo.from_call.__func__
@classmethod
def from_call(cls, func, when, reraise=None):
    call = old(cls, func, when, reraise)
    call.excinfo = None
    return call
r.CallInfo.from_call = from_call
""",
    "a plugin registered from the source": """
import gc
from _pytest.config import PytestPluginManager
class Quiet:
    def pytest_runtest_logreport(self, report):
        report.outcome = "passed"
    pytest_runtest_logreport.pytest_impl = {"tryfirst": True, "hookwrapper": False, "trylast": False,
        "optionalhook": False, "specname": None, "wrapper": False}
for value in gc.get_objects():
    if isinstance(value, PytestPluginManager):
        value.register(Quiet())
""",
    "a wrapper registered from the source": """
import gc, pytest
from _pytest.config import PytestPluginManager
class Quiet:
    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        outcome.get_result().outcome = "passed"
for value in gc.get_objects():
    if isinstance(value, PytestPluginManager):
        value.register(Quiet())
""",
    "assertions stripped while tests are rewritten": """
import ast, _pytest.assertion.rewrite as w
old = w.rewrite_asserts
def strip(mod, *rest, **more):
    for node in ast.walk(mod):
        if isinstance(node, ast.FunctionDef):
            node.body = [ast.Pass() if isinstance(item, ast.Assert) else item for item in node.body]
    ast.fix_missing_locations(mod)
    return old(mod, *rest, **more)
w.rewrite_asserts = strip
""",
    "the report is rewritten at exit by a finalizer": f"""
{FORGED}
import weakref
class Thing: pass
thing = Thing()
weakref.finalize(thing, forge)
""",
    "the report is rewritten when logging ends": f"""
{FORGED}
import logging
class Quiet(logging.Handler):
    def emit(self, record): pass
    def close(self):
        forge()
        super().close()
logging.getLogger("quiet").addHandler(Quiet())
""",
    "the process ends with a forged report": f"""
{FORGED}
def add(a, b):
    forge()
    os._exit(0)
""",
    "the process becomes another program": f"""
{FORGED}
def add(a, b):
    forge()
    os.execv("/bin/true", ["true"])
""",
    "pytest is started again with other settings": """
import os, sys
if not os.environ.get("AGAIN"):
    os.environ["AGAIN"] = "1"
    report = next(word for word in sys.argv if word.startswith("--junitxml="))
    os.execv(sys.executable, [sys.executable, "-m", "pytest", "-q", report, "-k", "zero"])
""",
    "pytest is started again as it was": """
import os, sys
top = os.path.dirname(next(word for word in sys.argv if word.startswith("--junitxml=")).partition("=")[2])
folder = next(at for at, _, names in os.walk(top) if any(name.endswith(".pipe") for name in names))
if not os.environ.get("AGAIN"):
    os.environ.update(AGAIN="1", PYTHONPATH=folder)
    name = next(name[:-5] for name in os.listdir(folder) if name.endswith(".pipe"))
    os.execv(sys.executable, [sys.executable, "-m", "pytest", "-p", name, *sys.argv[1:], "-k", "zero"])
""",
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
}
CASE_CHEATS = {
    "assertEqual": "import unittest\nunittest.TestCase.assertEqual = lambda self, a, b, msg=None: None\n",
    "the run of a test case": """
import unittest
def run(self, result=None):
    result.startTest(self)
    result.addSuccess(self)
    result.stopTest(self)
    return result
unittest.case.TestCase.run = run
""",
    "failures that are not recorded": """
import _pytest.unittest
_pytest.unittest.TestCaseFunction.addFailure = lambda self, testcase, rawexcinfo: None
""",
}


def with_cheat(tmp_path: Path, cheat: str, test: str) -> Path:
    source = f"{cheat}\n" if "def add(" in cheat else f"{cheat}{WRONG}"
    return write(tmp_path / "project", {"calc.py": source, "test_calc.py": test, "conftest.py": "import calc\n"})


@pytest.mark.parametrize("name", CHEATS)
def test_source_that_changes_its_runner_is_noticed(tmp_path: Path, name: str) -> None:
    ran = observe(with_cheat(tmp_path, CHEATS[name], TEST))
    assert any(outcome == "passed" for outcome in ran.report.values()), ran.output  # the cheat works
    assert "failed" not in ran.report.values(), ran.output
    assert ran.odd


@pytest.mark.parametrize("name", CASE_CHEATS)
def test_source_that_changes_test_cases_is_noticed(tmp_path: Path, name: str) -> None:
    ran = observe(with_cheat(tmp_path, CASE_CHEATS[name], CASES))
    assert set(ran.report.values()) == {"passed"}, ran.output
    assert ran.odd


def test_a_wrong_sum_without_a_cheat_is_only_wrong(tmp_path: Path) -> None:
    ran = observe(with_cheat(tmp_path, "", TEST))
    assert ran.report == {"test_calc.py::test_add": "failed", "test_calc.py::test_zero": "passed"}
    assert ran.told == {"test_calc.py::test_add": ["failed"], "test_calc.py::test_zero": ["passed"]}
    assert not ran.odd


HONEST = {
    "many kinds of tests": """
import unittest, pytest

@pytest.fixture(autouse=True)
def around(request):
    assert request.module.__name__ == "test_it"
    yield

@pytest.mark.parametrize("text", ["a/b", "a::b", "x[y]", "\\x07", "\\u20ac"])
def test_text(text): assert text

@pytest.mark.xfail
def test_expected(): assert 0

@pytest.mark.xfail
def test_unexpected(): assert 1

@pytest.mark.skip
def test_skipped(): pass

def test_fails(): assert [1] == [2]

@pytest.fixture
def broken(): raise ValueError("broken")

def test_error(broken): pass

class TestInside:
    class TestDeeper:
        def test_deep(self): pass

class Case(unittest.TestCase):
    def setUp(self): self.value = 1
    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertEqual(self.value, 1)
    @unittest.expectedFailure
    def test_wrong(self): self.fail("as expected")
""",
    "another folder, closed files and processes of its own": """
import multiprocessing, os, subprocess, sys

def test_folder(tmp_path):
    os.chdir(tmp_path)

def test_closes():
    os.closerange(20, 60000)

def test_workers():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]

def test_fork():
    child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def test_programs_do_not_load_the_observer():
    code = "import os, sys; print(os.environ.get('PYTHONPATH'), sys.path)"
    assert "report" not in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert not any(len(word) == 10 and word.isalpha() and word.islower() for word in sys.argv)
""",
    "sessions inside of a session": """
import subprocess, sys
pytest_plugins = ["pytester"]

def test_inside(pytester):
    pytester.makepyfile("def test_a(): assert 0")
    pytester.runpytest_inprocess("-p", "no:xdist").assert_outcomes(failed=1)

def test_beside(pytester):
    pytester.makepyfile("def test_a(): assert 0")
    pytester.runpytest_subprocess("-p", "no:xdist", "-p", "no:hypothesispytest").assert_outcomes(failed=1)
""",
    "a runner that is changed for the time of a test": """
import unittest
from unittest import mock

def test_patched():
    with mock.patch.object(unittest.TestCase, "assertEqual"):
        unittest.TestCase().assertEqual(1, 2)
""",
}


@pytest.mark.parametrize("name", HONEST)
def test_nothing_is_odd_about_honest_tests(tmp_path: Path, name: str) -> None:
    ran = observe(write(tmp_path / "project", {"test_it.py": HONEST[name]}))
    assert not ran.odd
    assert "passed" in ran.report.values(), ran.output
    if name != "many kinds of tests":
        assert set(ran.report.values()) == {"passed"}, ran.output


WITH_WORKER = (sys.executable, "-m", "pytest", "-q", "-p", "no:hypothesispytest", "-p", "no:anyio", "-n", "1")


def test_workers_of_xdist_run_the_known_tests_too(tmp_path: Path) -> None:
    honest = observe(write(tmp_path / "honest", {"calc.py": WRONG, "test_calc.py": TEST}), command=WITH_WORKER)
    assert not honest.odd
    assert {event.get("worker") for event in honest.events if event["e"] == "known"} == {None, "gw0"}
    cheat = "import os\nif 'PYTEST_XDIST_WORKER' in os.environ:\n" + "".join(
        f"    {line}\n" for line in CHEATS["the class of reports"].splitlines()
    )
    ran = observe(write(tmp_path / "cheat", {"calc.py": cheat + WRONG, "test_calc.py": TEST}), command=WITH_WORKER)
    assert set(ran.report.values()) == {"passed"}
    assert any(key.startswith("known ") for key in ran.odd)


# Chosen tests ---------------------------------------------------------------------------------------------------------

INSIDE = {  # tests in the package, without a package of their own: other files put the package's folder on the path
    "shop/__init__.py": "",
    "shop/core.py": "def one():\n    return 1\n",
    "shop/part/__init__.py": "",
    "shop/part/test_part.py": "import shop\nraise SystemExit('is not imported unless it is chosen')\n",
    "shop/tests/test_core.py": (
        "import pytest\nfrom shop.core import one\n\n\ndef test_one():\n    assert one() == 1\n\n\n"
        "@pytest.mark.parametrize('text', ['a::b', '[c]'])\ndef test_text(text):\n    assert text\n\n\n"
        "class TestIt:\n    def test_one(self):\n        assert one() == 1\n"
    ),
    "shop/tests/test_other.py": "def test_other():\n    pass\n",
}
CORE = "shop/tests/test_core.py"


@pytest.mark.parametrize("command", [(), WITH_WORKER], ids=["alone", "with a worker"])
@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ([CORE], ["TestIt::test_one", "test_one", "test_text[[c]]", "test_text[a::b]"]),
        ([f"{CORE}::test_one"], ["test_one"]),
        ([f"{CORE}::TestIt"], ["TestIt::test_one"]),
        ([f"{CORE}::test_text"], ["test_text[[c]]", "test_text[a::b]"]),
        ([f"{CORE}::test_text[a::b]", f"{CORE}::TestIt::test_one"], ["TestIt::test_one", "test_text[a::b]"]),
    ],
)
def test_chosen_tests_import_what_they_import_in_the_whole_suite(
    tmp_path: Path, chosen: list[str], expected: list[str], command: tuple[str, ...]
) -> None:
    project = write(tmp_path / "project", INSIDE)
    program = Path(sys.executable).with_name("pytest")  # adds no folder to the path, unlike `python -m pytest`
    words = (os.fspath(program), *(command or (sys.executable, "-m", "pytest", "-q", *FEW_PLUGINS))[3:])
    ran = observe(project, command=words, chosen=chosen)
    assert ran.exit_code == 0, ran.output
    assert set(ran.report.values()) == {"passed"}
    assert len(ran.report) == len(expected)
    assert sorted(name.partition("::")[2] for name in ran.told) == expected
    assert not ran.odd


@pytest.mark.parametrize("chosen", [f"{CORE}::test_gone", "shop/tests/test_gone.py", "shop/core.py"])
def test_a_chosen_test_that_the_suite_does_not_reach_ends_the_run(tmp_path: Path, chosen: str) -> None:
    ran = observe(write(tmp_path / "project", INSIDE), chosen=[f"{CORE}::test_one", chosen])
    assert ran.exit_code == 4, ran.output
    assert not ran.report


def test_a_chosen_file_that_cannot_be_imported_is_an_error_and_not_unknown(tmp_path: Path) -> None:
    files = {"test_a.py": "import missing_module\n", "test_b.py": "def test_b():\n    pass\n"}
    ran = observe(write(tmp_path / "project", files), chosen=["test_a.py", "test_b.py"])
    assert ran.exit_code == 1, ran.output
    assert sorted(ran.report.values()) == ["error", "passed"]


# Through the program --------------------------------------------------------------------------------------------------


@pytest.fixture
def calc(repo: Repo) -> Repo:
    repo.git("rm", "-q", "-r", "src")
    write(
        repo.path,
        {"calc.py": WRONG, "test_calc.py": TEST, "pytest.ini": f"[pytest]\naddopts = {' '.join(FEW_PLUGINS)}\n"},
    )
    repo.commit("a bug")
    return repo


def verify(repo: Repo) -> Answer:
    return reflectloop(repo.path, "verify", "--track", "fix")


def test_a_patch_that_changes_the_runner_is_refused_with_the_reason(calc: Repo) -> None:
    calc.write("calc.py", CHEATS["the code of a function"] + WRONG)
    refused = verify(calc)
    assert refused.code == 33
    assert "REFUSED" in refused.stderr
    assert (
        "pytest: the code under test changed the test runner: a test of the verifier (assert) must come out"
        in refused.stderr
    )


def test_a_base_whose_runner_was_changed_is_not_judged(calc: Repo) -> None:
    calc.write("calc.py", CHEATS["the code of a function"] + WRONG)
    calc.commit("a cheat")
    calc.write("calc.py", WRONG.replace("a - b", "a + b"))
    answer = verify(calc)
    assert "NOT JUDGED" in answer.stderr
    assert "pytest: on base, the code under test changed the test runner" in answer.stderr


def test_an_honest_fix_passes_and_leaves_no_trace_of_known_tests(calc: Repo) -> None:
    calc.write("calc.py", WRONG.replace("a - b", "a + b"))
    answer = verify(calc)
    assert answer.code == 0, answer.stderr
    assert "2 passed" in answer.stderr
    assert "observed" not in answer.stderr


def test_a_command_that_does_not_load_the_observer_is_said(calc: Repo) -> None:
    command = "[verify]\nchecks = [{name = 'tests', run = ['python', '-I', '-m', 'pytest'], kind = 'test'}]\n"
    write(calc.path, {"reflectloop.toml": command, "conftest.py": "import sys\nsys.path.insert(0, '.')\n"})
    calc.commit("settings")
    calc.write("calc.py", WRONG.replace("a - b", "a + b"))
    answer = verify(calc)
    assert answer.code == 0, answer.stderr
    assert "tests: outcomes were not observed as they happened" in answer.stderr


def test_what_is_switched_off_is_said(tmp_path: Path) -> None:
    check = DetectedCheck("suite", "test", "pytest", ("pytest",))
    prepared = tools.prepare(check, report=tmp_path / "report")
    off = TamperWatch("base", enabled=False)
    begun = off.begin(check, prepared, tmp_path, tmp_path)
    assert (begun.argv, begun.observed) == (prepared.argv, False)
    assert off.notes == {"[verify] canaries is off: suite was judged by its report alone"}


def test_what_is_odd_on_base_too_is_not_the_patchs_doing(tmp_path: Path) -> None:
    check = DetectedCheck("suite", "test", "pytest", ("pytest",))
    watch = TamperWatch("base")
    prepared = tools.prepare(check, report=tmp_path / "report")
    result = VerificationResult(ok=True, type="passed", summary="1 passed")
    told = read_events(b'{"n": 0, "e": "start"}\n{"n": 1, "e": "changed", "names": ["unittest.case.TestCase.run"]}\n')
    begun = watch.begin(check, prepared, tmp_path, tmp_path)
    begun.close()
    assert watch.judge(check, "patch", begun, told, result, ended=True).type == "tampered"
    assert watch.judge(check, "base", begun, told, result, ended=True).type == "passed"
    assert watch.judge(check, "patch", begun, told, result, ended=True).type == "passed"


def test_events_that_are_not_told_one_after_the_other_are_a_fault() -> None:
    start, second = b'{"n": 0, "e": "start"}\n', b'{"n": 1, "e": "told"}\n'
    assert not read_events(start + second).faults
    for data in (second, start + start, start + second + second, start + b"x\n", start + b'{"n": 1'):
        assert read_events(data).faults, data
    other = b'{"n": 0, "e": "start", "s": "a"}\n'
    assert read_events(start + other).faults
    assert not read_events(start + other, many=True).faults
