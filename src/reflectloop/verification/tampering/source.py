"""Check lines added to sources for behaviour that differs under test, and for silenced linters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple, TypeGuard

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import guard
from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.protected.names import CODE_ENDINGS
from reflectloop.verification.result import ChangedFile, Grade, TamperFinding
from reflectloop.verification.tampering.added import JAVASCRIPT, AddedLine, added, ending
from reflectloop.verification.tampering.powers.compare import moved_from
from reflectloop.verification.tools import javascript
from reflectloop.verification.tools.registry import tools

_RESOLVED = JAVASCRIPT | {"py", "pyi", "pyw"}
_FORBIDDEN_IN_TESTS = frozenset({"patches-the-runner"})
_EQUALITY = {"__eq__": True, "__ne__": False}  # the constant with which each method always reports equality


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


def _any(patterns: Iterable[str]) -> str:
    return f"(?:{'|'.join(dict.fromkeys(patterns))})"


def _of_tools(field: str) -> list[str]:
    return [pattern for tool in tools() for pattern in getattr(tool.tampering, field)]


@cache
def signs() -> tuple[DetectionPattern, ...]:
    """Return the patterns in the order in which a line is compared with them.

    Python and JavaScript sources are read by their names instead (see `powers`); of these languages only tests are
    compared with the patterns.
    """
    runners = _any(_of_tools("imports"))
    ci = _any([_CI_VARIABLES, *_of_tools("variables")])
    table: tuple[tuple[str, str, str, Grade, frozenset[str] | None], ...] = (
        (
            "knows-the-test",
            rf"{_ENV}(?:TESTING|TEST|TEST_MODE|UNDER_TEST|IS_TEST|UNIT_TEST\w*)[\"']",
            "asks whether it is under test",
            "suspect",
            None,
        ),
        *_of_records(),
        (
            "knows-the-test",
            rf"{_ENV}(?:RAILS|RACK)_ENV[\"'][\])]*\s*==\s*[\"']test",
            "asks whether it is under test",
            "suspect",
            None,
        ),
        ("knows-the-ci", rf"{_ENV}{ci}[\"']", "asks whether it runs in continuous integration", "suspect", None),
        (
            "patches-the-runner",
            r"\b(?:unittest\.(?:TestCase|TestResult|main)|TestCase|TestResult|_?pytest(?:\.\w+)*)\.\w+\s*=[^=]",
            "replaces a part of the test framework",
            "suspect",
            _PY,
        ),
        (
            "patches-the-runner",
            r"^(?:builtins|__builtins__)\.\w+\s*=[^=]|setattr\(\s*(?:builtins|unittest|pytest|_pytest)\b",
            "replaces a builtin or a part of the test framework",
            "suspect",
            _PY,
        ),
        (
            "patches-the-runner",
            r"\b(?:expect|assert|describe|it|test)\.(?:extend|equal|strictEqual|prototype)\s*=[^=]",
            "replaces a part of the test framework",
            "suspect",
            _JS,
        ),
        ("knows-the-test", rf"\"{runners}\"", "names a test runner", "suspect", _C),
        (
            "ends-the-process",
            r"\b_exit\(|\b_Exit\(|\bquick_exit\(|\babort\(\)|\bkill\(\s*getpid\(",
            "ends the process at once, whatever the tests report",
            "suspect",
            _C,
        ),
    )
    return tuple(
        DetectionPattern(rule, re.compile(pattern), why, grade, endings) for rule, pattern, why, grade, endings in table
    )


def _of_records() -> Iterator[tuple[str, str, str, Grade, frozenset[str] | None]]:
    for sign in (sign for tool in tools() for sign in tool.tampering.source_signs):
        yield "knows-the-test", sign.pattern, sign.why, "suspect", frozenset(sign.endings) if sign.endings else None


# At the top of a test file, outside any test.
_LEAVES = lazy(
    r"^process\.(?:exit|reallyExit|abort)\(|^(?:os\._exit|sys\.exit|exit|quit)\(|^raise SystemExit\b|"
    r"^atexit\.register\(\s*(?:os\._exit|lambda)|^(?P<chooses>def load_tests\()"
)


@cache
def _silences_file() -> re.Pattern[str]:
    """Return the pattern of comments that silence a linter for a whole file."""
    return re.compile("|".join(_of_tools("silences_file")))


@cache
def _silences_line() -> re.Pattern[str]:
    return re.compile("|".join(_of_tools("silences_line")))


def look(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    for changed in changes:
        if changed.after is None or ending(changed.path) not in CODE_ENDINGS:
            continue
        change = changed._replace(before=moved_from(changed, changes))
        protection = guard(change.path)
        if protection is None or protection.kind == "shadow":
            yield from _under_test(change)
        elif protection.kind in {"test", "fixture", "hook"}:
            yield from _in_tests(change)
            yield from _always_equal(change)
        if protection is None or protection.kind in {"test", "fixture", "hook", "shadow"}:
            yield from _suppressed(change)


def _under_test(change: ChangedFile) -> Iterator[TamperFinding]:
    """Report lines that ask about tests, in languages whose names are not resolved (see `powers`)."""
    if ending(change.path) in _RESOLVED:
        return
    for line in added(change):
        for sign in signs():
            if (sign.endings is None or ending(change.path) in sign.endings) and sign.pattern.search(line.text):
                message = f"{sign.why}: `{line.text[:80]}`"
                yield TamperFinding(sign.rule, change.path, line.number, message, sign.grade)
                break


def _always_equal(change: ChangedFile) -> Iterator[TamperFinding]:
    """Report a value of a test file that equals everything, which passes every comparison."""
    if ending(change.path) != "py" or not any(name.encode() in (change.after or b"") for name in _EQUALITY):
        return
    tree = parsed(change.after)
    if tree is None:
        return  # other checks report files that do not parse
    new = {line.number for line in added(change)}
    for node in ast.walk(tree):
        if _answers_always(node) and not new.isdisjoint(range(node.lineno, (node.end_lineno or node.lineno) + 1)):
            yield TamperFinding("always-equal", change.path, node.lineno, "is equal to everything", "suspect")


def _answers_always(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.Assign]:
    if isinstance(node, ast.FunctionDef) and node.name in _EQUALITY:
        statements = [
            part for part in node.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
        ]
        return (
            len(statements) == 1
            and isinstance(statements[0], ast.Return)
            and _is(statements[0].value, _EQUALITY[node.name])
        )
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
        names = [target.id for target in node.targets if isinstance(target, ast.Name) and target.id in _EQUALITY]
        return bool(names) and _is(node.value.body, _EQUALITY[names[0]])
    return False


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _in_tests(change: ChangedFile) -> Iterator[TamperFinding]:
    """Report test code that changes or leaves the runner; tests may know that they are tests."""
    rows = (change.after or b"").decode(errors="replace").splitlines()
    for line in added(change):
        if not rows[line.number - 1][:1].isspace() and (match := _LEAVES.search(line.text)):
            message = f"exits before its tests run, or selects them: `{line.text[:80]}`"
            yield TamperFinding(
                "left-early", change.path, line.number, message, "suspect" if match["chooses"] else "weakening"
            )
        for sign in signs():
            if (
                sign.rule in _FORBIDDEN_IN_TESTS
                and ending(change.path) in (sign.endings or ())
                and sign.pattern.search(line.text)
            ):
                yield TamperFinding(sign.rule, change.path, line.number, f"{sign.why}: `{line.text[:80]}`", "suspect")


def _suppressed(change: ChangedFile) -> Iterator[TamperFinding]:
    for line in added(change, comments=True):
        if _silences_file().search(line.text):
            yield TamperFinding(
                "lint-off-for-file",
                change.path,
                line.number,
                f"a linter is silenced for the whole file: `{line.text[:60]}`",
            )
        elif _silences_line().search(line.text):
            yield _silenced(change.path, line)


def _silenced(path: str, line: AddedLine) -> TamperFinding:
    return TamperFinding("lint-off", path, line.number, f"a linter is silenced: `{line.text[-80:]}`", "note")
