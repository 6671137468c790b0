"""Judge a check by its exit code together with its report; an unclear result is never a pass."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.reports import messages, recognise
from reflectloop.verification.reports.messages import ResultVerdict
from reflectloop.verification.reports.recognise import UNKNOWN_TOOL
from reflectloop.verification.reports.report_builder import CUT
from reflectloop.verification.result import (
    FAILURES,
    Counts,
    Detail,
    Kind,
    Outcome,
    ReportReading,
    VerificationResult,
)
from reflectloop.verification.tools.registry import by_name

_SHELL_NOT_RUNNABLE = {126, 127}
_NEAR_END = 12_000

# Lines a shell or a launcher writes; `tool` is the program it could not start.
_NOT_STARTED = tuple(
    lazy(pattern, re.MULTILINE)
    for pattern in (
        r"^(?:/\S+/)?python[\d.]*(?:\.exe)?: No module named '?(?P<tool>[\w.]+?)'?(?:\.__main__)?(?:;.*)?$",
        r"^(?:/\S+/)?(?:ba|da|z|k)?sh: (?:line )?\d*:? ?(?P<tool>[^\s:]+): (?:command )?not found$",
        r"^(?:\S+\.sh: )?line \d+: (?P<tool>[^\s:]+): (?:command not found|No such file.*|Permission denied)$",
        r"^zsh: command not found: (?P<tool>\S+)$",
        r"^(?:\S*/)?(?:env|timeout|nice|sudo|bwrap): .{0,40}?[‘'\"]?(?P<tool>[\w./@+-]+)[’'\"]?: (?:No |Perm|comm).*$",
        r"^make(?:\[\d+\])?: (?P<tool>[^\s:]+): (?:No such file or directory|Command not found|Permission denied)$",
        r"^(?:npm (?:ERR!|error)|npx:) could not determine executable to run.*(?P<tool>)$",
        r"^error: no such (?:command|subcommand): `(?P<tool>[\w-]+)`$",
        r"^error: '(?P<tool>cargo-[\w-]+)' is not installed for the toolchain .*$",
        r"^bundler: command not found: (?P<tool>\S+)$",
        r"^go: (?:no such tool|unknown command) \"?(?P<tool>\w+)\"?.*$",
        r"^(?:.{0,60}: )?exec: \"(?P<tool>[\w./-]+)\": executable file not found in \$PATH$",
        r"^Error: Cannot find module '(?P<tool>[^']*node_modules/[^']+)'$",
        r"^Could not execute because the specified command or file was not found\.(?P<tool>)$",
        r"^error: Failed to spawn: `(?P<tool>[^`]+)`$",
        r"^Error: Could not find or load main class (?P<tool>\S+)$",
    )
)
_NO_SCRIPT = lazy(
    r"^(?:npm (?:ERR!|error) [Mm]issing script: | ?(?:error|ERR_PNPM_\w+):? {1,2}(?:Missing script:?|Command) |"
    r"(?:Usage Error: )?Couldn't find a script named )\"?(?P<name>[\w:.-]+)\"?",
    re.MULTILINE,
)


def tool(exit_code: int | None, log: str, command: Sequence[str], name: str | None) -> str | None:
    """Return the tool that could not be started, or None. Exit code 0 means it was started."""
    if exit_code == 0:
        return None
    missing = _named_tool(log[:_NEAR_END] + "\n" + log[-_NEAR_END:])
    if missing is not None:
        return missing or name or "the tool"
    if exit_code in _SHELL_NOT_RUNNABLE:
        return _command_name(log, command, name)
    return None


def _named_tool(text: str) -> str | None:
    for pattern in _NOT_STARTED:
        if match := pattern.search(text):
            return match["tool"].rpartition("node_modules/")[2].split("/")[0] or match["tool"]
    return None


def _command_name(log: str, command: Sequence[str], name: str | None) -> str | None:
    """Return the command's name for exit code 126 or 127 if the log is empty or names it, or else None."""
    names = [word for word in (name, *command[:1]) if word]
    if not log.strip():
        return names[-1].rpartition("/")[2] if names else "the tool"  # the command itself could not be started
    tail = log[-_NEAR_END:]
    return next((word.rpartition("/")[2] for word in names if word.rpartition("/")[2] in tail), None)


