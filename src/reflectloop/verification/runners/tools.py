"""Table of the known tools: the kind of check, and the arguments that request a report. Data, no code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from reflectloop.verification.result import Kind

# Location of the report: a file or folder the engine names, a file the tool names next to it, files the tool
# writes into the project, or standard output.
Place = Literal["file", "folder", "beside", "own", "output"]


class RunnerTool(NamedTuple):
    """One tool: its kind of check, and how to get a report from it."""

    kind: Kind
    format: str | None = None  # None: plain text on its output
    place: Place = "output"
    # "{report}" is the requested path, "{kept}" a folder next to it for the tool, "{beside}" the parent of both.
    arguments: tuple[str, ...] = ()
    own: str = ""  # name or pattern of a report that the tool names
    env: Mapping[str, str] = {}
    stand_in: str = ""  # file next to this one that runs the tool's module and writes a report
    leading: bool = False  # its options must precede its positional arguments
    valued: frozenset[str] = frozenset()  # options whose value is the next argument


_CI = {"CI": "true"}  # only for tools that would otherwise watch files: the code under test can see it
_CARGO = {"CARGO_TERM_COLOR": "never"}
_OFFLINE_DOTNET = {"DOTNET_CLI_TELEMETRY_OPTOUT": "1", "DOTNET_NOLOGO": "1"}


def _option_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


TOOLS: dict[str, RunnerTool] = {
    "pytest": RunnerTool(
        "test",
        "junit",
        "file",
        (
            "--junitxml={report}",
            "-o",
            "junit_family=xunit1",  # the only family that contains the file name
            "-o",
            "junit_logging=no",
            "-o",
            "cache_dir={kept}",  # not `-p no:cacheprovider`: `--ff` in addopts and plugins that use the cache need it
            "--maxfail=0",  # every test gets an outcome, even if the project stops early
            "--color=no",
        ),
        valued=_option_set("-k -m -c -p -o -n -W -r --rootdir --confcutdir --ignore --deselect --cov --maxfail --tb"),
    ),
    "unittest": RunnerTool(
        "test",
        "junit",
        "file",
        ("-v",),
        stand_in="unittest_report.py",
        valued=_option_set("-s -t -p -k --start-directory --pattern"),
    ),
    "django": RunnerTool(
        "test", arguments=("--verbosity=2", "--noinput"), valued=_option_set("-v -k -p -t --settings --tag")
    ),
    "tox": RunnerTool("test", valued=_option_set("-e -c")),
    "nox": RunnerTool("test", valued=_option_set("-s -f")),
    "ruff": RunnerTool("lint", "ruff-json", "file", ("--output-format=json", "--output-file={report}", "--no-cache")),
    "flake8": RunnerTool("lint", arguments=("--format=default",)),
    "mypy": RunnerTool(
        "type",
        arguments=(
            "--show-column-numbers",
            "--show-error-codes",
            "--no-pretty",
            "--hide-error-context",
            "--no-color-output",
            "--cache-dir={kept}",
        ),
    ),
    "pyright": RunnerTool("type", "pyright-json", arguments=("--outputjson",)),
    "setuptools": RunnerTool("build"),
    "npm": RunnerTool("custom", env=_CI),
    "jest": RunnerTool(
        "test",
        "jest-json",
        "file",
        ("--json", "--outputFile={report}", "--testLocationInResults", "--bail=0", "--ci"),
        valued=_option_set("-t -c --config --selectProjects"),
    ),
    "vitest": RunnerTool(
        "test",
        "vitest-json",
        "file",
        ("--reporter=default", "--reporter=json", "--outputFile.json={report}", "--bail=0"),
        env=_CI,
        valued=_option_set("-t -c --config --project --dir"),
    ),
    "mocha": RunnerTool(
        "test",
        "mocha-json",
        "file",
        ("--reporter=json", "--reporter-option=output={report}", "--no-bail"),
        valued=_option_set("-r --require -g --grep -f -t --timeout --config --ui --import"),
    ),
    "node-test": RunnerTool(
        "test",
        "junit",
        "file",
        (
            "--test-reporter=spec",
            "--test-reporter-destination=stdout",
            "--test-reporter=junit",
            "--test-reporter-destination={report}",
        ),
        leading=True,
        valued=_option_set("-r --require --import --loader --experimental-loader"),
    ),
    "bun-test": RunnerTool("test", "junit", "file", ("--reporter=junit", "--reporter-outfile={report}")),
    "ava": RunnerTool("test", "tap", arguments=("--tap",)),
    "tap": RunnerTool("test", "tap", arguments=("--reporter=tap",)),
    "tape": RunnerTool("test", "tap"),
    "eslint": RunnerTool("lint", "eslint-json", "file", ("--format=json", "--output-file={report}")),
    "tsc": RunnerTool("type", arguments=("--pretty", "false")),
    "go-build": RunnerTool("build"),
    "go-vet": RunnerTool("lint"),
    "go-test": RunnerTool(
        "test", "go-json", arguments=("-json",), leading=True, valued=_option_set("-run -tags -timeout")
    ),
    "cargo-build": RunnerTool("build", "cargo-json", arguments=("--message-format=json",), env=_CARGO, leading=True),
    "cargo-test": RunnerTool("test", arguments=("--no-fail-fast",), env=_CARGO, leading=True),
    "nextest": RunnerTool("test", arguments=("--no-fail-fast",), env=_CARGO, leading=True),
    "clippy": RunnerTool("lint", "cargo-json", arguments=("--message-format=json",), env=_CARGO, leading=True),
    "maven": RunnerTool(
        "test",
        "junit",
        "own",
        ("--batch-mode", "--no-transfer-progress", "--fail-at-end"),
        "**/target/surefire-reports/TEST-*.xml",
    ),
    "gradle": RunnerTool("test", "junit", "own", ("--no-daemon", "--continue"), "**/build/test-results/*/TEST-*.xml"),
    "cmake": RunnerTool("build"),
    "ctest": RunnerTool(
        "test", "junit", "file", ("--output-junit", "{report}", "--output-on-failure", "--no-tests=error")
    ),
    "autotools": RunnerTool("build"),
    "make": RunnerTool("test"),
    "dotnet-build": RunnerTool("build", arguments=("--nologo",), env=_OFFLINE_DOTNET),
    "dotnet-test": RunnerTool(
        "test", "trx", "folder", ("--logger", "trx", "--results-directory", "{report}"), env=_OFFLINE_DOTNET
    ),
    "rspec": RunnerTool(
        "test", "rspec-json", "file", ("--format", "progress", "--format", "json", "--out", "{report}")
    ),
    "rake": RunnerTool("test"),
    "rubocop": RunnerTool("lint", "rubocop-json", "file", ("--format", "json", "--out", "{report}")),
    "phpunit": RunnerTool("test", "junit", "file", ("--log-junit", "{report}")),
    "bats": RunnerTool(
        "test", "junit", "beside", ("--report-formatter", "junit", "--output", "{beside}"), "report.xml"
    ),
}
