"""Patterns of source lines that behave differently under test, or silence a linter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Literal, NamedTuple

from reflectloop.verification.tools import javascript
from reflectloop.verification.tools.registry import tools

Grade = Literal["weakening", "suspect", "note"]


class DetectionPattern(NamedTuple):
    """A pattern that reveals behaviour specific to tests."""

    rule: str
    pattern: re.Pattern[str]
    why: str
    grade: Grade
    endings: frozenset[str] | None = None


_PY, _JS = frozenset({"py", "pyi"}), frozenset(javascript.CODE)
_C = frozenset({"c", "cc", "cpp", "cxx", "h", "hpp"})
_ENV = (
    r"(?:environ(?:\.get\(|\[|\.setdefault\()|getenv\(|env\.get\(|"
    r"ENV(?:\.fetch\(|\[)|env::var(?:_os)?\(|Getenv\(|LookupEnv\(|env\[)\s*[bf]?[\"']"
)
_CI_VARIABLES = (
    r"CI|GITHUB_ACTIONS|GITLAB_CI|TRAVIS|CIRCLECI|JENKINS_URL|BUILDKITE|APPVEYOR|TF_BUILD|CONTINUOUS_INTEGRATION"
)
# "test" as a word of its own, so not in "latest" or "contest".
_TEST = r"(?<![A-Za-z])(?i:(?:py|unit)?test(?:s|ing|case)?)(?![A-Za-z])"
_STARTS_TESTS = r"[\"'][^\"']*\b(?:discover|unittest|py\.?test)\b[^\"']*[\"']"
_RUNNER_VARIABLE = r"\w*(?:UNITTEST|PYTEST|NOSETEST)\w*[\"']"
WHO_CALLS = "looks at who calls it, and by which name"
AT_EXIT = "acts on the process that runs the tests"
# Cleaning up when the process ends, and the system's own reactions to signals.
ORDINARY = re.compile(
    r"^(?:@?atexit\.register\((?:[\w.]+\.)?(?:close|clear|cleanup|shutdown|stop|terminate|flush|release|join|cancel|"
    r"disconnect|rmtree|unlink|remove|rmdir|restore|reset|save|dispose|finali[sz]e|wait)(?:_\w+)?\s*(?:,[^()]*)?\)|"
    r"signal\.signal\(\s*[\w.]+\s*,\s*(?:signal\.)?(?:SIG_DFL|SIG_IGN|default_int_handler)\s*\)|"
    r"signal\.signal\(\s*(?:signal\.)?SIG(?:INT|TERM|HUP|PIPE|WINCH|CHLD|USR1|USR2|QUIT)\s*,\s*[\w.]+\s*\));?$"
)
CALLERS_NAME = re.compile(r"co_filename|co_name|f_code|\.filename|\.function\b|__file__|\btests?\b|test_")
# Globals that only a JavaScript runner sets; the second list has ordinary words, which count only as globals.
_JS_GLOBALS = (
    r"(?:jest|describe|it|vi|mocha|jasmine|expect|"
    r"beforeEach|afterEach|beforeAll|afterAll|__karma__|__coverage__|Cypress)"
)
_JS_WORDS = rf"(?:{_JS_GLOBALS}|test|suite|specify|before|after)"
_JS_CALLERS = (
    r"(?:new\s+Error\b[^;]{0,40}?\.stack\b|captureStackTrace|prepareStackTrace|require\.cache\b|"
    r"(?:require\.main|module\.parent|process\.mainModule)\??\.\w+|process\.argv\[[01]\]|process\.execArgv|"
    r"(?:keys|entries)\(\s*process\.env\s*\)|npm_lifecycle_\w+)"
)
_QUOTE = r"[\"'`/]"
LOOKS_AROUND = re.compile(_JS_CALLERS)
JAVASCRIPT = _JS


def _any(patterns: Iterable[str]) -> str:
    return f"(?:{'|'.join(dict.fromkeys(patterns))})"


def _of_tools(field: str) -> list[str]:
    return [pattern for tool in tools() for pattern in getattr(tool.tampering, field)]


def _named_in_javascript() -> str:
    """Return the pattern of a string or regular expression that names a runner or tests; not the method `test(`."""
    known = "|".join(["tests?", "specs?", *_of_tools("javascript_names")])
    return rf"{_QUOTE}[^\"'`\n]{{0,80}}?(?<![A-Za-z])(?i:{known})(?![A-Za-z(])"


@cache
def names_a_test() -> re.Pattern[str]:
    return re.compile(_named_in_javascript())


@cache
def signs() -> tuple[DetectionPattern, ...]:
    """Return the patterns in the order in which a line is compared with them."""
    named, runners = _named_in_javascript(), _any(_of_tools("imports"))
    variables = _any(_of_tools("javascript_variables"))
    imported = "|".join(
        pattern for tool in tools() if tool.tampering.javascript_names for pattern in tool.tampering.imports
    )
    ci = _any([_CI_VARIABLES, *_of_tools("variables")])
    table: tuple[tuple[str, str, str, Grade, frozenset[str] | None], ...] = (
        (
            "knows-the-test",
            rf"(?:__import__|import_module|find_spec)\(\s*[\"']{runners}[\"']",
            "reaches for a test runner",
            "weakening",
            _PY,
        ),
        (
            "knows-the-test",
            # An option such as `--test` is the program's own.
            rf"[\"'](?!-)[\w./-]*{_TEST}[\w./-]*[\"']\s+(?:not\s+)?in\s+sys\.argv|sys\.argv\[0\].*{_TEST}",
            "asks whether a test runner started it",
            "weakening",
            _PY,
        ),
        (
            "knows-the-test",
            (
                rf"\.stack\b.*(?:includes|match|test|indexOf)\(.*(?:test|spec|{imported})|"
                rf"^(?=.*{_JS_CALLERS})(?=.*{named})"
            ),
            "looks for a test among its callers",
            "weakening",
            _JS,
        ),
        (
            "knows-the-test",
            rf"^(?=.*process\.argv\b)(?=.*{named.replace(_QUOTE, _QUOTE + '(?!-)', 1)})",
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
        *_of_records(),
        (
            "knows-the-test",
            rf"[\"']{runners}[\"']\s+(?:not\s+)?in\s+sys\.modules",
            "asks whether a test runner is loaded",
            "weakening",
            None,
        ),
        (
            "knows-the-test",
            rf"sys\.modules(?:\.get\(|\[|\.keys)\s*[\"']{runners}",
            "asks whether a test runner is loaded",
            "weakening",
            None,
        ),
        (
            "knows-the-test",
            rf"sys\.argv.*{runners}|{runners}.*\bsys\.argv",
            "asks whether a test runner started it",
            "weakening",
            None,
        ),
        (
            "knows-the-test",
            rf"^(?=.*\benv\b)(?=.*\b{variables}\b)",
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
            rf"{_ENV}(?:RAILS|RACK)_ENV[\"'][\])]*\s*==\s*[\"']test",
            "asks whether it is under test",
            "weakening",
            None,
        ),
        (
            "knows-the-ci",
            (
                rf"{_ENV}{ci}[\"']|[\"']{ci}[\"']\s+(?:not\s+)?in\s+(?:os\.)?environ|process\.env\.{ci}\b|"
                rf"[\"'`]{ci}[\"'`]\s+in\s+process\.env|\{{[^{{}}]*\b{ci}\b[^{{}}]*\}}\s*=\s*process\.env|(?:require\(|from\s+)[\"'](?:ci-info|is-ci)[\"']"
            ),
            "asks whether it runs in continuous integration",
            "suspect",
            None,
        ),
        (
            "walks-the-stack",
            (
                rf"(?:inspect\.(?:stack|currentframe|getouterframes)|sys\._getframe|"
                rf"traceback\.(?:extract_stack|walk_stack|format_stack)).*{_TEST}|"
                rf"{_TEST}.*(?:inspect\.stack|_getframe|extract_stack)"
            ),
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
            rf"(?:require\(|from\s+)[\"'](?:{imported}|@jest/globals|node:test)[\"']",
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
        ("knows-the-test", rf"\"{runners}\"", "names a test runner", "suspect", _C),
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
            (
                r"\batexit\.register\(|\bsys\.(?:settrace|setprofile|excepthook\s*=|unraisablehook\s*=)|"
                r"\bthreading\.(?:settrace|excepthook\s*=)|signal\.(?:signal|alarm|setitimer)\("
            ),
            AT_EXIT,
            "suspect",
            _PY,
        ),
    )
    return tuple(
        DetectionPattern(rule, re.compile(pattern), why, grade, endings) for rule, pattern, why, grade, endings in table
    )


def _of_records() -> Iterator[tuple[str, str, str, Grade, frozenset[str] | None]]:
    for sign in (sign for tool in tools() for sign in tool.tampering.source_signs):
        yield "knows-the-test", sign.pattern, sign.why, "weakening", frozenset(sign.endings) if sign.endings else None


# At the top of a test file, outside any test.
LEAVES = re.compile(
    r"^process\.(?:exit|reallyExit|abort)\(|^(?:os\._exit|sys\.exit|exit|quit)\(|^raise SystemExit\b|"
    r"^atexit\.register\(\s*(?:os\._exit|lambda)|^(?P<chooses>def load_tests\()"
)


@cache
def silences_file() -> re.Pattern[str]:
    """Return the pattern of comments that silence a linter for a whole file."""
    return re.compile("|".join(_of_tools("silences_file")))


@cache
def silences_line() -> re.Pattern[str]:
    return re.compile("|".join(_of_tools("silences_line")))
