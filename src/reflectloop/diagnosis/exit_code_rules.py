"""Diagnose by outcome and exit code alone, before any output is read."""

from __future__ import annotations

import signal
from typing import NamedTuple

from reflectloop.diagnosis.failure_record import Category, Diagnosis
from reflectloop.diagnosis.rule import is_word
from reflectloop.errors import StepFailed, StepTimeout, VerificationFailed
from reflectloop.verification.reports.messages import line_of
from reflectloop.verification.result import VerificationResult

_TIMED_OUT = 124  # exit code of timeout(1)
_NOT_RUNNABLE, _NOT_FOUND = 126, 127
_SIGNALLED, _LAST_SIGNAL = 128, 64
_ABSENT = " is not there"  # the end of a summary that names a program
_CHECKED = {"test", "lint", "type", "build"}
_FIRST = 1
_LAST = 8  # rank among the rules: an exit code says less than a line of output


class ExitDiagnosis(NamedTuple):
    """A category and diagnosis derived from an exit code or outcome."""

    category: Category
    diagnosis: Diagnosis
    rank: int = _LAST
    certain: bool = False  # overrides any line of output


def _diagnosis(rule: str, cause: str, suggestion: str, next_command: str | None = None) -> Diagnosis:
    return Diagnosis(rule=rule, root_cause=cause, suggestion=suggestion, next_command=next_command)


_LATE = _diagnosis(
    "timeout",
    "it ran past its time limit: something hangs or waits, or the limit is too short",
    "look for what hangs, or raise timeout_s; what depends on a service may pass later",
)
_KILLED = _diagnosis(
    "killed", "it was killed from outside, most likely for the memory it used", "use less memory, or raise the limit"
)
_CRASHED = _diagnosis(
    "signal", "it crashed: a signal ended it", "run it alone and look at the last lines of its output"
)
_STOPPED = _diagnosis("stopped", "it was asked to stop before it was done", "run it again")
_MISSING = _diagnosis("command-missing", "the command is not installed here", "install it, or correct the command")
_NOT_ALLOWED = _diagnosis(
    "not-executable", "the file may not be executed", "make it executable, or run it with its interpreter"
)
_SIGNALS: dict[int, ExitDiagnosis] = {
    signal.SIGKILL: ExitDiagnosis("TOOL", _KILLED),
    signal.SIGINT: ExitDiagnosis("EXTERNAL", _STOPPED),
    signal.SIGTERM: ExitDiagnosis("EXTERNAL", _STOPPED),
}
_CODES = {
    _TIMED_OUT: ExitDiagnosis("EXTERNAL", _LATE),
    _NOT_RUNNABLE: ExitDiagnosis("PERMISSION", _NOT_ALLOWED),
    _NOT_FOUND: ExitDiagnosis("ENV", _MISSING),
}


def code_of(result: VerificationResult) -> str:
    """Return the published code for a failure with this outcome."""
    if result.type == "timeout":
        return StepTimeout.code
    return VerificationFailed.code if result.kind in _CHECKED else StepFailed.code


def known(result: VerificationResult) -> ExitDiagnosis | None:
    """Return what the outcome or the exit code says about the failure, or None."""
    if result.type == "timeout":
        return ExitDiagnosis("EXTERNAL", _LATE, certain=True)
    if result.type == "tool_missing" and result.summary.endswith(_ABSENT):
        name = result.summary.removesuffix(_ABSENT)
        cause = f"{name} is not installed here, or not on the PATH"
        return ExitDiagnosis(
            "ENV",
            _diagnosis("command-missing", cause, result.suggestion, f"command -v {name}" if is_word(name) else None),
        )
    if result.type == "tool_missing":
        return ExitDiagnosis("DATA", _diagnosis("no-script", result.summary, result.suggestion, "npm run"), _FIRST)
    if result.type == "test_failure":
        return None  # some runners exit with the number of failures
    return _by_exit(result.exit_code)


def is_signal(exit_code: int | None) -> bool:
    """Return True if an exit code says that a signal ended the command."""
    code = exit_code or 0
    return code < 0 or _SIGNALLED < code <= _SIGNALLED + _LAST_SIGNAL


def _by_exit(exit_code: int | None) -> ExitDiagnosis | None:
    code = exit_code or 0
    if code in _CODES:
        return _CODES[code]
    number = -code if code < 0 else code - _SIGNALLED
    if 0 < number <= _LAST_SIGNAL:
        return _SIGNALS.get(number, ExitDiagnosis("EXECUTION", _CRASHED))
    return None


_UNEXPLAINED = {
    "test_failure": ("a test fails", "the code or the test is wrong"),
    "collection_error": ("tests could not be loaded", "a test file or what it imports is broken"),
    "build_failure": ("it does not compile or build", "the code is wrong where the tool says"),
    "lint": ("a linter complains", "the code breaks a rule of the project"),
    "type_error": ("types do not fit", "the code is wrong where the checker says"),
    "no_tests": ("no test was run", "the project has none, or the selection given to the runner matches none"),
}


def unexplained(result: VerificationResult) -> Diagnosis:
    """Return the diagnosis for a failure that no rule recognises."""
    rule = result.type.replace("_", "-")
    what, why = _UNEXPLAINED.get(result.type, ("it failed, and no known line of its output explains why", ""))
    cause = f"{what}: {why}" if why else what
    first = next((detail for detail in result.details if detail.error), None)
    if first:
        cause = f"{what}: {first.error}"[:300]
    if first and result.type == "crashed":
        cause = f"it reports: {line_of(first)}"[:300]
    return _diagnosis(rule, cause, result.suggestion or "read the end of the log")
