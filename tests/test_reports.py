"""Reports and logs: what is read from each, how outcomes are told apart, and what no input may do."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflectloop.verification import compare, reports
from reflectloop.verification.reports import report_builder
from reflectloop.verification.result import Counts, ReportReading, VerificationResult
from support import calls_of

JUNIT = """<?xml version="1.0"?><testsuites name="pytest tests"><testsuite name="pytest" tests="5">
<testcase classname="tests.test_a.TestX" name="test_y[a b/c]" time="0.1"/>
<testcase classname="tests.test_a" name="test_z"><failure message="assert 1 == 2">def test_z():
&gt;       assert 1 == 2
E       assert 1 == 2

tests/test_a.py:7: AssertionError</failure></testcase>
<testcase classname="tests.unit.test_b.TestU.TestIn" name="test_s"><skipped type="pytest.skip" message="no"/></testcase>
<testcase classname="tests.test_a" name="test_x"><skipped type="pytest.xfail" message=""/></testcase>
<testcase classname="tests.test_a" name="test_e"><error message="failed on setup">fixture</error></testcase>
</testsuite></testsuites>"""


def read(text: bytes | str, tool: str | None = None) -> ReportReading:
    found = reports.read(text, tool=tool)
    assert found is not None
    return found


def told(text: str, exit_code: int | None = None, **more: object) -> VerificationResult:
    return reports.judge(reports.read(text), exit_code=exit_code, log=text, **more)  # type: ignore[arg-type]


def places(text: str) -> set[tuple[str | None, int | None]]:
    return {(one.file, one.line) for one in read(text).details}


def test_junit_of_pytest_gives_back_the_ids_pytest_prints() -> None:
    reading = read(JUNIT)
    assert dict(reading.tests) == {
        "tests/test_a.py::TestX::test_y[a b/c]": "passed",
        "tests/test_a.py::test_z": "failed",
        "tests/unit/test_b.py::TestU::TestIn::test_s": "skipped",
        "tests/test_a.py::test_x": "xfailed",
        "tests/test_a.py::test_e": "error",
    }
    assert reading.counts == Counts(passed=1, failed=1, errors=1, skipped=2)
    first = reading.details[0]
    assert (first.file, first.line, first.test) == ("tests/test_a.py", 7, "tests/test_a.py::test_z")
    assert "assert 1 == 2" in (first.context or "")


def test_ids_from_junit_are_those_of_a_real_pytest(tmp_path: Path) -> None:
    body = """import pytest
class TestX:
    @pytest.mark.parametrize("p", ["a b", "x/y", "u - v", "k::l", "[m]"])
    def test_y(self, p): assert p
