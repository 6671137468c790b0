"""Read the output of prove: a heading for each test file, below it the file's TAP, at the end a summary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.reports import failure, report_builder, tap
from reflectloop.verification.reports.report_builder import COLLECTION, ReportBuilder
from reflectloop.verification.reports.runner import RunnerReading
from reflectloop.verification.result import Detail

_RESULT = lazy(r"^Result: (?:PASS|FAIL|NOTESTS)$", re.MULTILINE)
_HEADING = lazy(r"^(?P<file>\S.*?\S) \.{2,} ?(?P<rest>ok|skipped: .*|)(?:\s+\d+ ms)?$")
_SUMMARY = lazy(r"^Test Summary Report$|^All tests successful\.|^Files=\d+, Tests=\d+")
_SUMMED = lazy(r"^(?P<file>\S.*?\S)\s+\(Wstat: .*\bTests: (?P<tests>\d+) Failed: (?P<failed>\d+)\)$")
_BAD = lazy(r"^(?:Dubious, test returned \d+|Failed \d+/\d+ subtests|No subtests run|Parse errors: )")
# `#   Failed test 'name'` and `#   at t/a.t line 5.` are on one line if the test has no name.
_FAILED = lazy(r"^\s*#\s+Failed test(?: '(?P<name>.*)')?(?: at (?P<file>.+) line \d+\.)?$")
_UNNAMED = lazy(r"^test \d+$")  # as the reader of TAP calls a test without a name
_AT = lazy(r"^\s*#\s+at (?P<file>.+) line (?P<line>\d+)\.$")
_ERROR = lazy(r"^(?P<what>.+?) at (?P<file>\S.*?) line (?P<line>\d+)(?:\.|, .*)$")
_LONGEST_TEXT = 30  # lines


class _FileOutput(NamedTuple):
    """The lines that prove printed for one test file."""

    file: str
    rest: str  # what the heading says of the whole file
    lines: list[str]

    @property
    def is_bad(self) -> bool:
        """True if prove did not accept the file."""
        return any(_BAD.match(line) for line in self.lines)


def read(text: str, lines: list[str]) -> RunnerReading | None:
    """Read the output, with or without `--verbose`; return None if it is not prove's."""
    ends = [match.end() for match in _RESULT.finditer(text)]
    if not ends:
        return None
    report = ReportBuilder("prove")
    texts = _failure_texts(lines)
    summed = {match["file"]: match for line in lines if (match := _SUMMED.match(line))}
    for output in _files(lines):
        _read_file(output, report, texts)
        if output.is_bad:
            _read_bad_file(output, report, summed.get(output.file), lines)
    if not report.tests and "Result: NOTESTS" not in text:
        report.cut("it names no test file")
    return RunnerReading(report.reading(), ends[-1])


def _files(lines: list[str]) -> Iterator[_FileOutput]:
    outputs: list[_FileOutput] = []
    for line in lines:
        if heading := _HEADING.match(line):
            outputs.append(_FileOutput(heading["file"], heading["rest"], []))
        elif _SUMMARY.match(line):
            break
        elif outputs:
            outputs[-1].lines.append(line)
    for output in outputs:
        if "ok" in output.lines and not output.is_bad:  # what prove says of the file comes after its tests
            del output.lines[len(output.lines) - 1 - output.lines[::-1].index("ok")]
        yield output


def _read_file(output: _FileOutput, report: ReportBuilder, texts: dict[tuple[str, str], list[str]]) -> None:
    """Add the tests that the output of one file names; without `--verbose` it names none, and the file is the test."""
    if output.rest:
        report.test(output.file, "passed" if output.rest == "ok" else "skipped")
        return
    reading = tap.read("\n".join(output.lines), output.lines)
    for name, outcome in reading.tests.items():
        test = f"{output.file}::{name}"
        if outcome != "failed":
            report.test(test, outcome)
            continue
        messages = texts.get((output.file, _UNNAMED.sub("", name.rpartition(" > ")[2])))
        report.test(test, outcome, failure.detail(test, "", messages.pop(0) if messages else f"{test} failed"))


def _read_bad_file(output: _FileOutput, report: ReportBuilder, summed: re.Match[str] | None, log: list[str]) -> None:
    """Make the file itself a failed test, unless a test that it names says why prove did not accept it."""
    names = [name for name in report.tests if name.startswith(f"{output.file}::")]
    failed = int(summed["failed"]) if summed else 0
    complete = tap.read("\n".join(output.lines), output.lines).collected
    if complete and any(report.tests[name] == "failed" for name in names):
        return
    loaded = bool(names or (summed and int(summed["tests"])))
    if failed and not names:  # not verbose
        error = report_builder.detail(f"{failed} of its tests failed", file=output.file, test=output.file)
        report.test(output.file, "failed", error)
    else:
        report.test(output.file, "error", _early_end(output, log, loaded=loaded))
    report.collected = report.collected and loaded


def _early_end(output: _FileOutput, log: list[str], *, loaded: bool) -> Detail:
    """Return why a file ended before its last test: the first error of Perl that names the file, if there is one."""
    rule = None if loaded else COLLECTION
    for line in log:
        error = _ERROR.match(line)
        if error and error["file"] == output.file and not line.lstrip().startswith("#"):
            return report_builder.detail(
                error["what"], file=output.file, line=int(error["line"]), rule=rule, test=output.file
            )
    return report_builder.detail("it ended before its last test", file=output.file, rule=rule, test=output.file)


def _failure_texts(lines: list[str]) -> dict[tuple[str, str], list[str]]:
    """Return what Test::More printed on standard error for failed tests, in order, by file and name."""
    texts: dict[tuple[str, str], list[str]] = {}
    for number, line in enumerate(lines):
        begun = _FAILED.match(line)
        if not begun:
            continue
        block = [line]
        for following in lines[number + 1 : number + _LONGEST_TEXT]:
            if not following.lstrip().startswith("#") or _FAILED.match(following):
                break
            block.append(following)
        place = next((match for row in block if (match := _AT.match(row))), None)
        file = begun["file"] or (place["file"] if place else "")
        text = "\n".join(row.strip().lstrip("# ") for row in block)
        texts.setdefault((file, begun["name"] or ""), []).append(text)
    return texts
