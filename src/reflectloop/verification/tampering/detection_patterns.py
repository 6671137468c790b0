"""Patterns of source lines that behave differently under test, or silence a linter; data only."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Grade = Literal["weakening", "suspect", "note"]


class DetectionPattern(NamedTuple):
    """A pattern that reveals behaviour specific to tests."""

    rule: str
    pattern: re.Pattern[str]
    why: str
    grade: Grade
    endings: frozenset[str] | None = None


_PY, _JS = frozenset({"py", "pyi"}), frozenset({"js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"})
_C = frozenset({"c", "cc", "cpp", "cxx", "h", "hpp"})
_GO, _RS, _JVM = frozenset({"go"}), frozenset({"rs"}), frozenset({"java", "kt", "scala", "groovy"})
_ENV = (
    r"(?:environ(?:\.get\(|\[|\.setdefault\()|getenv\(|env\.get\(|"
    r"ENV(?:\.fetch\(|\[)|env::var(?:_os)?\(|Getenv\(|LookupEnv\(|env\[)\s*[bf]?[\"']"
)
_CI = (
    r"(?:CI|GITHUB_ACTIONS|GITLAB_CI|TRAVIS|"
    r"CIRCLECI|JENKINS_URL|BUILDKITE|APPVEYOR|TF_BUILD|CONTINUOUS_INTEGRATION|TOX_ENV_DIR|TOX_ENV_NAME|NOX_\w+|"
    r"CTEST_\w+|DASHBOARD_TEST_FROM_CTEST|GTEST_\w+|BATS_\w+|RUST_TEST_\w+|PHPUNIT_\w+|RSPEC_\w+|GO_TEST_\w+)"
)
_STARTS_TESTS = r"[\"'][^\"']*\b(?:discover|unittest|py\.?test)\b[^\"']*[\"']"
_RUNNER_VARIABLE = r"\w*(?:UNITTEST|PYTEST|NOSETEST)\w*[\"']"
WHO_CALLS = "looks at who calls it, and by which name"
CALLERS_NAME = re.compile(r"co_filename|co_name|f_code|\.filename|\.function\b|__file__|\btests?\b|test_")
_RUNNERS = r"(?:pytest|_pytest|unittest|nose2?|doctest|hypothesis|tox|jest|mocha|vitest)"
# Globals that only a JavaScript runner sets; the second list has ordinary words, which count only as globals.
_JS_GLOBALS = (
    r"(?:jest|describe|it|vi|mocha|jasmine|expect|"
    r"beforeEach|afterEach|beforeAll|afterAll|__karma__|__coverage__|Cypress)"
)
_JS_WORDS = rf"(?:{_JS_GLOBALS}|test|suite|specify|before|after)"
_JS_VARIABLES = r"(?:NODE_TEST_CONTEXT|JEST_WORKER_ID|VITEST(?:_\w+)?|MOCHA_\w+|JASMINE_\w+|NODE_V8_COVERAGE)"
# A JavaScript string or regular expression that names a runner or tests; not the method `test(`.
_JS_NAMES = (
    r"[\"'`/][^\"'`\n]{0,80}?(?<![A-Za-z])"
    r"(?i:tests?|specs?|jest|mocha|vitest|jasmine|karma|cypress|playwright)(?![A-Za-z(])"
)
_JS_CALLERS = (
    r"(?:new\s+Error\b[^;]{0,40}?\.stack\b|captureStackTrace|prepareStackTrace|require\.cache\b|"
    r"(?:require\.main|module\.parent|process\.mainModule)\??\.\w+|process\.argv\[[01]\]|process\.execArgv|"
    r"(?:keys|entries)\(\s*process\.env\s*\)|npm_lifecycle_\w+)"
)
# Split over two nearby lines: one inspects the callers, the other names a test.
LOOKS_AROUND, NAMES_A_TEST = re.compile(_JS_CALLERS), re.compile(_JS_NAMES)
JAVASCRIPT = _JS

_TABLE: tuple[tuple[str, str, str, Grade, frozenset[str] | None], ...] = (
    (
        "knows-the-test",
        rf"(?:__import__|import_module|find_spec)\(\s*[\"']{_RUNNERS}[\"']",
        "reaches for a test runner",
        "weakening",
        _PY,
    ),
    (
        "knows-the-test",
        r"[\"'][\w./-]*test[\w./-]*[\"']\s+(?:not\s+)?in\s+sys\.argv|sys\.argv\[0\].*test",
        "asks whether a test runner started it",
        "weakening",
        _PY,
    ),
    (
        "knows-the-test",
        (
            r"\.stack\b.*(?:includes|match|test|indexOf)\(.*(?:test|spec|jest|vitest|mocha)|"
            rf"^(?=.*{_JS_CALLERS})(?=.*{_JS_NAMES})"
        ),
        "looks for a test among its callers",
        "weakening",
        _JS,
    ),
    (
        "knows-the-test",
        rf"^(?=.*process\.argv\b)(?=.*{_JS_NAMES})",
        "asks whether a test runner started it",
        "suspect",
        _JS,
    ),
    (
        "knows-the-test",
        rf"{_ENV}(?:TESTING|TEST|TEST_MODE|UNDER_TEST|IS_TEST|UNIT_TEST\w*)[\"']|process\.env\.(?:TESTING|TEST_MODE|UNDER_TEST|IS_TEST)\b",
        "asks whether it is under test",
        "suspect",
        None,
    ),
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
        rf"JEST_WORKER_ID|VITEST_(?:WORKER|POOL)_ID|^(?=.*\benv\b)(?=.*\b{_JS_VARIABLES}\b)|import\.meta\.vitest",
        "asks whether a test runner runs it",
        "weakening",
        _JS,
    ),
    (
        "knows-the-test",
        (
            r"NODE_ENV\W{1,6}\s*[!=]==?\s*[\"'`]test[\"'`]|[\"'`]test[\"'`]\s*[!=]==?\s*process\.env|"
            r"import\.meta\.env\.MODE\s*[!=]==?\s*[\"'`]test"
        ),
        "asks whether it is under test",
        "weakening",
        _JS,
    ),
    (
        "knows-the-test",
        (
            rf"typeof\s+{_JS_GLOBALS}\b|\bglobal(?:This)?(?:\??\.|(?:\?\.)?\[\s*[\"'`]){_JS_WORDS}\b|\bwindow\??\.(?:jest|describe|mocha|jasmine|__karma__|Cypress)\b|"
            rf"[\"'`]{_JS_WORDS}[\"'`]\s+in\s+(?:global|window|self)"
        ),
        "asks whether a test runner is present",
        "weakening",
        _JS,
    ),
    (
        "knows-the-test",
        r"typeof\s+(?:test|suite|specify|before|after)\s*[!=]==?\s*[\"'`]undefined",
        "asks whether a test runner is present",
        "suspect",
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
        "behaves differently under cargo test",
        "weakening",
        _RS,
    ),
    (
        "knows-the-test",
        r"Class\.forName\(\s*\"org\.(?:junit|testng)|surefire",
        "asks whether JUnit is present",
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
        "asks whether PHPUnit is present",
        "weakening",
        None,
    ),
    (
        "knows-the-ci",
        (
            rf"{_ENV}{_CI}[\"']|[\"']{_CI}[\"']\s+(?:not\s+)?in\s+(?:os\.)?environ|process\.env\.{_CI}\b|"
            rf"[\"'`]{_CI}[\"'`]\s+in\s+process\.env|\{{[^{{}}]*\b{_CI}\b[^{{}}]*\}}\s*=\s*process\.env|(?:require\(|from\s+)[\"'](?:ci-info|is-ci)[\"']"
        ),
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
        WHO_CALLS,
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
        "knows-the-test",
        rf"\"{_RUNNERS}\"",
        "names a test runner",
        "suspect",
        _C,
    ),
    (
        "knows-the-test",
        rf"\bsys\.(?:orig_)?argv\b.*{_STARTS_TESTS}|{_STARTS_TESTS}.*\bsys\.(?:orig_)?argv\b|{_ENV}{_RUNNER_VARIABLE}",
        "asks whether tests started it",
        "suspect",
        _PY,
    ),
    (
        "ends-the-process",
        r"\bos\._exit\(|\bos\.kill\(\s*os\.getpid|\bos\.abort\(|\bprocess\.(?:reallyExit|abort)\(|faulthandler\._",
        "ends the process at once, whatever the tests report",
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
TELLS = tuple(
    DetectionPattern(rule, re.compile(pattern), why, grade, endings) for rule, pattern, why, grade, endings in _TABLE
)

# At the top of a test file, outside any test.
LEAVES = re.compile(
    r"^process\.(?:exit|reallyExit|abort)\(|^(?:os\._exit|sys\.exit|exit|quit)\(|^raise SystemExit\b|"
    r"^atexit\.register\(\s*(?:os\._exit|lambda)|^(?P<chooses>def load_tests\()"
)
WHOLE_FILE = re.compile(
    r"#\s*(?:ruff|flake8):\s*noqa(?!:\s*[A-Z])|#\s*mypy:\s*(?:ignore-errors|disable|allow)|^#\s*type:\s*ignore\s*$|^#\s*pyright:\s*(?:basic|false|report\w+\s*=\s*false)|"
    r"#\s*pylint:\s*(?:skip-file|disable=all)|^/\*\s*eslint-disable\s*\*/|//\s*@ts-nocheck|#!\[allow\(|^//nolint\b.*\bpackage\b|"
    r"#\s*rubocop:disable\s+all|^#\s*isort:\s*skip_file|^//\s*tslint:disable\s*$|/\*\s*biome-ignore-all"
)
ONE_LINE = re.compile(
    r"#\s*noqa\b|#\s*type:\s*ignore|#\s*pyright:\s*ignore|#\s*pylint:\s*disable|#\s*nosec\b|#\s*pragma:\s*no\s*(?:cover|branch)|eslint-disable|"
    r"@ts-(?:ignore|expect-error)|#\[allow\(|//\s*nolint|@SuppressWarnings|@Suppress\(|rubocop:disable|phpstan-ignore|"
    r"istanbul ignore|c8 ignore|v8 ignore|#pragma warning disable|biome-ignore|shellcheck disable|NOLINT"
)
