"""Every record of a tool is complete: its commands are recognised, and a sample of each report is read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reflectloop.verification import detect, reports, tools
from reflectloop.verification.protected import guard
from reflectloop.verification.result import FINDING_KINDS, DetectedCheck
from reflectloop.verification.tools.record import Tool

SOURCE = Path(tools.__file__).parents[1]
REPORT = Path("/tmp/report")
RUN = [tool for tool in tools.tools() if tool.run]
# Text that each runner prints for one test that passed, or where it prints none, for one run.
TEXTS = {
    "bats": " ✓ adds\n\n1 test, 0 failures\n",
    "bun": "bun test v1.1\n(pass) adds [1.00ms]\n\n 1 pass\n 0 fail\n",
    "cargo": "running 1 test\ntest adds ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n",
    "catch2": "=======\nAll tests passed (3 assertions in 1 test case)\n\n",
    "ctest": "1/1 Test #1: adds .......   Passed    0.01 sec\n\n100% tests passed, 0 tests failed out of 1\n",
    "deno": "adds ... ok (2ms)\n\nok | 1 passed | 0 failed (3ms)\n",
    "doctest": "1 passed.\nTest passed.\n",
    "doctest-cpp": "[doctest] test cases: 1 | 1 passed | 0 failed | 0 skipped\n[doctest] Status: SUCCESS!\n",
    "dotnet": "  Passed Adds [1 ms]\n\nPassed!  - Failed:     0, Passed:     1, Skipped:     0, Total:     1\n",
    "exunit": "Finished in 0.02 seconds\n1 test, 0 failures\n",
    "go": "=== RUN   TestAdds\n--- PASS: TestAdds (0.00s)\nPASS\nok  \texample.com/m\t0.01s\n",
    "gradle": "SumTest > adds PASSED\n\n1 test completed, 0 failed\n",
    "gtest": "[==========] Running 1 test\n[       OK ] Sum.Adds (0 ms)\n[==========] 1 test ran.\n[  PASSED  ] 1 test.\n",
    "jasmine": "1 spec, 0 failures\n",
    "jest": "PASS ./sum.test.js\n  ✓ adds (1 ms)\n\nTest Suites: 1 passed, 1 total\nTests:       1 passed, 1 total\n",
    "karma": "Executed 1 of 1 SUCCESS (0.01 secs)\n",
    "meson-test": "1/1 a:adds    OK    0.02s\n\nOk:   1\nFail: 0\n\nFull log written to x/testlog.txt\n",
    "minitest": "1 runs, 1 assertions, 0 failures, 0 errors, 0 skips\n",
    "mocha": "  sum\n    ✔ adds\n\n  1 passing (3ms)\n",
    "nextest": "    Nextest run ID 1\n        PASS [   0.01s] m adds\n     Summary [   0.02s] 1 test run: 1 passed, 0 skipped\n",
    "node": "✔ adds (1ms)\nℹ tests 1\nℹ pass 1\nℹ fail 0\n",
    "phpunit": "PHPUnit 10.0\n\nOK (1 test, 1 assertion)\n",
    "playwright": "Running 1 test using 1 worker\n 3 tests using 1\n  ✓  1 adds (2ms)\n\n  1 passed (1s)\n",
    "prove": "t/sum.t .. \nok 1 - adds\n1..1\nok\nAll tests successful.\nFiles=1, Tests=1,  0 wallclock secs\nResult: PASS\n",
    "pytest": "=== test session starts ===\na.py::test_adds PASSED\n=== 1 passed in 0.01s ===\n",
    "rspec": "Finished in 0.1 seconds\n1 example, 0 failures\n",
    "surefire": "[INFO] Tests run: 1, Failures: 0, Errors: 0, Skipped: 0\n",
    "tasty": "All 1 tests passed (0.00s)\n",
    "unittest": "test_adds (test_sum.T) ... ok\n\nRan 1 test in 0.001s\n\nOK\n",
    "unity": "/p/test_sum.c:7:test_adds:PASS\n\n-----------------------\n1 Tests 0 Failures 0 Ignored \nOK\n",
    "uvu": "index.js\n• • •   (1 / 1)\n\n  Total:     1\n  Passed:    1\n  Skipped:   0\n  Duration:  0.50ms\n",
    "vitest": " ✓ sum.test.ts > adds 1ms\n\n Test Files  1 passed (1)\n      Tests  1 passed (1)\n",
    "xctest": "Test Case 'Sum.adds' passed (0.001 seconds)\n\t Executed 1 test, with 0 failures\n",
}
# One document for each set of keys by which a JSON report is recognised.
_JEST = {"name": "a.test.js", "assertionResults": [{"title": "adds", "ancestorTitles": [], "status": "passed"}]}
JSON = (
    {"testResults": [_JEST], "numTotalTests": 1},
    {"stats": {}, "passes": [{"fullTitle": "adds"}], "failures": []},
    {"stats": {}, "results": [{"tests": [{"fullTitle": "adds", "pass": True}]}]},
    {"examples": [{"full_description": "adds", "status": "passed", "file_path": "a.rb"}], "summary": {}},
    {"tests": [{"nodeid": "a.py::test_adds", "outcome": "passed"}], "exitcode": 0},
    {"suites": [{"title": "s", "specs": [{"title": "adds", "tests": [{"status": "expected"}]}]}], "config": {}},
    {"testsuites": [{"name": "S", "testsuite": [{"name": "adds", "status": "RUN"}]}], "tests": 1},
    [{"name": "f", "elements": [{"name": "adds", "steps": [{"result": {"status": "passed"}}]}]}],
)
# What each linter and type checker writes where it finds nothing, in all its forms; "" where it writes nothing.
_BANDIT = {"errors": [], "generated_at": "2026-01-01T00:00:00Z", "metrics": {"_totals": {"loc": 1}}, "results": []}
_BIOME = {"summary": {"changed": 0, "unchanged": 1, "errors": 0, "warnings": 0}, "diagnostics": [], "command": "lint"}
_CLIPPY = '{"reason":"compiler-artifact","target":{"name":"m"}}\n{"reason":"build-finished","success":true}\n'
_DEPRECATED = {"ruleId": "semi", "replacedBy": [], "info": {"message": "Formatting rules are being moved out."}}
_ESLINT = {"filePath": "/p/a.js", "messages": [], "suppressedMessages": [], "errorCount": 0, "warningCount": 0}
_PYLINT = {"messages": [], "statistics": {"messageTypeCount": {"error": 0}, "modulesLinted": 1, "score": 10.0}}
_RUBOCOP = {"metadata": {"rubocop_version": "1.60"}, "files": [{"path": "a.rb", "offenses": []}]}
_RUBOCOP["summary"] = {"offense_count": 0, "target_file_count": 1, "inspected_file_count": 1}
_STYLELINT = {"source": "/p/a.css", "deprecations": [], "parseErrors": [], "errored": False, "warnings": []}
_SILENT = "clang-tidy dtslint expect-type flake8 go-vet isort other-python-linters standard tsc tsd"
CLEAN: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(_SILENT.split(), ("",)),
    "attw": (" No problems found 🌟\n",),
    "bandit": (_BANDIT,),
    "biome": (_BIOME, "Checked 1 file in 5ms. No fixes applied.\n"),
    "black": ("All done! ✨ 🍰 ✨\n1 file would be left unchanged.\n",),
    "checkstyle": ("Starting audit...\nAudit done.\n", '<checkstyle version="10.0"></checkstyle>'),
    "clippy": (_CLIPPY, "    Finished `dev` profile [unoptimized] target(s) in 0.01s\n"),
    "eslint": ([_ESLINT], [{**_ESLINT, "usedDeprecatedRules": [_DEPRECATED]}], [], ""),
    "golangci-lint": ({"Issues": None, "Report": {"Linters": [{"Name": "govet"}]}}, {"Issues": []}, "0 issues.\n"),
    "import-linter": ("Contracts: 5 kept, 0 broken.\n",),
    "jshint": ("", '<?xml version="1.0"?>\n<checkstyle version="4.3">\n</checkstyle>\n'),
    "knip": ({"files": [], "issues": []}, "✂️  Excellent, Knip found no issues.\n"),
    "mypy": ("Success: no issues found in 1 source file\n",),
    "other-type-checkers": ("0 errors\n",),
    "oxlint": ({"diagnostics": [], "number_of_files": 1, "number_of_rules": 96}, "Found 0 warnings and 0 errors.\n"),
    "phpstan": ({"totals": {"errors": 0, "file_errors": 0}, "files": [], "errors": []}, " [OK] No errors\n"),
    "prettier": ("Checking formatting...\nAll matched files use Prettier code style!\n",),
    "publint": ("All good!\n",),
    "pylint": ([], _PYLINT, "\n------\nYour code has been rated at 10.00/10\n"),
    "pyright": ({"version": "1.1", "generalDiagnostics": [], "summary": {"errorCount": 0}}, "0 errors, 0 warnings\n"),
    "rubocop": (_RUBOCOP, "Inspecting 1 file\n.\n\n1 file inspected, no offenses detected\n"),
    "ruff": ([], "All checks passed!\n"),
    "shellcheck": ([], {"comments": []}, ""),
    "sorbet": ("No errors! Great job.\n",),
    "stylelint": ([_STYLELINT], ""),
    "xo": ([_ESLINT], ""),
}
# One warning of each linter that tells warnings from errors; the tool then exits 0.
WARNED = {
    "biome": {**_BIOME, "diagnostics": [{"severity": "warning", "message": "no", "location": {"path": "a.js", "start": {"line": 1}}}]},
    "clippy": "warning: unused\n --> src/a.rs:3:5\n  |\n3 | x\n",
    "eslint": [{**_ESLINT, "messages": [{"ruleId": "semi", "severity": 1, "message": "no", "line": 3}], "warningCount": 1}],
    "oxlint": {"diagnostics": [{"severity": "warning", "message": "no", "filename": "a.js", "labels": []}], "number_of_files": 1},
    "pyright": {"generalDiagnostics": [{"file": "/p/a.py", "severity": "warning", "message": "no", "range": {"start": {"line": 2}}}]},
    "rubocop": {**_RUBOCOP, "files": [{"path": "a.rb", "offenses": [{"severity": "convention", "message": "no", "location": {"line": 3}}]}]},
    "shellcheck": {"comments": [{"file": "a.sh", "line": 3, "level": "info", "code": 2086, "message": "no"}]},
    "stylelint": [{**_STYLELINT, "warnings": [{"line": 3, "column": 1, "rule": "r", "severity": "warning", "text": "no"}]}],
}  # fmt: skip
EVENTS = (
    [{"Action": "run", "Package": "m", "Test": "TestAdds"}, {"Action": "pass", "Package": "m", "Test": "TestAdds"}],
    [{"type": "test", "event": "ok", "name": "adds"}, {"type": "suite", "event": "ok"}],
    [
        {"type": "testStart", "time": 1, "test": {"id": 1, "name": "adds"}},
        {"type": "testDone", "time": 2, "testID": 1, "result": "success"},
        {"type": "done", "time": 3},
    ],
    [
        {"$report_type": "SessionStart"},
        {"$report_type": "TestReport", "nodeid": "a.py::test_adds", "when": "call", "outcome": "passed"},
    ],
)


def test_names_of_tools_are_unique() -> None:
    names = [tool.name for tool in tools.tools()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("tool", tools.tools(), ids=lambda tool: tool.name)
def test_a_record_says_something_that_is_used(tool: Tool) -> None:
    assert tool != Tool(name=tool.name, kind=tool.kind, precedence=tool.precedence)


@pytest.mark.parametrize("tool", RUN, ids=lambda tool: tool.name)
def test_a_tool_that_is_run_is_recognised_by_its_commands_and_keeps_them(tool: Tool) -> None:
    commands = [
        *tool.call.programs,
        *(f"python -m {module}" for module in tool.call.modules),
        *(f"python {script}" for script in tool.call.python_scripts),
        *(f"node {option}" for option in tool.call.node_options),
    ]
    for command in commands:
        assert tools.recognise(f"env A=b {command} extra") == tool.name, command
        prepared = tools.prepare(DetectedCheck(tool.name, tool.kind, tool.name, tuple(command.split())), report=REPORT)
        assert prepared.argv[0] == command.split()[0]
        if tool.run and tool.run.place in {"file", "folder"}:
            assert any(str(REPORT) in argument for argument in prepared.argv), command
    # Tools without a command are detected by their files, and run by a script of ours.
    assert commands or tool.name in {"npm", "autotools", "meson", "setuptools"}


@pytest.mark.parametrize(
    "tool", [tool for tool in tools.tools() if tool.output.text or tool.output.read_text], ids=lambda tool: tool.name
)
def test_a_sample_of_the_text_of_each_runner_is_read(tool: Tool) -> None:
    name = tool.output.text.name if tool.output.text else tool.name.removesuffix("-test")
    reading = reports.read(TEXTS[name])
    assert reading is not None
    assert (reading.tool, reading.collected) == (name, True)
    assert reading.counts is not None
    assert (reading.counts.passed, reading.counts.failed, reading.counts.errors) == (1, 0, 0)


FINDING = [tool for tool in tools.tools() if tool.kind in FINDING_KINDS]


def as_text(document: object) -> str:
    return document if isinstance(document, str) else json.dumps(document)


@pytest.mark.parametrize("tool", FINDING, ids=lambda tool: tool.name)
def test_a_report_without_findings_is_a_clean_one(tool: Tool) -> None:
    for document in CLEAN[tool.name]:
        text = as_text(document)
        reading = reports.read(text, tool=tool.name)
        if not isinstance(document, str) or text.startswith("<"):
            assert reading is not None, text
            assert reports.read(text) is not None, text
            assert reading.details == ()
        result = reports.judge(reading, exit_code=0, kind=tool.kind, tool=tool.name, log=text)
        assert (result.ok, result.type, reports.failing_issues(result)) == (True, "passed", []), text


@pytest.mark.parametrize("name", WARNED)
def test_a_warning_of_a_linter_that_exits_0_fails_nothing(name: str) -> None:
    text = as_text(WARNED[name])
    reading = reports.read(text, tool=name)
    assert reading is not None
    result = reports.judge(reading, exit_code=0, kind="lint", tool=name, log=text)
    assert (result.ok, len(result.details), reports.failing_issues(result)) == (True, 1, [])
    failed = reports.judge(reading, exit_code=1, kind="lint", tool=name, log=text)
    assert (failed.ok, len(reports.failing_issues(failed))) == (False, 1)


def test_a_sample_of_every_json_report_is_read() -> None:
    known = {form.keys for tool in tools.tools() for form in tool.output.json}
    sampled = {
        keys
        for keys in known
        for document in JSON
        if keys <= set(document if isinstance(document, dict) else document[0])
    }
    assert sampled == known
    for document in JSON:
        reading = reports.read(json.dumps(document))
        assert reading is not None
        assert list(reading.tests.values()) == ["passed"], document


def test_a_sample_of_every_stream_of_events_is_read() -> None:
    fits = [form.fits for tool in tools.tools() for form in tool.output.events if tool.kind == "test"]
    assert all(any(fit(event) for events in EVENTS for event in events) for fit in fits)
    for events in EVENTS:
        reading = reports.read("\n".join(json.dumps(event) for event in events) + "\n")
        assert reading is not None
        assert list(reading.tests.values()) == ["passed"], events


@pytest.mark.parametrize("tool", tools.tools(), ids=lambda tool: tool.name)
def test_the_files_that_steer_a_tool_are_protected(tool: Tool) -> None:
    files = tool.files
    for pattern in f"{files.runner} {files.lint} {files.mixed_runner} {files.mixed_lint}".split():
        assert guard(pattern.replace("*", "")) is not None, pattern


def test_every_pattern_of_a_record_compiles() -> None:
    def patterns(value: object) -> list[str]:
        fields = getattr(value, "__dataclass_fields__", None) or getattr(value, "_fields", None)
        if fields:
            return [text for name in fields for text in patterns(getattr(value, name))]
        if isinstance(value, tuple):
            return [text for item in value for text in patterns(item)]
        return [value] if isinstance(value, str) and "(?" in value else []

    found = [text for tool in tools.tools() for text in patterns(tool)]
    assert len(found) > 100
    for text in found:
        re.compile(text)


def test_engines_name_no_runner() -> None:
    """Adding a runner touches one file, because the engines ask the registry.

    Only programs that run inside of a runner are written for it: those that observe it, and those that repeat its calls.
    """
    apart = {"records", "observe", "probing"}
    engines = [path for path in SOURCE.rglob("*.py") if not apart.intersection(path.parts)]
    assert len(engines) > 50
    for name in ("vitest", "jest.config", "mocharc", "phpunit", "nextest", "surefire"):
        assert [path.name for path in engines if name in path.read_text().lower()] == [], name


def test_a_record_is_found_without_being_listed(tmp_path: Path) -> None:
    """The registry takes every module of its folder, so a project's runner is detected once its record is there."""
    modules = {path.stem for path in (SOURCE / "tools" / "records").iterdir()} - {"__init__", "__pycache__"}
    origins = {tool.name for tool in tools.tools()}
    assert {"jest", "vitest", "mocha"} <= modules & origins
    (tmp_path / "a.bats").write_text("@test 'adds' {\n  [ 1 = 1 ]\n}\n")
    (check,) = detect.checks(detect.ProjectFiles.of_folder(tmp_path))
    assert check.tool == "bats"
