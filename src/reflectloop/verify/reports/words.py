"""What is said of each outcome: one line for people, and the next thing to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reflectloop.verify.reports.tally import COLLECTION, MOST_DETAILS
from reflectloop.verify.result import Counts, Detail, Kind, Type

_OUT_OF_MEMORY = "SIGKILL"


class Verdict(NamedTuple):
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
    first = next((one for one in details if one.file and one.line), None)
    return f"{first.file}:{first.line}" if first else ""


def _issues(details: Sequence[Detail]) -> str:
    many = "or more " if len(details) >= MOST_DETAILS else ""
    files = len({one.file for one in details if one.file})
    place = f" in {files} {_plural('file', files)}" if files else ""
    return f"{len(details)} {many}{_plural('issue', len(details))}{place}"


def _plural(word: str, number: int) -> str:
    return word if number == 1 else f"{word}s"


def passed(tool: str, counts: Counts, details: Sequence[Detail]) -> Verdict:
    told = numbers(counts) or (f"{tool}: passed, with {_issues(details)}" if details else f"{tool}: passed")
    return Verdict("passed", told, "")


def tests_failed(counts: Counts, details: Sequence[Detail]) -> Verdict:
    first = next((one.test for one in details if one.test), None)
    place = _at(details)
    begin = f"begin with {first}" if first else "read the failures"
    return Verdict("test_failure", numbers(counts), f"{begin}{f' ({place})' if place else ''} and mend what it checks")


def complained(type_: Type, tool: str, details: Sequence[Detail]) -> Verdict:
    place = _at(details)
    return Verdict(type_, f"{tool}: {_issues(details)}", f"mend {place or 'what is listed'} first, then run it again")


def not_built(tool: str, details: Sequence[Detail]) -> Verdict:
    told = f": {details[0].error}" if details else ""
    return Verdict(
        "build_failure", f"{tool}: the build failed{told}"[:240], f"mend {_at(details) or 'the build'} first"
    )


def not_collected(counts: Counts, details: Sequence[Detail]) -> Verdict:
    details = [one for one in details if one.rule == COLLECTION] or details
    told = f": {details[0].error}" if details else ""
    place = _at(details) or (details[0].file if details else None)
    also = f" ({numbers(counts)})" if numbers(counts) else ""
    return Verdict(
        "collection_error",
        f"tests could not be collected{also}{told}"[:240],
        f"mend what keeps {place or 'the test files'} from being loaded: an import, a name or the syntax",
    )


def no_tests(tool: str) -> Verdict:
    return Verdict(
        "no_tests", f"{tool}: no tests were run", "check the path, the pattern and the selection given to the runner"
    )


def all_skipped(counts: Counts) -> Verdict:
    return Verdict("no_tests", f"nothing ran: {counts.skipped} skipped", "find out why every test is skipped")


def absent(tool: str) -> Verdict:
    return Verdict(
        "tool_missing", f"{tool} is not there", f"install {tool} where the check runs, or correct the command"
    )


def late(tool: str) -> Verdict:
    return Verdict("timeout", f"{tool}: ran past its time limit", "look for what hangs, or raise the check's timeout_s")


def killed(tool: str, signal: str, counts: Counts) -> Verdict:
    so_far = f", after {numbers(counts)}" if numbers(counts) else ""
    if signal == _OUT_OF_MEMORY:
        told, next_step = (
            "killed (SIGKILL), most likely out of memory",
            "run fewer tests at a time or raise the memory limit",
        )
    else:
        told, next_step = (
            f"ended by {signal}",
            "run it alone and look at the last lines of the log: a native crash or an abort",
        )
    return Verdict("crashed", f"{tool}: {told}{so_far}", next_step)


def cut(tool: str, details: Sequence[Detail]) -> Verdict:
    return Verdict(
        "crashed", f"{tool}: {details[0].error}"[:240], "run it again and see that the report is written to its end"
    )


def contradicted(tool: str, counts: Counts, exit_code: int) -> Verdict:
    return Verdict(
        "crashed",
        f"{tool}: exit code {exit_code}, though the report says {numbers(counts)}",
        "read the end of the log: something beside the tests failed (a threshold, a hook, the tear-down)",
    )


def without_result(tool: str, exit_code: int | None) -> Verdict:
    code = "" if exit_code is None else f"exit code {exit_code}, and "
    return Verdict(
        "crashed",
        f"{tool}: {code}no result of any test was seen",
        "read the log: the runner ended before it told a result, or writes its report elsewhere",
    )


def failed_unread(tool: str, exit_code: int, kind: Kind, log: str) -> Verdict:
    last = next((line.strip() for line in reversed(log[-4000:].split("\n")) if line.strip()), "")
    told = f"{tool}: exit code {exit_code}{f': {last}' if last else ''}"[:240]
    return Verdict("build_failure" if kind == "build" else "crashed", told, "read the end of the log")


def unknown() -> Verdict:
    return Verdict(
        "unknown_project", "nothing in it is known to be a result", "say --exit-code, or give the tool's report file"
    )
