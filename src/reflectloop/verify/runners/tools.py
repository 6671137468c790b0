"""Table of the known tools: the kind of check, and the arguments that request a report. Data, no code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from reflectloop.verify.result import Kind

# Location of the report: a file or folder the engine names, a file the tool names next to it, files the tool
# writes into the project, or standard output.
Place = Literal["file", "folder", "beside", "own", "output"]


class Tool(NamedTuple):
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


TOOLS: dict[str, Tool] = {
    "pytest": Tool(
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
    "unittest": Tool(
        "test",
        "junit",
        "file",
        ("-v",),
        stand_in="unittest_report.py",
        valued=_option_set("-s -t -p -k --start-directory --pattern"),
    ),
    "django": Tool(
        "test", arguments=("--verbosity=2", "--noinput"), valued=_option_set("-v -k -p -t --settings --tag")
    ),
    "tox": Tool("test", valued=_option_set("-e -c")),
    "nox": Tool("test", valued=_option_set("-s -f")),
    "ruff": Tool("lint", "ruff-json", "file", ("--output-format=json", "--output-file={report}", "--no-cache")),
    "flake8": Tool("lint", arguments=("--format=default",)),
    "mypy": Tool(
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
    "pyright": Tool("type", "pyright-json", arguments=("--outputjson",)),
    "setuptools": Tool("build"),
    "npm": Tool("custom", env=_CI),
    "jest": Tool(
        "test",
        "jest-json",
        "file",
        ("--json", "--outputFile={report}", "--testLocationInResults", "--bail=0", "--ci"),
        valued=_option_set("-t -c --config --selectProjects"),
    ),
    "vitest": Tool(
        "test",
        "vitest-json",
        "file",
        ("--reporter=default", "--reporter=json", "--outputFile.json={report}", "--bail=0"),
        env=_CI,
        valued=_option_set("-t -c --config --project --dir"),
    ),
    "mocha": Tool(
        "test",
        "mocha-json",
        "file",
        ("--reporter=json", "--reporter-option=output={report}", "--no-bail"),
        valued=_option_set("-r --require -g --grep -f -t --timeout --config --ui --import"),
    ),
    "node-test": Tool(
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
    "bun-test": Tool("test", "junit", "file", ("--reporter=junit", "--reporter-outfile={report}")),
    "ava": Tool("test", "tap", arguments=("--tap",)),
    "tap": Tool("test", "tap", arguments=("--reporter=tap",)),
    "tape": Tool("test", "tap"),
    "eslint": Tool("lint", "eslint-json", "file", ("--format=json", "--output-file={report}")),
    "tsc": Tool("type", arguments=("--pretty", "false")),
    "go-build": Tool("build"),
    "go-vet": Tool("lint"),
    "go-test": Tool("test", "go-json", arguments=("-json",), leading=True, valued=_option_set("-run -tags -timeout")),
    "cargo-build": Tool("build", "cargo-json", arguments=("--message-format=json",), env=_CARGO, leading=True),
    "cargo-test": Tool("test", arguments=("--no-fail-fast",), env=_CARGO, leading=True),
    "nextest": Tool("test", arguments=("--no-fail-fast",), env=_CARGO, leading=True),
    "clippy": Tool("lint", "cargo-json", arguments=("--message-format=json",), env=_CARGO, leading=True),
    "maven": Tool(
        "test",
        "junit",
        "own",
        ("--batch-mode", "--no-transfer-progress", "--fail-at-end"),
        "**/target/surefire-reports/TEST-*.xml",
    ),
    "gradle": Tool("test", "junit", "own", ("--no-daemon", "--continue"), "**/build/test-results/*/TEST-*.xml"),
    "cmake": Tool("build"),
    "ctest": Tool("test", "junit", "file", ("--output-junit", "{report}", "--output-on-failure", "--no-tests=error")),
    "autotools": Tool("build"),
    "make": Tool("test"),
    "dotnet-build": Tool("build", arguments=("--nologo",), env=_OFFLINE_DOTNET),
    "dotnet-test": Tool(
        "test", "trx", "folder", ("--logger", "trx", "--results-directory", "{report}"), env=_OFFLINE_DOTNET
    ),
    "rspec": Tool("test", "rspec-json", "file", ("--format", "progress", "--format", "json", "--out", "{report}")),
    "rake": Tool("test"),
    "rubocop": Tool("lint", "rubocop-json", "file", ("--format", "json", "--out", "{report}")),
    "phpunit": Tool("test", "junit", "file", ("--log-junit", "{report}")),
    "bats": Tool("test", "junit", "beside", ("--report-formatter", "junit", "--output", "{beside}"), "report.xml"),
}
