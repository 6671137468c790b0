"""Looks at lines added to sources for behaviour that shows only under test, and for rules of linters switched off."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from reflectloop.verify.protected import guard
from reflectloop.verify.protected.names import CODE_ENDINGS
from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening.added import Line, added, ending

Grade = Literal["weakening", "suspect", "note"]


class Tell(NamedTuple):
    rule: str
    pattern: re.Pattern[str]
    why: str
    grade: Grade
    endings: frozenset[str] | None = None


_PY, _JS = frozenset({"py", "pyi"}), frozenset({"js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"})
_GO, _RS, _JVM = frozenset({"go"}), frozenset({"rs"}), frozenset({"java", "kt", "scala", "groovy"})
_ENV = (
    r"(?:environ(?:\.get\(|\[|\.setdefault\()|getenv\(|env\.get\(|"
    r"ENV(?:\.fetch\(|\[)|env::var(?:_os)?\(|Getenv\(|LookupEnv\(|env\[)\s*[bf]?[\"']"
)
_CI = (
    r"(?:CI|GITHUB_ACTIONS|GITLAB_CI|TRAVIS|"
    r"CIRCLECI|JENKINS_URL|BUILDKITE|APPVEYOR|TF_BUILD|CONTINUOUS_INTEGRATION|TOX_ENV_DIR|TOX_ENV_NAME|NOX_\w+)"
)
_WHO_CALLS = "looks at who calls it, and by which name"
_CALLERS_NAME = re.compile(r"co_filename|co_name|f_code|\.filename|\.function\b|__file__|\btests?\b|test_")
_RUNNERS = r"(?:pytest|_pytest|unittest|nose2?|doctest|hypothesis|tox|jest|mocha|vitest)"

_TABLE: tuple[tuple[str, str, str, Grade, frozenset[str] | None], ...] = (
    (
        "knows-the-test",
        r"PYTEST_(?:CURRENT_TEST|VERSION|XDIST_\w+|ADDOPTS|RUN_CONFIG)",
        "asks whether pytest runs it",
        "weakening",
        None,
    ),
    (
        "knows-the-test",
        rf"[\"']{_RUNNERS}[\"']\s+(?:not\s+)?in\s+sys\.modules",
        "asks whether a test runner is loaded",
        "weakening",
        None,
    ),
    (
        "knows-the-test",
        rf"sys\.modules(?:\.get\(|\[|\.keys)\s*[\"']{_RUNNERS}",
        "asks whether a test runner is loaded",
        "weakening",
        None,
    ),
    (
        "knows-the-test",
        rf"sys\.argv.*{_RUNNERS}|{_RUNNERS}.*\bsys\.argv",
        "asks whether a test runner started it",
        "weakening",
        None,
    ),
    (
        "knows-the-test",
        r"JEST_WORKER_ID|VITEST_(?:WORKER|POOL)_ID|process\.env\.VITEST\b|import\.meta\.vitest",
        "asks whether a test runner runs it",
        "weakening",
        _JS,
    ),
    (
        "knows-the-test",
        r"NODE_ENV\W{1,6}\s*[!=]==?\s*[\"'`]test[\"'`]|[\"'`]test[\"'`]\s*[!=]==?\s*process\.env",
        "asks whether it is under test",
        "weakening",
        _JS,
    ),
    (
        "knows-the-test",
        r"typeof\s+(?:jest|describe|it|vi|mocha|expect)\b|global(?:This)?\.(?:jest|describe|expect|vi)\b",
        "asks whether a test runner is there",
        "weakening",
        _JS,
    ),
    (
        "knows-the-test",
        r"\btesting\.Testing\(\)|flag\.Lookup\(\s*\"test\.|strings\.HasSuffix\(\s*os\.Args\[0\]",
        "asks whether go test runs it",
        "weakening",
        _GO,
    ),
    (
        "knows-the-test",
        r"\bcfg!\(\s*test\s*\)|#\[cfg\(not\(test\)\)\]",
        "behaves otherwise under cargo test",
        "weakening",
        _RS,
    ),
    (
        "knows-the-test",
        r"Class\.forName\(\s*\"org\.(?:junit|testng)|surefire",
        "asks whether JUnit is there",
        "weakening",
        _JVM,
    ),
    (
        "knows-the-test",
        rf"defined\?\(?\s*(?:RSpec|Minitest)|{_ENV}(?:RAILS|RACK)_ENV[\"'][\])]*\s*==\s*[\"']test",
        "asks whether it is under test",
        "weakening",
        None,
    ),
    (
        "knows-the-test",
        r"class_exists\(\s*[\"']PHPUnit|defined\(\s*[\"']PHPUNIT",
        "asks whether PHPUnit is there",
        "weakening",
        None,
    ),
    (
        "knows-the-ci",
        rf"{_ENV}{_CI}[\"']|[\"']{_CI}[\"']\s+(?:not\s+)?in\s+(?:os\.)?environ|process\.env\.{_CI}\b",
        "asks whether it runs in continuous integration",
        "suspect",
        None,
    ),
    (
        "walks-the-stack",
        r"(?:inspect\.(?:stack|currentframe|getouterframes)|sys\._getframe|traceback\.(?:extract_stack|walk_stack|format_stack)).*test|test.*(?:inspect\.stack|_getframe|extract_stack)",
        "looks for a test among its callers",
        "weakening",
        _PY,
    ),
    (
        "walks-the-stack",
        r"\binspect\.(?:stack|currentframe|getouterframes)\(|\bsys\._getframe\(|traceback\.(?:extract_stack|walk_stack)\(",
        _WHO_CALLS,
        "suspect",
        _PY,
    ),
    (
        "imports-the-runner",
        r"^(?:from|import)\s+(?:pytest|_pytest|unittest|nose2?|pluggy)\b",
        "a source imports the test framework",
        "suspect",
        _PY,
    ),
    (
        "imports-the-runner",
        r"(?:require\(|from\s+)[\"'](?:vitest|@jest/globals|mocha|node:test|jest)[\"']",
        "a source imports the test framework",
        "suspect",
        _JS,
    ),
    (
        "patches-the-runner",
        r"\b(?:unittest\.(?:TestCase|TestResult|main)|TestCase|TestResult|_?pytest(?:\.\w+)*)\.\w+\s*=[^=]",
        "replaces a part of the test framework",
        "weakening",
        _PY,
    ),
    (
        "patches-the-runner",
        r"^(?:builtins|__builtins__)\.\w+\s*=[^=]|setattr\(\s*(?:builtins|unittest|pytest|_pytest)\b",
        "replaces a builtin or a part of the test framework",
        "weakening",
        _PY,
    ),
    (
        "patches-the-runner",
        r"\b(?:expect|assert|describe|it|test)\.(?:extend|equal|strictEqual|prototype)\s*=[^=]",
        "replaces a part of the test framework",
        "weakening",
        _JS,
    ),
    (
        "always-equal",
        r"def\s+__eq__\s*\(.*\)\s*(?:->\s*\w+\s*)?:\s*return\s+True",
        "is equal to everything",
        "weakening",
        _PY,
    ),
    (
        "ends-the-process",
        r"\bos\._exit\(|\bos\.kill\(\s*os\.getpid|\bos\.abort\(|\bprocess\.(?:reallyExit|abort)\(|faulthandler\._",
        "ends the process at once, whatever a test found",
        "suspect",
        None,
    ),
    (
        "ends-the-process",
        r"\batexit\.register\(|\bsys\.(?:settrace|setprofile|excepthook\s*=|unraisablehook\s*=)|\bthreading\.(?:settrace|excepthook\s*=)|signal\.(?:signal|alarm|setitimer)\(",
        "acts on the process that runs the tests",
        "suspect",
        _PY,
    ),
)
TELLS = tuple(Tell(rule, re.compile(pattern), why, grade, endings) for rule, pattern, why, grade, endings in _TABLE)

_WHOLE_FILE = re.compile(
    r"#\s*(?:ruff|flake8):\s*noqa(?!:\s*[A-Z])|#\s*mypy:\s*(?:ignore-errors|disable|allow)|^#\s*type:\s*ignore\s*$|^#\s*pyright:\s*(?:basic|false|report\w+\s*=\s*false)|"
    r"#\s*pylint:\s*(?:skip-file|disable=all)|^/\*\s*eslint-disable\s*\*/|//\s*@ts-nocheck|#!\[allow\(|^//nolint\b.*\bpackage\b|"
    r"#\s*rubocop:disable\s+all|^#\s*isort:\s*skip_file|^//\s*tslint:disable\s*$|/\*\s*biome-ignore-all"
)
_ONE_LINE = re.compile(
    r"#\s*noqa\b|#\s*type:\s*ignore|#\s*pyright:\s*ignore|#\s*pylint:\s*disable|#\s*nosec\b|#\s*pragma:\s*no\s*(?:cover|branch)|eslint-disable|"
    r"@ts-(?:ignore|expect-error)|#\[allow\(|//\s*nolint|@SuppressWarnings|@Suppress\(|rubocop:disable|phpstan-ignore|"
    r"istanbul ignore|c8 ignore|v8 ignore|#pragma warning disable|biome-ignore|shellcheck disable|NOLINT"
)


_NOR_IN_TESTS = frozenset({"patches-the-runner", "always-equal"})


def look(changes: Sequence[Change]) -> Iterator[Finding]:
    for change in changes:
        if change.after is None or ending(change.path) not in CODE_ENDINGS:
            continue
        found = guard(change.path)
        if found is None or found.kind == "shadow":
            yield from _under_test(change)
        elif found.kind in {"test", "fixture", "hook"}:
            yield from _in_tests(change)
        if found is None or found.kind in {"test", "fixture", "hook", "shadow"}:
            yield from _suppressed(change)


def _under_test(change: Change) -> Iterator[Finding]:
    testing = re.search(
        r"(?:^|/)_?testing(?:/|\.py$)|(?:^|/)(?:pytest_plugin|plugin)\.py$|(?:^|/)(?:docs?|examples?|benchmarks?|bench)/",
        change.path,
    )
    lines = list(added(change))
    by_name = any(_CALLERS_NAME.search(line.text) for line in lines)
    for line in lines:
        for tell in TELLS:
            if (tell.endings is None or ending(change.path) in tell.endings) and tell.pattern.search(line.text):
                harmless = (testing and tell.rule == "imports-the-runner") or (tell.why == _WHO_CALLS and not by_name)
                grade = "note" if harmless else tell.grade
                yield Finding(tell.rule, change.path, line.number, f"{tell.why}: `{line.text[:80]}`", grade)
                break


def _in_tests(change: Change) -> Iterator[Finding]:
    """Tests know that they are tests; what they must not do is to reach into what runs them."""
    for line in added(change):
        for tell in TELLS:
            if (
                tell.rule in _NOR_IN_TESTS
                and ending(change.path) in (tell.endings or ())
                and tell.pattern.search(line.text)
            ):
                yield Finding(tell.rule, change.path, line.number, f"{tell.why}: `{line.text[:80]}`", "suspect")


def _suppressed(change: Change) -> Iterator[Finding]:
    for line in added(change, comments=True):
        if _WHOLE_FILE.search(line.text):
            yield Finding(
                "lint-off-for-file",
                change.path,
                line.number,
                f"a linter is silenced for the whole file: `{line.text[:60]}`",
            )
        elif _ONE_LINE.search(line.text):
            yield _silenced(change.path, line)


def _silenced(path: str, line: Line) -> Finding:
    return Finding("lint-off", path, line.number, f"a linter is silenced: `{line.text[-80:]}`", "note")