def test_bad(): assert 1 == 2, "bash: pytest: command not found"
"""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "test_mod.py").write_text(body)
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-v",
            "--junitxml=out.xml",
            "-c",
            "/dev/null",
            "--rootdir=.",
            "pkg",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    by_report, by_text = read((tmp_path / "out.xml").read_bytes()), read(ran.stdout)
    assert dict(by_report.tests) == dict(by_text.tests)
    assert "pkg/test_mod.py::TestX::test_y[u - v]" in by_report.tests
    result = reports.judge(by_report, exit_code=ran.returncode, kind="test", tool="pytest", log=ran.stdout)
    assert (result.type, result.summary) == ("test_failure", "1 failed, 5 passed")
    assert result.details[0].line == 5


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("<testsuite><testcase name='a'/><testsuite><testcase name='b'><failure/></testcase></testsuite></testsuite>", (1, 1, 0)),
        ("<testsuite><testcase name='a' status='notrun'/><testcase name='b'><flakyFailure/></testcase></testsuite>", (1, 0, 1)),
        ("<testsuite name='s'><error message='no fixture'/><testcase name='a'/></testsuite>", (1, 1, 0)),
        ("<test-run><test-suite><test-case fullname='A.b' result='Passed'/><test-case fullname='A.c' result='Failed'/></test-suite></test-run>", (1, 1, 0)),
        ("<assemblies><assembly><collection><test name='a' result='Pass'/><test name='b' result='Skip'/></collection></assembly></assemblies>", (1, 0, 1)),
        ("<TestRun xmlns='x'><Results><UnitTestResult testName='a' outcome='Failed'/><UnitTestResult testName='b' outcome='Passed'/></Results></TestRun>", (1, 1, 0)),
        ("<testng-results><suite><test><class name='C'><test-method status='PASS' signature='a()'/><test-method is-config='true' status='PASS' signature='s()'/></class></test></suite></testng-results>", (1, 0, 0)),
        ("<Site><Testing><TestList><Test>a</Test></TestList><Test Status='passed'><Name>a</Name></Test><Test Status='failed'><Name>b</Name></Test></Testing></Site>", (1, 1, 0)),
        ('{"numTotalTests":2,"testResults":[{"name":"/p/a.js","assertionResults":[{"title":"x","status":"passed"},{"title":"y","status":"failed","failureMessages":["Error: no"]}]}]}', (1, 1, 0)),
        ('{"stats":{},"tests":[],"passes":[{"fullTitle":"a"}],"failures":[{"fullTitle":"b","err":{"message":"m"}}],"pending":[{"fullTitle":"c"}]}', (1, 1, 1)),
        ('{"version":"3","examples":[{"full_description":"a","status":"passed"},{"full_description":"b","status":"pending"}],"summary":{}}', (1, 0, 1)),
        ('{"Action":"run","Package":"p","Test":"T"}\n{"Action":"fail","Package":"p","Test":"T"}\n{"Action":"run","Package":"p","Test":"U"}\n{"Action":"pass","Package":"p","Test":"U"}\n', (1, 1, 0)),
        ('{"type":"suite","event":"started","test_count":2}\n{"type":"test","event":"ok","name":"a"}\n{"type":"test","event":"failed","name":"b"}\n{"type":"suite","event":"failed"}\n', (1, 1, 0)),
        ("TAP version 13\n1..3\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP\n", (1, 1, 1)),
        ("TAP version 13\n# Subtest: g\n    ok 1 - in\n    not ok 2 - bad\n    1..2\nnot ok 1 - g\n  ---\n  failureType: 'subtestsFailed'\n  ...\n1..1\n", (1, 1, 0)),
        ("Ran 4 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=1)\n", (1, 2, 1)),
        ("test a ... ok\ntest b ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n", (1, 1, 0)),
        ("Tests:       1 failed, 1 skipped, 3 passed, 5 total\nTest Suites: 1 failed, 1 total\n", (3, 1, 1)),
        (" Test Files  1 failed (1)\n      Tests  1 failed | 2 passed (3)\n", (2, 1, 0)),
        ("  group\n    ✔ a\n    1) b\n\n  1 passing (3ms)\n  1 failing\n\n  1) group\n       b:\n     Error: no\n", (1, 1, 0)),
        ("ℹ tests 4\nℹ pass 2\nℹ fail 1\nℹ cancelled 0\nℹ skipped 1\nℹ todo 0\n", (2, 1, 1)),
        ("5 examples, 1 failure, 1 pending\n", (3, 1, 1)),
        ("3 runs, 5 assertions, 1 failures, 0 errors, 1 skips\n", (1, 1, 1)),
        ("PHPUnit 10\nTests: 5, Assertions: 7, Failures: 1, Skipped: 1.\n", (3, 1, 1)),
        ("75% tests passed, 1 tests failed out of 4\n", (3, 1, 0)),
        ("[INFO] Tests run: 4, Failures: 1, Errors: 0, Skipped: 1\n", (2, 1, 1)),
        ("5 tests completed, 1 failed, 2 skipped\n", (2, 1, 2)),
        ("[==========] 3 tests ran.\n[  PASSED  ] 2 tests.\n[  FAILED  ] 1 test, listed below:\n", (2, 1, 0)),
        ("a_test.c:3:adds:PASS\na_test.c:9:subtracts:FAIL: Expected 1 Was 2\na_test.c:12:later:IGNORE\n\n3 Tests 1 Failures 1 Ignored \nFAIL\n", (1, 1, 1)),
        ("TEST(Sum, adds) PASS\nTEST(Sum, fails)a_test.c:9::FAIL: no\n\n2 Tests 1 Failures 0 Ignored\n", (1, 1, 0)),
        ("[==========] tests: Running 2 test(s).\n[       OK ] adds\n[  FAILED  ] subtracts\n[==========] tests: 2 test(s) run.\n[  PASSED  ] 1 test(s).\n[  FAILED  ] tests: 1 test(s), listed below:\n[  FAILED  ] subtracts\n\n 1 FAILED TEST(S)\n", (1, 1, 0)),
        ("test cases: 3 | 2 passed | 1 failed\nassertions: 9 | 8 passed | 1 failed\n", (2, 1, 0)),
        ("test cases: 3 | 2 passed | 1 failed as expected\nassertions: 9 | 8 passed | 1 failed as expected\n", (2, 0, 0)),
        ("[doctest] test cases: 3 | 2 passed | 1 failed | 0 skipped\n", (2, 1, 0)),
        ("--- FAIL: TestB (0.00s)\n    a_test.go:3: no\nFAIL\nFAIL\tp/a\t0.1s\nok  \tp/b\t0.1s\n", (1, 1, 0)),
        ("==== 1 failed, 2 passed, 1 xpassed, 3 warnings in 0.12s ====\n", (3, 1, 0)),
        ("1 failed, 2 passed in 0.12s\n", (2, 1, 0)),
    ],
)  # fmt: skip
def test_each_runner_is_counted_as_it_counts(text: str, counts: tuple[int, int, int]) -> None:
    found = read(text).counts
    assert found is not None
    assert (found.passed, found.failed + found.errors, found.skipped) == counts


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("src/a.c:3:5: warning: unused variable [-Wunused]\n", {("src/a.c", 3)}),
        ("a.py:3: error: bad\n", {("a.py", 3)}),
        ("Dockerfile:7 DL3006 Always tag\n", {("Dockerfile", 7)}),
        ("C:\\p\\a.cs(3,5): error CS1: no [C:\\p\\p.csproj]\n", {("C:\\p\\a.cs", 3)}),
        ("src/app/[id]/page.tsx(3,5): error TS1005: ';' expected.\n", {("src/app/[id]/page.tsx", 3)}),
        ("src/a.ts[3, 5]: missing semicolon\n", {("src/a.ts", 3)}),
        ("[ERROR] /p/A.java:[3,5] cannot find symbol\n", {("/p/A.java", 3)}),
        ("[/p/a.go:3] - G104: Errors unhandled\n", {("/p/a.go", 3)}),
        ("e: /p/a.kt: (3, 5): Unresolved reference\n", {("/p/a.kt", 3)}),
        ("a.js: line 3, col 5, Missing semicolon.\n", {("a.js", 3)}),
        ('File "a.ml", line 3, characters 5-7:\nError: Unbound value\n', {("a.ml", 3)}),
        ("init.pp - WARNING: too long on line 3 (check: 140chars)\n", {("init.pp", 3)}),
        ("PHP Parse error:  syntax error in /p/a.php on line 3\n", {("/p/a.php", 3)}),
        ("syntax error at lib/A.pm line 3.\n", {("lib/A.pm", 3)}),
        ("error[E0308]: mismatched types\n --> src/a.rs:3:5\n  |\n3 | x\n", {("src/a.rs", 3)}),
        ("\n/p/a b.js\n  3:5  error  no  rule-a\n  9:1  warning  no  rule-b\n\n✖ 2 problems (1 error, 1 warning)\n  1 error and 0 warnings potentially fixable\n", {("/p/a b.js", 3), ("/p/a b.js", 9)}),
        ("FILE: /p/A.php\n----\n 3 | ERROR   | [x] no\n 9 | WARNING | no\n", {("/p/A.php", 3), ("/p/A.php", 9)}),
        ("In a.sh line 3:\necho $1\n     ^-- SC2086\n", {("a.sh", 3)}),
        ("::error file=a.py,line=3,col=5::no\n", {("a.py", 3)}),
        ("/p/a.rb\t3\tSQL\tno\n", {("/p/a.rb", 3)}),
        ("would reformat a.py\n1 file would be reformatted.\n", {("a.py", None)}),
        ('Traceback (most recent call last):\n  File "/p/a.py", line 3, in <module>\n    x\n  File "/p/b.py", line 9\n    y\nSyntaxError: bad\n', {("/p/b.py", 9)}),
        ('[{"filePath":"/p/a.js","messages":[{"ruleId":"semi","severity":2,"message":"no","line":3,"column":5}]}]', {("/p/a.js", 3)}),
        ('{"generalDiagnostics":[{"file":"/p/a.py","severity":"error","message":"no","range":{"start":{"line":2,"character":4}}}]}', {("/p/a.py", 3)}),
        ('{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"T","rules":[{"id":"r","shortDescription":{"text":"x"}}]}},"results":[{"ruleId":"r","message":{"text":"no"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"a.py"},"region":{"startLine":3}}}]}]}]}', {("a.py", 3)}),
        ('{"reason":"compiler-message","message":{"message":"no","level":"error","code":null,"spans":[{"file_name":"a.rs","line_start":3,"column_start":1,"is_primary":true}]}}\n{"reason":"build-finished","success":false}\n', {("a.rs", 3)}),
        ("<checkstyle><file name='/p/a.c'><error line='3' severity='error' message='no' source='r'/></file></checkstyle>", {("/p/a.c", 3)}),
        ("<pmd><file name='/p/A.java'><violation beginline='3' rule='R'>no</violation></file></pmd>", {("/p/A.java", 3)}),
    ],
)  # fmt: skip
def test_a_complaint_is_found_in_any_shape(text: str, wanted: set[tuple[str, int]]) -> None:
    assert places(text) == wanted


RULE = "-" * 79
CATCH2 = f"""
{RULE}
sums of numbers
  below zero
{RULE}
sum_test.cpp:12
{"." * 79}

