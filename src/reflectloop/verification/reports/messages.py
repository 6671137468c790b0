"""Word each verdict: one summary line and the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reflectloop.verification.reports.report_builder import COLLECTION, MOST_DETAILS
from reflectloop.verification.result import Counts, Detail, Kind, Type

_OUT_OF_MEMORY = "SIGKILL"


class ResultVerdict(NamedTuple):
    """The type of a result, a summary line and the next step."""

    type: Type
    summary: str
    next_step: str


def numbers(counts: Counts) -> str:
    parts = (
        (counts.failed, "failed"),
        (counts.errors, "error" if counts.errors == 1 else "errors"),
        (counts.passed, "passed"),
        (counts.skipped, "skipped"),
        (counts.xfailed, "failed as expected"),
    )
    return ", ".join(f"{number} {word}" for number, word in parts if number)


def _at(details: Sequence[Detail]) -> str:
    first = next((item for item in details if item.file and item.line), None)
    return f"{first.file}:{first.line}" if first else ""


def _issues(details: Sequence[Detail]) -> str:
    many = "or more " if len(details) >= MOST_DETAILS else ""
    files = len({item.file for item in details if item.file})
    place = f" in {files} {_plural('file', files)}" if files else ""
    return f"{len(details)} {many}{_plural('issue', len(details))}{place}"


def _plural(word: str, number: int) -> str:
    return word if number == 1 else f"{word}s"


def passed(tool: str, counts: Counts, details: Sequence[Detail]) -> ResultVerdict:
    summary = numbers(counts) or (f"{tool}: passed, with {_issues(details)}" if details else f"{tool}: passed")
    return ResultVerdict("passed", summary, "")


def tests_failed(counts: Counts, details: Sequence[Detail]) -> ResultVerdict:
    first = next((item.test for item in details if item.test), None)
    place = _at(details)
    begin = f"begin with {first}" if first else "read the failures"
    return ResultVerdict(
        "test_failure", numbers(counts), f"{begin}{f' ({place})' if place else ''} and fix what it checks"
    )


def complained(type_: Type, tool: str, details: Sequence[Detail]) -> ResultVerdict:
    place = _at(details)
    return ResultVerdict(
        type_, f"{tool}: {_issues(details)}", f"fix {place or 'the listed issues'} first, then run it again"
    )


def not_built(tool: str, details: Sequence[Detail]) -> ResultVerdict:
    cause = f": {details[0].error}" if details else ""
    return ResultVerdict(
        "build_failure", f"{tool}: the build failed{cause}"[:240], f"fix {_at(details) or 'the build'} first"
    )


def not_collected(counts: Counts, details: Sequence[Detail]) -> ResultVerdict:
    details = [item for item in details if item.rule == COLLECTION] or details
    cause = f": {details[0].error}" if details else ""
    place = _at(details) or (details[0].file if details else None)
    also = f" ({numbers(counts)})" if numbers(counts) else ""
    return ResultVerdict(
        "collection_error",
        f"tests could not be collected{also}{cause}"[:240],
        f"fix what prevents {place or 'the test files'} from loading: an import, a name or the syntax",
    )


def no_tests(tool: str) -> ResultVerdict:
    return ResultVerdict(
        "no_tests", f"{tool}: no tests were run", "check the path, the pattern and the selection given to the runner"
    )


def all_skipped(counts: Counts) -> ResultVerdict:
    return ResultVerdict("no_tests", f"nothing ran: {counts.skipped} skipped", "find out why every test is skipped")


def absent(tool: str) -> ResultVerdict:
    return ResultVerdict(
        "tool_missing", f"{tool} is not there", f"install {tool} where the check runs, or correct the command"
    )


def no_script(name: str) -> ResultVerdict:
    return ResultVerdict(
        "tool_missing", f"package.json has no script {name!r}", "correct the name of the script, or add the script"
    )


def reported(details: Sequence[Detail]) -> ResultVerdict:
    """Word the errors of an unknown tool, which name no place in a file."""
    many = f"{len(details)} errors, the first: " if len(details) > 1 else ""
    return ResultVerdict("crashed", f"{many}{line_of(details[0])}"[:240], "read the log around the first error")


def line_of(item: Detail) -> str:
    """Return an error as the log has it."""
    return item.context.splitlines()[0].strip() if item.context and not item.line else item.error


def late(tool: str) -> ResultVerdict:
    return ResultVerdict(
        "timeout", f"{tool}: ran past its time limit", "look for what hangs, or raise the check's timeout_s"
    )


def killed(tool: str, signal: str, counts: Counts) -> ResultVerdict:
    so_far = f", after {numbers(counts)}" if numbers(counts) else ""
    if signal == _OUT_OF_MEMORY:
        summary, next_step = (
            "killed (SIGKILL), most likely out of memory",
            "run fewer tests at a time or raise the memory limit",
        )
    else:
        summary, next_step = (
            f"ended by {signal}",
            "run it alone and look at the last lines of the log: a native crash or an abort",
        )
    return ResultVerdict("crashed", f"{tool}: {summary}{so_far}", next_step)


def cut(tool: str, details: Sequence[Detail]) -> ResultVerdict:
    return ResultVerdict(
        "crashed", f"{tool}: {details[0].error}"[:240], "run it again and make sure the report is written completely"
    )


def contradicted(tool: str, counts: Counts, exit_code: int) -> ResultVerdict:
    return ResultVerdict(
        "crashed",
        f"{tool}: exit code {exit_code}, though the report says {numbers(counts)}",
        "read the end of the log: something other than the tests failed (a threshold, a hook, the tear-down)",
    )


def without_result(tool: str, exit_code: int | None) -> ResultVerdict:
    code = "" if exit_code is None else f"exit code {exit_code}, and "
    next_step = "read the log: the runner ended before it reported a result, or writes its report elsewhere"
    if exit_code == 0:
        next_step = 'if only its exit code counts, give it kind = "custom" under [verify] checks in reflectloop.toml'
    return ResultVerdict("crashed", f"{tool}: {code}no test result was reported", next_step)


def failed_unread(tool: str, exit_code: int, kind: Kind, log: str) -> ResultVerdict:
    last = next((line.strip() for line in reversed(log[-4000:].split("\n")) if line.strip()), "")
    summary = f"{tool}: exit code {exit_code}{f': {last}' if last else ''}"[:240]
    return ResultVerdict("build_failure" if kind == "build" else "crashed", summary, "read the end of the log")


def unknown() -> ResultVerdict:
    return ResultVerdict(
        "unknown_project", "no known test result format was recognised", "pass --exit-code, or the tool's report file"
    )
