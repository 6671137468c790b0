"""Read the text output of a test runner that is described by a few patterns."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

from reflectloop.verification.reports import failure, identity, issues, numbers, report_builder
from reflectloop.verification.reports.report_builder import COLLECTION, ReportBuilder
from reflectloop.verification.result import Counts, Detail, Outcome, ReportReading

_LONGEST_BLOCK = 120  # lines
_LONGEST_NAME = 8  # lines
_JOINTS = re.compile(r"::| > | › ")


class RunnerFormat(NamedTuple):
    """The patterns that describe one runner's output.

    `sums`, `unloaded` and `empty` are searched in the whole text, so none may begin with white space that crosses
    lines; the others are searched line by line.
    """

    name: str
    marks: tuple[str, ...]  # one of these must occur, or the runner is not considered
    sums: str  # the totals line
    way: Literal["last", "all", "joined"] = "last"  # one totals line; one per part; one spread over lines
    folded: tuple[str, str] = ("", "")  # a pattern spanning two lines, and its one-line replacement
    cases: tuple[tuple[str, Outcome], ...] = ()
    scope: str = ""  # a line that names the suite of the tests below it
    flat: bool = False  # a scope line applies until the next one, whatever its indentation
    closing: str = ""  # the line after which tests are listed a second time
    block: str = ""  # the first line of a failure's text
    ends: str = ""  # the line after the last failure
    stacked: bool = False  # a failure's name spans several lines; the last ends with a colon
    unloaded: str = ""  # a line that reports tests that could not be loaded
    empty: str = ""  # a line that reports that there were no tests


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


class RunnerReading(NamedTuple):
    """A reading, and the position in the text at which its totals end."""

    reading: ReportReading
    at: int


def read(runner: RunnerFormat, output: str, lines: list[str]) -> RunnerReading | None:
    """Read the output of this runner, or return None if the text is not its output."""
    if not any(mark in output for mark in runner.marks):
        return None
    sums = [(match.end(), match[0]) for match in _compiled(runner.sums).finditer(output)]
    empty = _compiled(runner.empty).search(output) if runner.empty else None
    unloaded = _compiled(runner.unloaded).search(output) if runner.unloaded else None
    if not sums and not empty and not unloaded:
        return None
    report = ReportBuilder(runner.name)
    if runner.folded[0]:
        lines = _compiled(runner.folded[0]).sub(runner.folded[1], output).splitlines()
    _cases(runner, lines, report)
    for problem in _named(_blocks(runner, lines), report):
        report.issue(problem)
    if unloaded:
        _not_loaded(report, unloaded, lines)
    _without_text(report)
    at = max([place for place, _ in sums] + [match.end() for match in (empty, unloaded) if match])
    return RunnerReading(report.reading(_counts(runner, [text for _, text in sums])), at)


def _counts(runner: RunnerFormat, sums: list[str]) -> Counts:
    if not sums:
        return Counts()
    if runner.way == "joined":
        each_word = {re.sub(r"\d+", "", text).split("(")[0]: text for text in sums}  # if repeated, the last one counts
        return numbers.counts(numbers.words("\n".join(each_word.values())))
    each = [numbers.counts(numbers.words(text)) for text in sums]
    hidden = any(part.failed or part.errors for part in each) and not (each[-1].failed or each[-1].errors)
    if runner.way == "all" or hidden:  # several runs in one log: a later pass hides no failure
        total = each[0]
        for part in each[1:]:
            total = numbers.added(total, part)
        return total
    return each[-1]


def _cases(runner: RunnerFormat, lines: list[str], report: ReportBuilder) -> None:
    within: list[tuple[int, str]] = []  # the enclosing scopes, by indentation
    cases = [(_compiled(pattern), outcome) for pattern, outcome in runner.cases]
    for line in lines:
        if runner.closing and _compiled(runner.closing).search(line):
            break
        indent = len(line) - len(line.lstrip())
        hit = next(((match, outcome) for pattern, outcome in cases if (match := pattern.search(line))), None)
        if hit is None and not (runner.scope and _compiled(runner.scope).search(line)):
            continue
        ended = hit is not None and (indent, hit[0]["test"].strip()) in within
        within = [outer for outer in within if outer[0] < indent]
        if ended:
            continue
        if hit is None:
            inside = _compiled(runner.scope).search(line)["test"].strip()  # type: ignore[index]
            within = [(-1, inside)] if runner.flat else [*within, (indent, inside)]
        else:
            scope = " > ".join(name for _, name in within)
            report.test(identity.plain(scope, hit[0]["test"].strip()), hit[1])


def _blocks(runner: RunnerFormat, lines: list[str]) -> list[Detail]:
    if not runner.block:
        return []
    begins, ends = _compiled(runner.block), _compiled(runner.ends) if runner.ends else None
    details: list[Detail] = []
    name, start = "", -1
    for number, line in enumerate([*lines, ""]):
        begun = begins.search(line)
        if start >= 0 and (begun or number == len(lines) or (ends and ends.search(line))):
            text = "\n".join(lines[start : min(number, start + _LONGEST_BLOCK)])
            if text.strip():
                details.append(failure.detail(name, "", text))
            start = -1
        if begun:
            name, start = begun["test"].strip(), number + 1
            if runner.stacked:
                name, start = _stacked(name, lines, start)
        if len(details) >= report_builder.MOST_DETAILS:
            break
    return details


def _stacked(name: str, lines: list[str], start: int) -> tuple[str, int]:
    parts = [name]
    for number in range(start, min(start + _LONGEST_NAME, len(lines))):
        if parts[-1].endswith(":"):
            return " ".join(parts).removesuffix(":"), number
        parts.append(lines[number].strip())
    return name, start


def _named(problems: list[Detail], report: ReportBuilder) -> list[Detail]:
    """Give each detail the full name of its test, and drop duplicates."""
    known: dict[str, str] = {}
    for name in (name for name, outcome in report.tests.items() if outcome in {"failed", "error"}):
        parts = _JOINTS.split(name)
        known.update({" ".join(parts[start:]): name for start in range(len(parts))})
    named = [
        item.model_copy(update={"test": known.get(" ".join(_JOINTS.split(item.test or "")), item.test)})
        for item in problems
    ]
    return list({(item.test, item.file, item.line, item.error): item for item in named}.values())


def _not_loaded(report: ReportBuilder, unloaded: re.Match[str], lines: list[str]) -> None:
    report.collected = False
    report.details = [
        item.model_copy(update={"rule": COLLECTION}) if _is_file(item.test or "", unloaded[0]) else item
        for item in report.details
    ]
    if not report.details:
        for problem in issues.details(lines)[:50]:
            report.issue(problem)
    if not report.details:
        report.issue(report_builder.detail(unloaded[0], rule=COLLECTION))


def _is_file(name: str, unloaded: str) -> bool:
    """Return True if the failed entry is a file that did not load, judged by the names runners use."""
    return bool(name) and (name in unloaded or "_FailedTest" in name or name.endswith(" ]"))


def _without_text(report: ReportBuilder) -> None:
    """Add a detail for each failed test that has none."""
    detailed = " ".join(item.test or "" for item in report.details)
    for name, outcome in report.tests.items():
        if outcome in {"failed", "error"} and name.rpartition("::")[2] not in detailed:
            report.issue(report_builder.detail(f"{outcome}: {name}", test=name))
