"""Reads the text of a test runner that is described by a few patterns."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

from reflectloop.verify.reports import failure, identity, issues, numbers, tally
from reflectloop.verify.reports.tally import COLLECTION, Tally
from reflectloop.verify.result import Counts, Detail, Outcome, Reading

_LONGEST_BLOCK = 120  # lines
_LONGEST_NAME = 8  # lines
_JOINTS = re.compile(r"::| > | › ")


class Runner(NamedTuple):
    """How one runner writes.

    `sums`, `unloaded` and `empty` are searched in the whole text, so none may begin with white space that crosses
    lines; the others are searched line by line.
    """

    name: str
    marks: tuple[str, ...]  # one of these must occur for the runner to be considered at all
    sums: str  # the text with the numbers
    way: Literal["last", "all", "joined"] = "last"  # one sum; one for each part; one in several lines
    folded: tuple[str, str] = ("", "")  # what is written over two lines, and how it is read as one
    cases: tuple[tuple[str, Outcome], ...] = ()
    scope: str = ""  # a line that says in what the tests after it lie
    flat: bool = False  # such a line holds until the next, however it is indented
    closing: str = ""  # the line after which tests are told again
    block: str = ""  # the line with which a failure's text begins
    ends: str = ""  # the line with which the failures end
    stacked: bool = False  # the name of a failure is written over several lines, the last with a colon
    unloaded: str = ""  # a line that says tests could not be gathered
    empty: str = ""  # a line that says there were none


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


class Said(NamedTuple):
    """A reading, and how far in the text its sum stands."""

    reading: Reading
    at: int


def read(runner: Runner, shown: str, lines: list[str]) -> Said | None:
    if not any(mark in shown for mark in runner.marks):
        return None
    sums = [(found.end(), found[0]) for found in _compiled(runner.sums).finditer(shown)]
    empty = _compiled(runner.empty).search(shown) if runner.empty else None
    unloaded = _compiled(runner.unloaded).search(shown) if runner.unloaded else None
    if not sums and not empty and not unloaded:
        return None
    noted = Tally(runner.name)
    if runner.folded[0]:
        lines = _compiled(runner.folded[0]).sub(runner.folded[1], shown).splitlines()
    _cases(runner, lines, noted)
    for problem in _named(_blocks(runner, lines), noted):
        noted.issue(problem)
    if unloaded:
        _not_loaded(noted, unloaded, lines)
    _without_text(noted)
    at = max([place for place, _ in sums] + [found.end() for found in (empty, unloaded) if found])
    return Said(noted.reading(_counts(runner, [text for _, text in sums])), at)


def _counts(runner: Runner, sums: list[str]) -> Counts:
    if not sums:
        return Counts()
    if runner.way == "joined":
        each_word = {re.sub(r"\d+", "", text).split("(")[0]: text for text in sums}  # said twice, the last holds
        return numbers.counts(numbers.words("\n".join(each_word.values())))
    each = [numbers.counts(numbers.words(text)) for text in sums]
    hidden = any(one.failed or one.errors for one in each) and not (each[-1].failed or each[-1].errors)
    if runner.way == "all" or hidden:  # several runs in one log: what failed earlier is not undone by what passed later
        whole = each[0]
        for one in each[1:]:
            whole = numbers.added(whole, one)
        return whole
    return each[-1]


def _cases(runner: Runner, lines: list[str], noted: Tally) -> None:
    within: list[tuple[int, str]] = []  # what the line lies in, by indentation
    cases = [(_compiled(pattern), outcome) for pattern, outcome in runner.cases]
    for line in lines:
        if runner.closing and _compiled(runner.closing).search(line):
            break
        indent = len(line) - len(line.lstrip())
        hit = next(((found, outcome) for pattern, outcome in cases if (found := pattern.search(line))), None)
        if hit is None and not (runner.scope and _compiled(runner.scope).search(line)):
            continue
        ended = hit is not None and (indent, hit[0]["test"].strip()) in within
        within = [one for one in within if one[0] < indent]
        if ended:
            continue
        if hit is None:
            inside = _compiled(runner.scope).search(line)["test"].strip()  # type: ignore[index]
            within = [(-1, inside)] if runner.flat else [*within, (indent, inside)]
        else:
            scope = " > ".join(name for _, name in within)
            noted.test(identity.plain(scope, hit[0]["test"].strip()), hit[1])


def _blocks(runner: Runner, lines: list[str]) -> list[Detail]:
    if not runner.block:
        return []
    begins, ends = _compiled(runner.block), _compiled(runner.ends) if runner.ends else None
    found: list[Detail] = []
    name, start = "", -1
    for number, line in enumerate([*lines, ""]):
        begun = begins.search(line)
        if start >= 0 and (begun or number == len(lines) or (ends and ends.search(line))):
            text = "\n".join(lines[start : min(number, start + _LONGEST_BLOCK)])
            if text.strip():
                found.append(failure.detail(name, "", text))
            start = -1
        if begun:
            name, start = begun["test"].strip(), number + 1
            if runner.stacked:
                name, start = _stacked(name, lines, start)
        if len(found) >= tally.MOST_DETAILS:
            break
    return found


def _stacked(name: str, lines: list[str], start: int) -> tuple[str, int]:
    parts = [name]
    for number in range(start, min(start + _LONGEST_NAME, len(lines))):
        if parts[-1].endswith(":"):
            return " ".join(parts).removesuffix(":"), number
        parts.append(lines[number].strip())
    return name, start


def _named(problems: list[Detail], noted: Tally) -> list[Detail]:
    """Each once, under the name its test has."""
    known: dict[str, str] = {}
    for name in (name for name, outcome in noted.tests.items() if outcome in {"failed", "error"}):
        parts = _JOINTS.split(name)
        known.update({" ".join(parts[start:]): name for start in range(len(parts))})
    named = [
        one.model_copy(update={"test": known.get(" ".join(_JOINTS.split(one.test or "")), one.test)})
        for one in problems
    ]
    return list({(one.test, one.file, one.line, one.error): one for one in named}.values())


def _not_loaded(noted: Tally, unloaded: re.Match[str], lines: list[str]) -> None:
    noted.collected = False
    noted.details = [
        one.model_copy(update={"rule": COLLECTION}) if _is_file(one.test or "", unloaded[0]) else one
        for one in noted.details
    ]
    if not noted.details:
        for problem in issues.details(lines)[:50]:
            noted.issue(problem)
    if not noted.details:
        noted.issue(tally.detail(unloaded[0], rule=COLLECTION))


def _is_file(name: str, unloaded: str) -> bool:
    """Whether what failed is a file that was not loaded, by the names runners give to such."""
    return bool(name) and (name in unloaded or "_FailedTest" in name or name.endswith(" ]"))


def _without_text(noted: Tally) -> None:
    """A failing test about which no text was found is still told."""
    told = " ".join(one.test or "" for one in noted.details)
    for name, outcome in noted.tests.items():
        if outcome in {"failed", "error"} and name.rpartition("::")[2] not in told:
            noted.issue(tally.detail(f"{outcome}: {name}", test=name))
