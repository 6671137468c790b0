"""Runners: which tool a command runs, how it is asked for a report, and how it runs only some tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from reflectloop.verification import reports, tools
from reflectloop.verification.result import DetectedCheck, ReportReading
from reflectloop.verification.tools import PreparedCommand

REPORT = Path("/tmp/report")
BIN = Path(sys.executable).parent


def check(tool: str, *command: str) -> DetectedCheck:
    return DetectedCheck(tool, tools.by_name()[tool].kind, tool, command)


def prepare(tool: str, *command: str, only: tuple[str, ...] = ()) -> PreparedCommand:
    return tools.prepare(check(tool, *command), report=REPORT, only=only)


def run(prepared: PreparedCommand, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **prepared.env}
    env.pop("NODE_TEST_CONTEXT", None)
    return subprocess.run(prepared.argv, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300)


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(missing), reason=f"not on this machine: {', '.join(missing)}")


def test_a_tool_is_recognised_behind_what_leads_to_it() -> None:
    for command, tool in (
        (("pytest", "-q", "tests/x.py"), "pytest"),
        (("/a/.venv/bin/python3.12", "-X", "dev", "-m", "pytest"), "pytest"),
        (("uv", "run", "--with", "ruff", "--", "pytest"), "pytest"),
        (("python", "-m", "coverage", "run", "-m", "unittest"), "unittest"),
        ("A=b timeout 60 poetry run mypy src", "mypy"),
        ("npx --no-install jest", "jest"),
        (("sh", "-c", "cargo +stable test --all"), "cargo-test"),
        (("node", "--import", "tsx", "--test"), "node-test"),
        (("./gradlew", "test"), "gradle"),
        (("bundle", "exec", "rspec"), "rspec"),
        (("python", "manage.py", "test"), "django"),
    ):
        assert tools.recognise(command) == tool, command


def test_a_command_that_only_mentions_a_tool_is_not_it() -> None:
    for command in (
        "echo pytest",
        "pytest; true",
        "pytest | tee log",
        ("uv", "run", "--with", "pytest", "a.py"),
        "ruff format",
        "",
    ):
        assert tools.recognise(command) is None, command


def test_a_script_is_recognised_through_package_json() -> None:
    scripts = {"test": "cross-env CI=1 jest --ci", "unit": "vitest run", "all": "jest && mocha"}
    assert tools.recognise("npm test", scripts) == "jest"
    assert tools.recognise(("npm", "t"), scripts) == "jest"
    assert tools.recognise(("pnpm", "unit"), scripts) == "vitest"
    assert tools.recognise(("yarn", "run", "all"), scripts) == "npm"
    assert tools.recognise("npm install", scripts) is None


def test_a_command_of_an_unknown_kind_is_left_as_it_is() -> None:
    own = DetectedCheck("own", "custom", "custom", ("./check.sh",))
    assert tools.prepare(own, report=REPORT) == PreparedCommand(("./check.sh",))


def test_the_value_of_an_option_of_mocha_is_no_file_of_tests_if_tests_are_chosen() -> None:
    command = ("mocha", "--reporter", "spec", "-R", "dot", "test.js")
    prepared = prepare("mocha", *command, only=("test.js::adds",))
    assert prepared.argv[:5] == command[:5]
    assert f"--reporter={REPORT.parent}/report.cjs" in prepared.argv


def test_scripts_are_handed_arguments_as_their_package_manager_wants_it() -> None:
    assert prepare("jest", "npm", "test").argv[:4] == ("npm", "test", "--", "--json")
    assert prepare("jest", "pnpm", "run", "test").argv[:4] == ("pnpm", "run", "test", "--json")
    assert prepare("npm", "npm", "test").argv == ("npm", "test")


def test_options_stand_where_their_tool_reads_them() -> None:
    assert prepare("go-test", "go", "test", "./...").argv == ("go", "test", "-json", "./...")
    cargo = prepare("cargo-test", "cargo", "test", "--", "--nocapture")
    assert cargo.argv == ("cargo", "test", "--no-fail-fast", "--", "--nocapture")
    assert prepare("maven", "./mvnw", "test").report == Path("**/target/surefire-reports/TEST-*.xml")


def test_what_was_asked_for_takes_the_place_of_what_the_command_names() -> None:
    narrowed = prepare("pytest", "pytest", "-q", "-k", "slow", "tests", only=("tests/a.py::test_b",))
    assert narrowed.restricted
    assert narrowed.argv[:4] == ("pytest", "-q", "-k", "slow")
    assert "tests" not in narrowed.argv
    assert narrowed.argv[-1] == "tests/a.py::test_b"


def test_a_tool_that_cannot_be_told_is_run_whole() -> None:
    whole = prepare("mypy", "mypy", "src", only=("src/a.py",))
    assert not whole.restricted
    assert whole.argv[:2] == ("mypy", "src")
    assert not prepare("node-test", "npm", "test", only=("a",)).restricted


def test_ids_become_the_arguments_of_each_tool() -> None:
    for tool, tests, words in (
        ("pytest", ("a.py::T::b[1]",), ("a.py::T::b[1]",)),
        ("unittest", ("tests.test_a.T.test_b",), ("-k", "tests.test_a.T.test_b")),
        ("django", ("app/tests.py::T::test_b",), ("app.tests.T.test_b",)),
        ("go-test", ("m/a::TestX/sub", "m/b.TestY"), ("-run", "^(TestX|TestY)$", "m/a", "m/b")),
        ("go-test", ("pkg/a_test.go",), ("./pkg",)),
        ("jest", ("a.js::d > is 1+1",), (r"--testNamePattern=^(d is 1\+1)$", "--runTestsByPath", "a.js")),
        ("vitest", ("a.ts",), ("a.ts",)),
        ("cargo-test", ("m::a",), ("--", "--exact", "m::a")),
        ("nextest", ("m::a", "b"), ("-E", "test(=m::a) | test(=b)")),
        ("ctest", ("a.b", "c"), ("-R", r"^(a\.b|c)$")),
        ("ctest", ("suite::adds",), ("-R", "^(suite|suite::adds)$")),
        ("ctest", ("suite", "tests/sum_tests.c"), None),  # only the build knows which tests a source is part of
        (
            "maven",
            ("com.x.ATest::b",),
            ("-Dtest=com.x.ATest#b", "-Dsurefire.failIfNoSpecifiedTests=false", "-DfailIfNoTests=false"),
        ),
        ("gradle", ("com.x.ATest::b",), ("--tests", "com.x.ATest.b")),
        ("dotnet-test", ("N.A.b",), ("--filter", "FullyQualifiedName=N.A.b")),
        ("dotnet-test", ("App.Tests/FooTests.cs",), None),
        ("phpunit", ("ATest::b",), ("--filter", "/^(ATest::b)$/")),
        ("rspec", ("./spec/a_spec.rb[1:1]",), ("./spec/a_spec.rb[1:1]",)),
        ("bats", ("a.bats::does b",), ("--filter", "^(does b)$", "a.bats")),
        ("prove", ("t/a.t::does b", "t/a.t::test 2", "t/b.t"), ("t/a.t", "t/b.t")),
        ("prove", ("does b",), None),
    ):
        assert tools.selection(check(tool, tool), tests) == words, tool
    assert tools.selection(check("tox", "tox"), ("a",)) is None


def test_an_id_that_would_be_read_as_an_option_is_not_handed_on() -> None:
    for forged in ("-pevil", "--co", "@options.txt"):
        prepared = prepare("pytest", "pytest", only=("a.py::test_b", forged))
        assert not prepared.restricted
        assert forged not in prepared.argv


def test_pytest_reports_every_test_though_the_project_stops_early_and_looks_at_its_cache(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -x --ff --strict-config --junitxml=own.xml\n")
    (tmp_path / "test_a.py").write_text("def test_bad(): assert 0\ndef test_good(): pass\n")
    report = tmp_path / "out" / "report.xml"
    prepared = tools.prepare(check("pytest", sys.executable, "-m", "pytest"), report=report)
    assert run(prepared, tmp_path).returncode == 1
    assert prepared.format == "junit"
    cases = ET.parse(report).getroot().iter("testcase")
    assert [(case.get("file"), case.get("name")) for case in cases] == [
        ("test_a.py", "test_bad"),
        ("test_a.py", "test_good"),
    ]
    assert not (tmp_path / ".pytest_cache").exists()
    assert not (tmp_path / "own.xml").exists()
    one = tools.prepare(check("pytest", str(BIN / "pytest")), report=report, only=("test_a.py::test_good",))
    assert run(one, tmp_path).returncode == 0


PARTS = """
import unittest