_NOT_RUNNABLE = 126  # from here on, exit codes have a special meaning in shells
_SIGNALLED = 128
_LAST_SIGNAL = 64


class JudgeInput(NamedTuple):
    """All the evidence about one run of a check."""

    reading: ReportReading | None
    exit_code: int | None
    timed_out: bool
    kind: Kind
    tool: str
    command: tuple[str, ...]
    log: str

    @property
    def counts(self) -> Counts:
        return (self.reading.counts if self.reading else None) or Counts()

    @property
    def details(self) -> tuple[Detail, ...]:
        return self.reading.details if self.reading else ()

    @property
    def failures(self) -> int:
        return self.counts.failed + self.counts.errors


def judge(
    reading: ReportReading | None,
    *,
    exit_code: int | None,
    timed_out: bool = False,
    kind: Kind | None = None,
    tool: str | None = None,
    command: Sequence[str] = (),
    duration_ms: int = 0,
    log: str = "",
    log_path: str | None = None,
    top: str | None = None,
) -> VerificationResult:
    """Judge a check by its report, or by its log without one; a failing exit code is never a pass.

    Files below `top`, the folder of the project, are named relative to it.
    """
    known = _with_parts(reading, tool, log) if reading else recognise.read(log, tool=tool) if log else None
    if kind == "test" and log:
        known = recognise.read_tests(log, known, tool)
    case = JudgeInput(
        known,
        exit_code,
        timed_out,
        kind or (known.kind if known else "custom"),
        tool or (known.tool if known else None) or (command[0].rpartition("/")[2] if command else "the check"),
        tuple(command),
        log,
    )
    verdict = _verdict(case)
    return VerificationResult(
        ok=verdict.type == "passed",
        type=verdict.type,
        summary=verdict.summary,
        details=_relative(case.details, top) if top else case.details,
        suggestion=verdict.next_step,
        kind=case.kind,
        tool=tool or (known.tool if known else None),
        command=case.command,
        exit_code=exit_code,
        duration_ms=duration_ms,
        counts=case.counts,
        tests=_relative_ids(known.tests, top) if known else {},
        log_path=log_path,
    )


def _with_parts(reading: ReportReading, tool: str | None, log: str) -> ReportReading:
    """Return the reading in which a test is passed if only a part of it was skipped."""
    known = by_name().get(tool or reading.tool)
    skipped = [name for name, outcome in reading.tests.items() if outcome == "skipped"]
    if known is None or known.output.passed_in_log is None or not skipped or reading.counts is None:
        return reading
    passed = known.output.passed_in_log(log).intersection(skipped)
    counts = {"passed": reading.counts.passed + len(passed), "skipped": max(0, reading.counts.skipped - len(passed))}
    return reading._replace(
        tests={**reading.tests, **dict.fromkeys(passed, "passed")}, counts=reading.counts.model_copy(update=counts)
    )


def _relative(details: Sequence[Detail], top: str) -> tuple[Detail, ...]:
    prefix = f"{top.rstrip('/')}/"
    return tuple(
        item.model_copy(
            update={"file": (item.file or "").removeprefix(prefix) or None, "test": _without(item.test, prefix)}
        )
        if prefix in f"{item.file} {item.test}"
        else item
        for item in details
    )


def _relative_ids(tests: Mapping[str, Outcome], top: str | None) -> dict[str, Outcome]:
    """Return the outcomes by ids that do not begin with the folder of the project."""
    return (
        {_without(name, f"{top.rstrip('/')}/") or name: outcome for name, outcome in tests.items()}
        if top
        else {**tests}
    )


def _without(name: str | None, prefix: str) -> str | None:
    return name.removeprefix(prefix) if name else name


def _verdict(case: JudgeInput) -> ResultVerdict:
    """Return the verdict of the first rule that applies."""
    for rule in (
        _late,
        _counted_in_exit_code,
        _signalled,
        _absent,
        _unread,
        _untested,
        _incomplete,
        _tested,
        _complained,
    ):
        if verdict := rule(case):
            return verdict
    return messages.passed(case.tool, case.counts, case.details)


def _late(case: JudgeInput) -> ResultVerdict | None:
    return messages.late(case.tool) if case.timed_out else None


