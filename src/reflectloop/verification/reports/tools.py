"""Recognise tools by name or by their output."""

from __future__ import annotations

import re

from reflectloop.verification.result import Kind

_SAMPLE, _WIDTH = 1000, 400  # lines from each end, and characters of each

_KINDS: dict[Kind, str] = {
    "test": "pytest unittest doctest tox nox jest vitest mocha node ava tap rspec minitest phpunit ctest gtest bats "
    "surefire nextest go-test junit nunit xunit trx testng karma jasmine playwright cucumber exunit dart deno bun",
    "type": "mypy pyright basedpyright pyre pytype tsc vue-tsc flow sorbet ty pyrefly",
    "build": "gcc g++ clang cc make cmake ninja cargo rustc javac kotlinc scalac sbt maven mvn gradle msbuild go "
    "swiftc ghc gfortran webpack vite rollup esbuild bazel ant xcodebuild",
}
_KIND = {name: kind for kind, names in _KINDS.items() for name in names.split()}

# Output patterns that identify a tool when its name is unknown.
_SIGNS: tuple[tuple[str, str], ...] = (
    (
        r"^Found \d+ errors? in \d+ files? \(checked |^Success: no issues found in |: error: .*  \[[a-z-]+\]$",
        "mypy",
    ),
    (
        r"^\d+ errors?, \d+ warnings?, \d+ informations?|\(report[A-Z]\w+\)$|^ +\S+:\d+:\d+ - \w+: .*\(report",
        "pyright",
    ),
    (r"\berror TS\d{3,5}: ", "tsc"),
    (r"^error(?:\[E\d{4}\])?: .*\n *--> ", "rustc"),
    (r"^All checks passed!$|^Found \d+ errors?\.(?:\n|$)|^ *--> .*\n(?:.*\n){1,12}help: ", "ruff"),
    (r"^Your code has been rated at |^\*{5,} Module ", "pylint"),
    (r"^✖ \d+ problems? \(\d+ errors?, \d+ warnings?\)", "eslint"),
    (r"^\d+ files? inspected, \d+ offenses?|^\d+ files? inspected, no offenses", "rubocop"),
    (r"^(?:All done!|Oh no!) .*|^would reformat ", "black"),
    (r"^\[(?:ERROR|INFO)\] (?:BUILD FAILURE|COMPILATION ERROR|BUILD SUCCESS)", "maven"),
    (r"^BUILD (?:FAILED|SUCCESSFUL) in |^FAILURE: Build failed with an exception", "gradle"),
    (r"^CMake (?:Error|Warning)", "cmake"),
    (r"^make(?:\[\d+\])?: \*\*\* ", "make"),
    (r"\.java:\d+: (?:error|warning): ", "javac"),
    (r": (?:error|warning) (?:CS|MSB|LNK|C|BC|FS|NETSDK|NU)\d{3,5}\s?: ", "msbuild"),
    (
        r"\.(?:c|h|cc|cpp|cxx|hpp|m|mm)(?::\d+){1,2}: (?:fatal error|error|warning|note): |: undefined reference to ",
        "gcc",
    ),
    (r"^# \S+\n(?:\./|\S+/)?\S+\.go:\d+:\d+: |^\S+\.go:\d+:\d+: (?:undefined|cannot use|syntax error)", "go"),
    (r"\.swift:\d+:\d+: (?:error|warning): ", "swiftc"),
    (r"\.hs:\d+:\d+: (?:error|warning):", "ghc"),
    (r"^e: (?:file://)?\S+\.kts?:", "kotlinc"),
)
_CLEAN = re.compile(
    r"^(?:All checks passed!|Success: no issues found in \d+ source files?|\d+ errors?, 0 warnings.*|0 errors, .*|"
    r"All done! .*|\d+ files? (?:left unchanged|already formatted|would be left unchanged)\.?|"
    r"\d+ files? inspected, no offenses detected|Your code has been rated at 10\.00/10.*|0 issues\.|No issues found!?|"
    r"Found 0 errors.*|All matched files use Prettier code style!|\[INFO\] BUILD SUCCESS|BUILD SUCCESSFUL in .*|"
    r" +Finished `?\w+`? .*target\(s\) in .*|Found no issues\.?|\[OK\] No errors)$",
    re.MULTILINE,
)


def kind_of(tool: str) -> Kind:
    return _KIND.get(tool, "lint")


def sample(lines: list[str]) -> str:
    """Return enough of a log to recognise the tool that wrote it."""
    some = lines if len(lines) <= 2 * _SAMPLE else lines[:_SAMPLE] + lines[-_SAMPLE:]
    return "\n".join(line[:_WIDTH] for line in some)


def recognise(some: str) -> str | None:
    return next((tool for sign, tool in _SIGNS if re.search(sign, some, re.MULTILINE)), None)


def says_clean(some: str) -> bool:
    return bool(_CLEAN.search(some))