class T(unittest.TestCase):
    def test_some(self):
        for number in range(3):
            with self.subTest(number=number):
                if number == 1:
                    self.skipTest("not this one")

    def test_none(self):
        self.skipTest("not at all")

def test_fixture(subtests):
    with subtests.test(number=1):
        unittest.TestCase().skipTest("no")
    with subtests.test(number=2):
        assert True
"""


def test_pytest_passes_a_test_of_which_a_part_is_skipped_and_runs_what_it_can_load(tmp_path: Path) -> None:
    (tmp_path / "test_parts.py").write_text(PARTS)
    (tmp_path / "test_broken.py").write_text("import does_not_exist\n")
    report = tmp_path / "report.xml"
    prepared = tools.prepare(check("pytest", sys.executable, "-m", "pytest", "-q", "-c", os.devnull), report=report)
    done = run(prepared, tmp_path)
    reading = reports.read(report.read_bytes(), tool="pytest")
    result = reports.judge(reading, exit_code=done.returncode, kind="test", tool="pytest", log=done.stdout)
    assert result.tests == {
        "test_broken.py": "error",
        "test_parts.py::T::test_some": "passed",
        "test_parts.py::T::test_none": "skipped",
        "test_parts.py::test_fixture": "passed",
    }
    assert (result.counts.passed, result.counts.skipped, result.type) == (2, 1, "collection_error")


def test_a_page_with_examples_has_the_id_that_pytest_gives_it(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "first-use.rst"
    page.parent.mkdir()
    page.write_text(">>> 1\n1\n")
    (tmp_path / "calc.py").write_text('def one():\n    """\n    >>> one()\n    1\n    """\n    return 1\n')
    command = (sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--doctest-glob=*.rst", "--doctest-modules")
    report = tmp_path / "report.xml"
    run(tools.prepare(check("pytest", *command), report=report), tmp_path)
    reading = reports.read(report.read_bytes(), tool="pytest")
    assert reading is not None
    assert set(reading.tests) == {"docs/first-use.rst::first-use.rst", "calc.py::calc.one"}
    again = tools.prepare(check("pytest", *command), report=report, only=("docs/first-use.rst::first-use.rst",))
    assert run(again, tmp_path).returncode == 0


@pytest.mark.parametrize("words", [("-p", "no:cacheprovider"), ("-pno:cacheprovider",)])
def test_pytest_with_strict_configuration_and_without_a_cache_is_judged(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    command = (sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--strict-config", *words)
    done = run(tools.prepare(check("pytest", *command), report=tmp_path / "report.xml"), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [name for name in os.listdir(tmp_path) if "cache" in name.replace("__pycache__", "")]


UNITTEST = """
import unittest