def _counted_in_exit_code(case: JudgeInput) -> ResultVerdict | None:
    """Recognise runners that exit with the number of failures, which may look like a signal or a missing command."""
    collected = case.reading is not None and case.reading.collected
    if collected and (case.exit_code or 0) >= _NOT_RUNNABLE and case.exit_code == min(case.failures, 255):
        return messages.tests_failed(case.counts, case.details)
    return None


def _signalled(case: JudgeInput) -> ResultVerdict | None:
    code = case.exit_code or 0
    number = -code if code < 0 else code - _SIGNALLED
    if code >= 0 and not 0 < number <= _LAST_SIGNAL:
        return None
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return messages.killed(case.tool, name, case.counts)


def _absent(case: JudgeInput) -> ResultVerdict | None:
    if case.reading and (case.reading.tests or case.failures or case.counts.passed):
        return None  # it ran, so "not found" in its output is about something else
    script = _NO_SCRIPT.search(case.log) if case.exit_code != 0 else None
    if script:
        return messages.no_script(script["name"])
    name = tool(case.exit_code, case.log, case.command, case.tool)
    return messages.absent(name) if name else None


def _unread(case: JudgeInput) -> ResultVerdict | None:
    if case.reading:
        return None
    if case.kind == "test" and _none_collected(case):
        return messages.no_tests(case.tool)
    if case.exit_code is None:
        return messages.unknown()
    if case.kind == "test":
        return messages.without_result(case.tool, case.exit_code)
    if case.exit_code == 0:
        return None
    return messages.failed_unread(case.tool, case.exit_code, case.kind, case.log)


def _untested(case: JudgeInput) -> ResultVerdict | None:
    """Reject a test run whose report contains no test results; a warning in a log is not a result."""
    if case.kind != "test" or case.reading is None or case.reading.counts is not None:
        return None
    if case.reading.kind == "build" and case.exit_code and case.details:
        return messages.not_built(case.tool, case.details)
    return messages.without_result(case.tool, case.exit_code)


def _is_complete(case: JudgeInput) -> bool:
    return not any(item.rule == CUT for item in case.details)


def _incomplete(case: JudgeInput) -> ResultVerdict | None:
    if case.reading is None or case.reading.collected:
        return None
    if not _is_complete(case):
        return messages.cut(case.tool, case.details)
    if case.reading.kind == "build":
        return messages.not_built(case.tool, case.details)
    return messages.not_collected(case.counts, case.details)


def _tested(case: JudgeInput) -> ResultVerdict | None:
    if case.reading is None or case.reading.counts is None:
        return None
    if case.failures:
        return messages.tests_failed(case.counts, case.details)
    ran = case.counts.passed + case.counts.xfailed or sum(
        outcome == "xfailed" for outcome in case.reading.tests.values()
    )
    if not ran:
        return messages.all_skipped(case.counts) if case.counts.skipped else messages.no_tests(case.tool)
    if _none_collected(case):
        return messages.no_tests(case.tool)
    return messages.contradicted(case.tool, case.counts, case.exit_code) if case.exit_code else None


def _none_collected(case: JudgeInput) -> bool:
    """Return True if the exit code is the one by which the tool says that it collected no test."""
    tool = by_name().get(case.tool)
    return tool is not None and case.exit_code is not None and case.exit_code == tool.output.none_collected


def _complained(case: JudgeInput) -> ResultVerdict | None:
    if case.reading is None or case.reading.counts is not None:
        return None
    if case.exit_code == 0 and case.kind in ("build", "custom"):
        return None  # the build succeeded despite the warnings
    errors = [item for item in case.details if item.severity == "error"]
    if case.exit_code == 0 and not errors:
        return None
    counted = {"error"} if case.reading.kind == "build" else {"error", "warning"}  # warnings do not fail a build
    if case.exit_code is None and not [item for item in case.details if item.severity in counted]:
        return None
    if not case.details:
        return messages.failed_unread(case.tool, case.exit_code or 0, case.kind, case.log)
    return _of_details(case, case.reading)


def _of_details(case: JudgeInput, reading: ReportReading) -> ResultVerdict:
    if reading.tool == UNKNOWN_TOOL and not any(item.line for item in case.details):
        return messages.reported(case.details)
    kind = case.kind if case.kind in FAILURES else reading.kind
    return messages.complained(FAILURES.get(kind, "build_failure"), case.tool, case.details)
