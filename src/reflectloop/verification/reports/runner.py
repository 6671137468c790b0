"""Read the text output of a test runner that is described by a few patterns."""

from __future__ import annotations

import functools
import re
from functools import cache
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.reports import failure, identity, issues, report_builder
from reflectloop.verification.reports.report_builder import COLLECTION, ReportBuilder
from reflectloop.verification.result import Counts, Detail, ReportReading
from reflectloop.verification.tools.record import TextFormat

_OUTCOME_WORDS = {
    **dict.fromkeys(("passed", "passing", "pass", "passes", "ok", "succeeded", "successes", "success"), "passed"),
    **dict.fromkeys(("xpassed", "unexpected successes"), "xpassed"),
    **dict.fromkeys(("failed", "failing", "failures", "failure", "fail", "fails", "broken"), "failed"),
    **dict.fromkeys(("errors", "error", "errored"), "errors"),
    **dict.fromkeys(("skipped", "skip", "skips", "pending", "ignored", "todo", "disabled", "incomplete"), "skipped"),
    **dict.fromkeys(("risky", "notrunnable", "not run", "omissions", "pendings", "cancelled"), "skipped"),
    **dict.fromkeys(("xfailed", "expected failures", "known failures"), "xfailed"),
    **dict.fromkeys(("tests", "test", "total", "runs", "run", "examples", "example", "specs", "spec"), "total"),
    **dict.fromkeys(
        ("tests run", "total tests", "scenarios", "scenario", "tests completed", "test completed"), "total"
    ),
}
_NAMES = "|".join(sorted((word.replace(" ", r"\s") for word in _OUTCOME_WORDS), key=len, reverse=True))
_PAIRS = lazy(
    rf"\b(?P<before>\d{{1,9}})\s+(?:tests?\s+)?(?P<word>{_NAMES})\b|"
    rf"\b(?P<name>{_NAMES})\s*[:=\]]?\s+?(?P<after>\d{{1,9}})\b(?![ \t]+(?:{_NAMES})\b)|"
    rf"\b(?P<named>{_NAMES})[:=](?P<number>\d{{1,9}})\b",
    re.IGNORECASE,
)
_OUT_OF = lazy(r"\bout of (\d{1,9})\b")


def words(text: str) -> dict[str, int]:
    """Return the number for each kind of outcome, from `3 failed, 12 passed`, `Failures: 3` or `failures=3`."""
    numbers: dict[str, int] = {}
    for match in _PAIRS.finditer(text):
        word = " ".join((match["word"] or match["name"] or match["named"]).lower().split())
        numbers[_OUTCOME_WORDS[word]] = numbers.get(_OUTCOME_WORDS[word], 0) + int(
            match["before"] or match["after"] or match["number"]
        )
    if "total" not in numbers and (total := _OUT_OF.search(text)):
        numbers["total"] = int(total[1])
    return numbers


def counts(totals: dict[str, int]) -> Counts:
    """Convert totals to Counts; tests without another outcome passed, or failed if those that passed are counted."""
    passed = totals.get("passed", 0)
    if {"total", "passed"} <= totals.keys() and not {"failed", "errors"} & totals.keys():
        others = sum(totals.get(word, 0) for word in ("passed", "skipped", "xfailed", "xpassed"))
        totals = totals | {"failed": max(0, totals["total"] - others)}
    if "passed" not in totals and "total" in totals:
        others = sum(totals.get(word, 0) for word in ("failed", "errors", "skipped", "xfailed", "xpassed"))
        passed = totals["total"] - others
        if passed < 0:  # the runner counts subtests as skipped, but not in the total
            passed = max(0, passed + totals.get("skipped", 0))
    return Counts(
        passed=passed + totals.get("xpassed", 0),
        failed=totals.get("failed", 0),
        errors=totals.get("errors", 0),
        skipped=totals.get("skipped", 0),
        xfailed=totals.get("xfailed", 0),
    )


# What programs that test themselves print at their end.
_TALLY_LINE = lazy(
    r"^\W*(?:tests? )?(total|tests|passed|failed|failures|errors|skipped|ignored) *[:=] *(\d{1,9})\W*$", re.IGNORECASE
)
_TALLIES = (
    lazy(
        r"^\W*(?:all|some) tests (?:passed|failed) \((?P<passed>\d{1,9})/(?P<total>\d{1,9})\)", re.IGNORECASE
    ),  # minctest
    lazy(
        r"^\W*(?P<passed>\d{1,9}) ?(?:/|of|out of) ?(?P<total>\d{1,9}) (?:tests?|checks?|test cases) "
        r"(?:have |were )?(?:passed|ok|successful)\b",
        re.IGNORECASE,
    ),
    lazy(r"^\W*(?:all )?(?P<passed>\d{1,9}) (?:tests?|checks?) (?:have )?passed\W*$", re.IGNORECASE),
    lazy(r"^\W*(?P<passed>\d{1,9}) (?:tests? )?passed\W+(?P<failed>\d{1,9}) (?:tests? )?failed\W*$", re.IGNORECASE),
)


def tally(lines: list[str]) -> Counts | None:
    """Return the sum of the numbers that programs without a known framework print, or None if they print none."""
    parts: list[dict[str, int]] = []
    block: dict[str, int] = {}
    for line in lines:
        if match := _TALLY_LINE.match(line):
            word = _OUTCOME_WORDS[match[1].lower()]
            if word in block:
                parts.append(block)
                block = {}
            block[word] = int(match[2])
        elif match := next((match for pattern in _TALLIES if (match := pattern.match(line))), None):
            parts.append({word: int(number) for word, number in match.groupdict().items()})
    # A program that stops at a failure may count nothing else; a lone number of errors may be a compiler's.
    results = [counts(part) for part in (*parts, block) if "passed" in part or part.get("failed")]
    return functools.reduce(report_builder.added, results) if results else None


_LONGEST_BLOCK = 120  # lines
_LONGEST_NAME = 8  # lines
_JOINTS = lazy(r"::| > | › ")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


class RunnerReading(NamedTuple):
    """A reading, and the position in the text at which its totals end."""

    reading: ReportReading
    at: int


def read(runner: TextFormat, output: str, lines: list[str]) -> RunnerReading | None:
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


def _counts(runner: TextFormat, sums: list[str]) -> Counts:
    if not sums:
        return Counts()
    if runner.way == "joined":
        each_word = {re.sub(r"\d+", "", text).split("(")[0]: text for text in sums}  # if repeated, the last one counts
        return counts(words("\n".join(each_word.values())))
    each = [counts(words(text)) for text in sums]
    hidden = any(part.failed or part.errors for part in each) and not (each[-1].failed or each[-1].errors)
    if runner.way == "all" or hidden:  # several runs in one log: a later pass hides no failure
        total = each[0]
        for part in each[1:]:
            total = report_builder.added(total, part)
        return total
    return each[-1]


def _cases(runner: TextFormat, lines: list[str], report: ReportBuilder) -> None:
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
            name = identity.plain(scope, hit[0]["test"].strip())
            report.test(name, hit[1], _on_its_line(name, hit[0]))


def _on_its_line(name: str, case: re.Match[str]) -> Detail | None:
    """Return the failure that a line describes by itself, or None."""
    parts = case.groupdict()
    if not parts.get("message"):
        return None
    return failure.detail(name, parts["message"], case[0], file=parts.get("file"), line=int(parts.get("line") or 0))


def _blocks(runner: TextFormat, lines: list[str]) -> list[Detail]:
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