sum_test.cpp:14: FAILED:
  CHECK( sum(-1, -1) == -2 )
with expansion:
  2 == -2

{"=" * 79}
test cases: 2 | 1 passed | 1 failed
assertions: 5 | 4 passed | 1 failed
"""
DOCTEST = f"""{"=" * 79}
sum_test.cpp:12:
TEST CASE:  sums of numbers

sum_test.cpp:14: ERROR: CHECK( sum(-1, -1) == -2 ) is NOT correct!
  values: CHECK( 2 == -2 )

{"=" * 79}
[doctest] test cases: 2 | 1 passed | 1 failed | 0 skipped
"""


@pytest.mark.parametrize("text", [CATCH2, DOCTEST])
def test_a_failed_case_of_catch2_and_doctest_has_its_name_and_line(text: str) -> None:
    reading = read(text)
    assert dict(reading.tests) == {"sums of numbers": "failed"}
    assert [(one.test, one.file, one.line) for one in reading.details] == [("sums of numbers", "sum_test.cpp", 14)]
    report = f"<testsuite><testcase name='sums'><failure/><system-out>{text}</system-out></testcase></testsuite>"
    within = read(report, "ctest")
    assert dict(within.tests) == {"sums": "failed"}  # those that passed have no name, so this one would look new
    assert within.details[0].test == "sums::sums of numbers"


MESON_LOG = """ninja: no work to do.
1/4 sums:adds          OK              0.02s
2/4 sums:divides       FAIL            0.01s   exit status 1
3/4 sums:on windows    SKIP            0.01s
4/4 sums:ends          TIMEOUT        30.01s   killed by signal 15 SIGTERM