class T(unittest.TestCase):
    def test_a(self):
        '''A line about it.'''

    def test_b(self):
        self.fail("no <&> \\x00")

    def test_parts(self):
        for part in "abc":
            with self.subTest(part=part):
                if part == "a":
                    self.skipTest("not here")

    def test_part_fails(self):
        for part in "abc":
            with self.subTest(part=part):
                self.assertNotEqual(part, "b")

    def test_skipped(self):
        self.skipTest("not now")

    @unittest.expectedFailure
    def test_known(self):
        self.fail()

    @unittest.expectedFailure
    def test_unexpected(self):
        pass
"""


def unittests(tmp_path: Path, text: str = UNITTEST) -> DetectedCheck:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(text)
    return check("unittest", sys.executable, "-m", "unittest", "discover", "-s", "tests")


def stood_in(suite: DetectedCheck, tmp_path: Path, *only: str) -> ReportReading:
    """As a sealed run does it: what stands in for the tool lies beside the report."""
    beside = tmp_path / "beside"
    beside.mkdir(exist_ok=True)
    prepared = tools.prepare(suite, report=beside / "report", only=only)
    assert prepared.stand_in
    shutil.copy(prepared.stand_in, beside)
    run(prepared, tmp_path)
    found = reports.read((beside / "report").read_bytes(), tool="unittest")
    assert found
    return found


def test_unittest_reports_every_test_by_its_id_and_of_its_parts_the_worst(tmp_path: Path) -> None:
    found = stood_in(unittests(tmp_path), tmp_path)
    assert found.tests == {
        "test_a.T.test_a": "passed",
        "test_a.T.test_b": "failed",
        "test_a.T.test_parts": "passed",
        "test_a.T.test_part_fails": "failed",
        "test_a.T.test_skipped": "skipped",
        "test_a.T.test_known": "xfailed",
        "test_a.T.test_unexpected": "failed",
    }
    failed = next(one for one in found.details if one.test == "test_a.T.test_b")
    assert failed.error.startswith("AssertionError: no <&>")
    assert (failed.file or "").endswith("tests/test_a.py")


@pytest.mark.parametrize("only", ["test_a.T.test_a", "tests/test_a.py::T::test_a"])
def test_unittest_runs_one_test_by_its_id(tmp_path: Path, only: str) -> None:
    assert stood_in(unittests(tmp_path), tmp_path, only).tests == {"test_a.T.test_a": "passed"}


def test_a_module_that_unittest_cannot_load_is_not_collected(tmp_path: Path) -> None:
    found = stood_in(unittests(tmp_path, "import no_such_module\n"), tmp_path)
    assert not found.collected


def test_where_something_else_runs_unittest_its_words_are_read() -> None:
    suite = check("unittest", "python", "-m", "coverage", "run", "-m", "unittest", "discover")
    prepared = tools.prepare(suite, report=REPORT)
    assert prepared.argv == (*suite.command, "-v")
    assert prepared.report is None


def test_ruff_and_mypy_answer_without_leaving_a_cache(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text('import os\nx: int = "s"\n')
    lint = tools.prepare(check("ruff", str(BIN / "ruff"), "check"), report=tmp_path / "ruff.json")
    assert run(lint, project).returncode == 1
    assert json.loads((tmp_path / "ruff.json").read_text())[0]["filename"].endswith("a.py")
    types = tools.prepare(check("mypy", str(BIN / "mypy"), "a.py"), report=tmp_path / "mypy")
    assert "a.py:2:10: error: " in run(types, project).stdout
    assert [path.name for path in project.iterdir()] == ["a.py"]


@needs("cmake", "ctest", "cc")
def test_ctest_reports_junit_after_the_build_that_was_detected(tmp_path: Path) -> None:
    from reflectloop.verification import detect

    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nenable_testing()\nadd_executable(t t.c)\n"
        "add_test(NAME good COMMAND t)\nadd_test(NAME bad COMMAND t x)\n"
    )
    lines = "t.c:3:adds:PASS\\nt.c:4:subtracts:%s\\n2 Tests %d Failures 0 Ignored\\n"
    (tmp_path / "t.c").write_text(
        f'#include <stdio.h>\nint main(int c, char **v) {{ printf("{lines}", c > 1 ? "FAIL: Expected 1 Was 2" : "PASS", '
        "c - 1); return c - 1; }\n"
    )
    report = tmp_path / "junit.xml"
    build, tests = detect.checks(detect.ProjectFiles.of_folder(tmp_path))
    assert run(tools.prepare(build, report=report), tmp_path).returncode == 0
    assert run(tools.prepare(tests, report=report), tmp_path).returncode != 0
    reading = reports.read(report.read_bytes(), tool="ctest")
    assert reading is not None
    assert dict(reading.tests) == {
        "good": "passed",
        "good::adds": "passed",
        "good::subtracts": "passed",
        "bad": "failed",
        "bad::adds": "passed",
        "bad::subtracts": "failed",
    }
    assert (reading.details[0].test, reading.details[0].line) == ("bad::subtracts", 4)
    assert run(tools.prepare(tests, report=report, only=("good::adds",)), tmp_path).returncode == 0


@needs("node", "npm")
def test_tests_of_node_report_behind_npm_too(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "test").mkdir(parents=True)
    (project / "package.json").write_text(json.dumps({"scripts": {"test": "node --test test/"}}))
    text = 'const test = require("node:test");\ntest("good", () => {});\ntest("bad", () => { throw 1; });\n'
    (project / "test" / "a.test.js").write_text(text)
    for command in (("npm", "test"), ("node", "--test", "test/a.test.js")):
        report = tmp_path / f"{command[0]}.xml"
        assert run(tools.prepare(check("node-test", *command), report=report), project).returncode == 1
        assert {case.get("name") for case in ET.parse(report).getroot().iter("testcase")} == {"good", "bad"}
    report = tmp_path / "one.xml"
    one = tools.prepare(check("node-test", "node", "--test"), report=report, only=("test/a.test.js::good",))
    assert run(one, project).returncode == 0


@needs("node", "npm")
def test_the_hooks_of_npm_are_not_run_with_the_tests(tmp_path: Path) -> None:
    scripts = {"pretest": "exit 3", "test": "node --test", "posttest": "exit 4"}
    (tmp_path / "package.json").write_text(json.dumps({"scripts": scripts}))
    (tmp_path / "a.test.js").write_text('require("node:test")("good", () => {});\n')
    report = tmp_path / "report.xml"
    assert (
        run(tools.prepare(check("node-test", "npm", "test", "--ignore-scripts"), report=report), tmp_path).returncode
        == 0
    )
    assert [case.get("name") for case in ET.parse(report).getroot().iter("testcase")] == ["good"]


PERL_TESTS = {
    "good": "use Test::More tests => 1;\nok(1, 'loads');\n",
    "mixed": (
        "use Test::More;\nis(1 + 1, 2, 'adds');\nis(1, 2, 'differs');\nis(3, 4);\n"
        "subtest 'more' => sub { plan tests => 2; ok(1, 'inner'); ok(0, 'outer'); };\n"
        "SKIP: { skip 'no network', 1; ok(0) }\nTODO: { local $TODO = 'later'; ok(0, 'todo') }\ndone_testing;\n"
    ),
    "unloaded": "use Test::More tests => 2;\nuse No::Such::Module;\nok(1, 'never');\n",
    "short": "use Test::More tests => 3;\nok(1, 'first');\n",
    "died": "use Test::More tests => 1;\nok(1, 'passes');\ndie 'too late';\n",
    "skipped": "use Test::More skip_all => 'not here';\n",
}


@needs("prove")
def test_prove_names_each_test_and_each_file_that_ended_early(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    for name, text in PERL_TESTS.items():
        (tmp_path / "t" / f"{name}.t").write_text(text)
    done = run(tools.prepare(check("prove", "prove", "t"), report=REPORT), tmp_path)
    assert done.returncode == 1
    reading = reports.read(done.stdout + done.stderr, tool="prove")
    assert reading is not None
    assert dict(reading.tests) == {
        "t/died.t::passes": "passed",
        "t/died.t": "error",
        "t/good.t::loads": "passed",
        "t/mixed.t::adds": "passed",
        "t/mixed.t::differs": "failed",
        "t/mixed.t::test 3": "failed",
        "t/mixed.t::more > inner": "passed",
        "t/mixed.t::more > outer": "failed",
        "t/mixed.t::test 5": "skipped",
        "t/mixed.t::todo": "xfailed",
        "t/short.t::first": "passed",
        "t/short.t": "error",
        "t/skipped.t": "skipped",
        "t/unloaded.t": "error",
    }
    assert not reading.collected
    places = {item.test: (item.file, item.line) for item in reading.details}
    assert places["t/mixed.t::differs"] == ("t/mixed.t", 3)
    assert places["t/mixed.t::test 3"] == ("t/mixed.t", 4)
    assert places["t/died.t"] == ("t/died.t", 3)
    assert places["t/unloaded.t"] == ("t/unloaded.t", 2)
    one = run(tools.prepare(check("prove", "prove", "t"), report=REPORT, only=("t/good.t::loads",)), tmp_path)
    assert one.returncode == 0
    assert "mixed" not in one.stdout


@needs("prove")
def test_a_log_of_prove_without_single_tests_names_the_files(tmp_path: Path) -> None:
    for name, text in PERL_TESTS.items():
        (tmp_path / f"{name}.t").write_text(text)
    done = subprocess.run(["prove", "."], cwd=tmp_path, capture_output=True, text=True, check=False)
    reading = reports.read(done.stdout + done.stderr)
    assert reading is not None
    outcomes = {name.removeprefix("./"): outcome for name, outcome in reading.tests.items()}
    assert (reading.tool, outcomes) == (
        "prove",
        {
            "died.t": "error",
            "good.t": "passed",
            "mixed.t": "failed",
            "short.t": "error",
            "skipped.t": "skipped",
            "unloaded.t": "error",
        },
    )


def test_titles_are_joined_as_the_runner_joins_them() -> None:
    check = DetectedCheck("jest", "test", "jest", ("jest",))
    chosen = tools.selection(check, ["a.test.js::outer::inner title"])
    assert chosen is not None
    assert "--testNamePattern=^(outer inner title)$" in chosen