Ok:                1
Fail:              1
Skipped:           1
Timeout:           1

Full log written to /x/build/meson-logs/testlog.txt
"""
MESON_REPORT = """<?xml version='1.0' encoding='utf-8'?>
<testsuites tests="2" errors="0" failures="1"><testsuite name="sums" tests="2" errors="0" failures="1" skipped="0">
<testcase name="sums:adds" classname="sums" time="0.02"><system-out>ok 1 - small\nok 2 - large\n1..2\n</system-out></testcase>
<testcase name="sums:divides" classname="sums" time="0.01"><failure/></testcase></testsuite></testsuites>
"""


def test_the_log_and_the_report_of_meson_name_each_test() -> None:
    reading = read(MESON_LOG, "meson-test")
    assert dict(reading.tests) == {
        "sums:adds": "passed",
        "sums:divides": "failed",
        "sums:on windows": "skipped",
        "sums:ends": "failed",
    }
    assert reading.counts is not None
    assert (reading.counts.passed, reading.counts.failed, reading.counts.skipped) == (1, 1, 1)
    within = read(MESON_REPORT, "meson-test").tests
    assert sorted(within.values()) == ["failed", "passed", "passed", "passed"]


def test_a_case_that_ctest_lists_itself_is_one_test() -> None:
    text = "[==========] Running 1 test\n[       OK ] Sum.Adds (0 ms)\n[==========] 1 test ran.\n[  PASSED  ] 1 test.\n"
    report = f"<testsuite><testcase name='Sum.Adds' status='run'><system-out>{text}</system-out></testcase></testsuite>"
    assert dict(read(report, "ctest").tests) == {"Sum.Adds": "passed"}
    assert dict(read(report.replace("'Sum.Adds'", "'all'"), "ctest").tests) == {
        "all": "passed",
        "all::Sum.Adds": "passed",
    }
    assert dict(read(report.replace("'Sum.Adds'", "'all'")).tests) == {"all": "passed"}


def test_a_program_of_which_every_case_fails_keeps_the_names_of_its_cases() -> None:
    """Otherwise a change that breaks the last passing cases of a red program would look as if they were not run."""
    report = (
        "<testsuite name='' tests='1'><testcase name='unit' classname='unit' status='fail'><failure message='Failed'/>"
        "<system-out>[==========] Running 2 tests from 1 test suite.\n[ RUN      ] Sum.Adds\n{} Sum.Adds (0 ms)\n"
        "[ RUN      ] Sum.Subtracts\n[  FAILED  ] Sum.Subtracts (0 ms)\n[  PASSED  ] {} tests.\n[  FAILED  ] {} tests, listed "
        "below:\n[  FAILED  ] Sum.Subtracts\n</system-out></testcase></testsuite>"
    )
    some, none = report.format("[       OK ]", 1, 1), report.format("[  FAILED  ]", 0, 2)
    assert dict(read(some, "ctest").tests) == {
        "unit": "failed",
        "unit::Sum.Adds": "passed",
        "unit::Sum.Subtracts": "failed",
    }
    assert dict(read(none, "ctest").tests) == dict.fromkeys(("unit", "unit::Sum.Adds", "unit::Sum.Subtracts"), "failed")


def test_colours_windows_line_ends_and_foreign_bytes_are_normal() -> None:
    text = b"\x1b[1msrc/a.c:3:5:\x1b[0m \x1b[31merror:\x1b[0m no \xff\xfe\r\n\x1b[32mnoise\x1b[0m\r\n"
    assert [(one.file, one.line, one.severity) for one in read(text).details] == [("src/a.c", 3, "error")]


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-02 03:04:05 INFO started",
        "2021/03/04 12:30:45 listening",
        "http://localhost:8080/x is up",
        "example.com:443: connection refused",
        "com.acme.Server:12 started",
        "In file included from a.h:3:",
        "12:30:45 all is well",
    ],
)
def test_what_only_looks_like_a_place_is_none(text: str) -> None:
    assert reports.read(text + "\n") is None


@pytest.mark.parametrize(
    ("text", "exit_code", "type_"),
    [
        ("3 passed in 0.1s\n", 0, "passed"),
        ("no tests ran in 0.01s\n", 5, "no_tests"),
        ("Ran 0 tests in 0.000s\n\nOK\n", 0, "no_tests"),
        ("2 skipped in 0.1s\n", 0, "no_tests"),
        ("1 failed, 2 passed in 0.1s\n", 0, "test_failure"),
        ("3 passed in 0.1s\n", 1, "crashed"),
        ("===== test session starts =====\ncollected 3 items\n\ntests/test_a.py ..", 139, "crashed"),
        ("===== test session starts =====\ncollected 3 items\n\ntests/test_a.py ..", 0, "crashed"),
        ("", 137, "crashed"),
        ("", -11, "crashed"),
        ("/usr/bin/python3: No module named pytest\n", 1, "tool_missing"),
        ("bash: line 1: pytest: command not found\n", 127, "tool_missing"),
        ("sh: 1: jest: not found\n", 127, "tool_missing"),
        ('npm error Missing script: "test"\n', 1, "tool_missing"),
        ("FAILED t.py::test_a - AssertionError: bash: pytest: command not found\n1 failed in 0.1s\n", 1, "test_failure"),
        ("E   ModuleNotFoundError: No module named 'x'\nFAILED t.py::test_a - ModuleNotFoundError: No module named 'x'\n1 failed in 0.1s\n", 1, "test_failure"),
        ("FAILED t.py::test_a - assert 'error: 0 errors' == ''\n1 failed in 0.1s\n", 127, "test_failure"),
        ("____ ERROR collecting t.py ____\nt.py:1: in <module>\n    import nope\nE   ModuleNotFoundError: No module named 'nope'\nERROR t.py\n!!!!! Interrupted: 1 error during collection !!!!!\n1 error in 0.1s\n", 2, "collection_error"),
        ("ERROR: test_bad (unittest.loader._FailedTest.test_bad)\nImportError: Failed to import test module: test_bad\nRan 1 test in 0.0s\n\nFAILED (errors=1)\n", 1, "collection_error"),
        ("# p\n./a.go:3:5: undefined: x\nFAIL\tp [build failed]\nFAIL\n", 1, "build_failure"),
        ("a.c:3:5: error: no\nmake: *** [Makefile:2: all] Error 1\n", 2, "build_failure"),
        ("a.py:3: error: no  [x]\nFound 1 error in 1 file (checked 1 source file)\n", 1, "type_error"),
        ("a.py:3:1: F401 unused\nFound 1 error.\n", 1, "lint"),
        ("All checks passed!\n", 0, "passed"),
    ],
)  # fmt: skip
def test_outcomes_are_told_apart(text: str, exit_code: int, type_: str) -> None:
    kind = "test" if type_ in {"no_tests", "crashed", "tool_missing"} else None
    result = told(text, exit_code, kind=kind)
    assert (result.type, result.ok) == (type_, type_ == "passed")
    assert result.summary
    assert result.ok or result.suggestion


def test_a_timeout_is_a_timeout_whatever_was_printed() -> None:
    assert told("3 passed in 0.1s\n", 0, timed_out=True).type == "timeout"


def test_as_many_failures_as_the_exit_code_is_no_signal() -> None:
    result = told("  3 passing (1s)\n  137 failing\n", 137)
    assert (result.type, result.counts.failed) == ("test_failure", 137)


def test_exit_code_0_without_any_result_is_no_pass_of_tests() -> None:
    assert reports.judge(None, exit_code=0, kind="test", tool="pytest", log="hello").type == "crashed"
    assert reports.judge(None, exit_code=0, kind="build", tool="make", log="hello").type == "passed"


def test_ids_and_files_do_not_name_the_folder_of_the_project() -> None:
    case = {"title": "adds", "fullTitle": "adds", "file": "/home/me/shop/test/add.js", "err": {"message": "1 == 2"}}
    text = json.dumps({"stats": {"tests": 1}, "passes": [], "failures": [case]})
    result = reports.judge(reports.read(text, tool="mocha"), exit_code=1, tool="mocha", top="/home/me/shop")
    assert list(result.tests) == ["test/add.js::adds"]
    assert [item.test for item in result.details] == ["test/add.js::adds"]


def test_a_java_failure_is_placed_in_the_test_not_in_the_library() -> None:
    text = (
        "[ERROR] a.ATest.bad -- Time elapsed: 0.001 s <<< FAILURE!\njava.lang.AssertionError: expected:<1> but was:<2>\n"
        "\tat org.junit.Assert.fail(Assert.java:89)\n\tat a.ATest.bad(ATest.java:7)\n\n"
        "[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0\n"
    )
    result = told(text, 1)
    assert (result.type, result.tests) == ("test_failure", {"a.ATest.bad": "failed"})
    assert (result.details[0].file, result.details[0].line) == ("ATest.java", 7)


def test_a_warning_in_a_log_is_no_result_of_tests() -> None:
    assert told("a.c:3:5: warning: unused [-Wunused]\n", 0, kind="test", tool="make").type == "crashed"
    assert told("a.c:3:5: error: no\n", 2, kind="test", tool="make").type == "build_failure"
    assert told("a.c:3:5: warning: unused [-Wunused]\n", 0, kind="build", tool="make").type == "passed"
    assert told("a.c:3:5: warning: unused [-Wunused]\n").type == "passed"


def test_the_summary_counts_issues_and_files() -> None:
    result = told("a.py:1:1: F401 x\na.py:2:1: F401 y\nb.py:3:1: E501 z\n", 1, tool="flake8", kind="lint")
    assert result.summary == "flake8: 3 issues in 2 files"
    assert result.details[0].rule == "F401"


BOMB = '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;">]><testsuites><testsuite><testcase name="&b;"/></testsuite></testsuites>'


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "<testsuites>" + "<testsuite>" * 5000,
        JUNIT[: len(JUNIT) // 2],
        JUNIT[:-20],
        '<?xml version="1.0"?>',
        '{"numTotalTests": 3, "testResults": [',
        "[" * 5000,
        "TAP version 13\n1..5\nok 1 - a\n",
        "TAP version 13\nok 1 - a\nBail out! no\n",
        '{"type":"suite","event":"started"}\n{"type":"test","event":"ok","name":"a"}\n{"type":"te',
    ],
    ids=["bomb", "deep", "cut", "unclosed", "empty", "json", "brackets", "tap", "bail", "events"],
)
def test_a_report_that_is_cut_or_hostile_is_never_a_pass(text: str) -> None:
    result = reports.judge(reports.read(text), exit_code=0, kind="test", tool="runner")
    assert not result.ok
    assert result.type == "crashed"


@pytest.mark.parametrize("end", range(40, len(JUNIT) - 1, 97))
def test_no_beginning_of_a_junit_report_passes(end: int) -> None:
    assert not reports.judge(reports.read(JUNIT[:end]), exit_code=0, kind="test").ok


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=2000))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    result = reports.judge(reports.read(data), exit_code=None, log=data.decode("utf-8", "replace"))
    assert result.summary


_PIECES = [
    b"a.py:3: no\n", b"::", b"{", b'{"Action":"run","Package":"p","Test":"T"}\n', b"<testcase name='a'>", b"<testsuite>", b"[",
    b"1..3\n", b"not ok 1\n", b"    ok 2 - b # TODO\n", b"FAILED a.py::b - c\n", b"1 failed in 0.1s\n", b"Ran 3 tests in 1s\n\nOK\n",
    b"--- FAIL: T (0s)\n", b"FAIL\tp\t1s\n", b"\x1b[31m", b"\xff", b"\r\n", b"Traceback (most recent call last):\n", b'  File "a", line 3\n',
]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=40))
def test_no_mixture_of_formats_makes_it_fail(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert reports.judge(reports.read(data), exit_code=1, log=data.decode("utf-8", "replace")).ok is False


@pytest.mark.parametrize(
    "piece",
    [b"\n", b" ", b":", b"a:1 ", b"a.", b"[", b"{\n", b" - at line ", b"--- FAIL: T/a (0.0s)\n", b"not ok 1 - x\n", b": error: "],
)  # fmt: skip
def test_the_cost_of_a_report_is_linear_in_its_length(piece: bytes) -> None:
    once, twice = (functools.partial(reports.read, piece * (size // len(piece))) for size in (1 << 16, 1 << 17))
    once()
    assert calls_of(twice) < 2.2 * calls_of(once) + 100


def test_a_build_that_warned_and_exited_well_is_well() -> None:
    log = "CMake Deprecation Warning at CMakeLists.txt:2 (cmake_minimum_required):\n  Compatibility will be removed\n"
    done = reports.judge(None, exit_code=0, kind="build", tool="cmake", command=("cmake",), log=log)
    assert (done.ok, done.type) == (True, "passed")
    assert not reports.judge(None, exit_code=2, kind="build", tool="cmake", command=("cmake",), log=log).ok


def test_unittests_words_are_read_with_the_line_that_describes_a_test() -> None:
    text = (
        "test_a (tests.test_x.T.test_a)\nWhat it is about. ... ok\n"
        "test_b (tests.test_x.T.test_b)\nOf parts. ... \n"
        "  test_b (tests.test_x.T.test_b) [one]\nOf parts. ... skipped 'not here'\n"
        "  test_b (tests.test_x.T.test_b) [two]\nOf parts. ... skipped 'not here'\n"
        "test_c (tests.test_x.T.test_c) ... ok\n"
        "test_d (tests.test_x.T.test_d)\nLeft out. ... skipped 'no'\n\n"
        "----------------------------------------------------------------------\nRan 4 tests in 0.1s\n\nOK (skipped=3)\n"
    )
    found = reports.read(text, tool="unittest")
    assert found
    assert found.tests == {
        "test_a (tests.test_x.T.test_a)": "passed",
        "test_c (tests.test_x.T.test_c)": "passed",
        "test_d (tests.test_x.T.test_d)": "skipped",
    }


def test_more_skipped_parts_than_tests_do_not_make_the_tests_unrun() -> None:
    found = reports.read("Ran 4 tests in 0.1s\n\nOK (skipped=9)\n", tool="unittest")
    assert found
    assert found.counts
    assert (found.counts.passed, found.counts.skipped) == (4, 9)


def test_issues_are_compared_without_numbers_and_shown_as_they_are() -> None:
    def lint(*rows: str) -> VerificationResult:
        text = "".join(f"{row}\n" for row in rows)
        return reports.judge(reports.read(text), exit_code=1, kind="lint", tool="flake8", log=text, top="/p")

    old = lint("/p/setup.py:7:80: E501 line too long (99 > 79 characters)")
    moved = lint(
        "/p/setup.py:9:80: E501 line too long (98 > 79 characters)", "/p/a.py:3:1: F401 'x' imported but unused"
    )
    change = compare.compare(old, moved)
    assert change.newly_failing == ("a.py:3: F401 'x' imported but unused",)
    assert change.pre_existing == ("setup.py:9: E501 line too long (98 > 79 characters)",)
    assert compare.compare(moved, old).fixed == ("a.py:3: F401 'x' imported but unused",)


def test_a_package_manager_that_is_missing_is_named_itself() -> None:
    result = reports.judge(None, exit_code=127, kind="build", tool="npm", command=("pnpm", "run", "build"))
    assert (result.type, result.summary) == ("tool_missing", "pnpm is not there")


@pytest.mark.parametrize(
    ("log", "exit_code", "type_", "passed", "failed"),
    [
        ("cc -o t t.c\n./t\n\nPASSED: 14\nFAILED: 0\n", 0, "passed", 14, 0),
        ("./t\nPASSED: 14\nFAILED: 0\n./u\nPASSED: 13\nFAILED: 1\n", 1, "test_failure", 27, 1),
        ("PASSED: 3\nFAILED: 1\n", 0, "test_failure", 3, 1),
        ("./t\nFAILED: 2\n", 1, "test_failure", 0, 2),
        ("cc -c t.c\nerrors: 2\n", 1, "crashed", 0, 0),
        ("ALL TESTS PASSED (145/145)\n", 0, "passed", 145, 0),
        ("SOME TESTS FAILED (140/145)\n", 2, "test_failure", 140, 5),
        ("t.c:3:1: warning: unused variable\n5 of 5 tests passed\n", 0, "passed", 5, 0),
        ("PASSED: 0\nFAILED: 0\n", 0, "no_tests", 0, 0),
        ("make: Nothing to be done for 'test'.\n", 0, "crashed", 0, 0),
        ("it passed 3 gates: 4\n", 0, "crashed", 0, 0),
    ],
)
def test_the_numbers_that_a_program_without_a_framework_prints_are_read(
    log: str, exit_code: int, type_: str, passed: int, failed: int
) -> None:
    result = reports.judge(None, exit_code=exit_code, kind="test", tool="make", log=log)
    assert (result.type, result.counts.passed, result.counts.failed) == (type_, passed, failed)


def test_uvu_counts_its_tests_and_names_those_that_fail() -> None:
    text = (
        'a.js\n✘ •   (1 / 2)\n\n   FAIL  "adds"\n    Expected values to be strictly equal:  (is)\n\n'
        "    at Object.handler (/x/test/a.js:3:27)\n\n\n  Total:     2\n  Passed:    1\n  Skipped:   1\n  Duration:  2ms\n"
    )
    result = reports.judge(None, exit_code=1, kind="test", tool="npm", log=text)
    assert (result.type, result.counts.passed, result.counts.failed) == ("test_failure", 1, 1)
    assert dict(result.tests) == {'"adds"': "failed"}


def test_assertions_of_tape_are_named_by_the_test_above_them() -> None:
    text = "TAP version 13\n# parses\nok 1 is equal\n# prints\nnot ok 2 is equal\n\n1..2\n# tests 2\n# pass  1\n# fail  1\n"
    assert dict(read(text, "tape").tests) == {"parses > is equal": "passed", "prints > is equal": "failed"}
    assert dict(read(text).tests) == {"is equal": "failed"}


def test_an_example_of_a_rust_source_keeps_its_name_when_its_line_moves() -> None:
    text = (
        "   Doc-tests m\n\nrunning 3 tests\ntest src/lib.rs - kebab (line {}) ... ok\n"
        "test src/lib.rs - snake (line 40) - compile ... ok\ntest src/lib.rs - title (line 50) - should panic ... ok\n\n"
        "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured\n"
    )
    names = set(read(text.format(3), "cargo-test").tests)
    assert names == set(read(text.format(7), "cargo-test").tests)
    assert {name.partition(" - ")[2] for name in names} == {"kebab", "snake", "title"}


def test_a_test_that_fails_in_one_of_several_reports_has_failed() -> None:
    report = '<testsuite><testcase classname="a" name="b">{}</testcase></testsuite>'
    failed, passed = (reports.read(report.format(inside).encode()) for inside in ("<failure/>", ""))
    assert failed is not None
    assert passed is not None
    for readings in ((failed, passed), (passed, failed)):
        joined = report_builder.joined(readings)
        assert list(joined.tests.values()) == ["failed"]
        assert joined.counts == Counts(passed=1, failed=1)


def test_a_test_check_that_shows_no_tests_says_how_its_exit_code_can_count() -> None:
    silent = reports.judge(None, exit_code=0, kind="test", tool="make", log="./t\n")
    assert silent.type == "crashed"
    assert 'kind = "custom"' in silent.suggestion
    assert "read the log" in reports.judge(None, exit_code=2, kind="test", tool="make", log="./t\n").suggestion
