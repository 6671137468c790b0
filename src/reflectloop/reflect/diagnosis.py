"""Says what most likely caused a failure, from what is known of the attempt and from whole lines of its output."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from reflectloop.errors import Internal, VerificationFailed
from reflectloop.reflect import facts, lines, record, rulefile, signature
from reflectloop.reflect.lines import Line
from reflectloop.reflect.record import KINDS, Category, Diagnosis, FailureRecord
from reflectloop.reflect.rule import Entry, Hit, Rules, asserts
from reflectloop.verify.result import Detail, VerificationResult

_MOST_DETAILS = 50  # kept in a record; the result has them all
_EXCERPT = 12  # lines
_LONGEST = 400
# What a failing test itself raised. An assertion's text may hold anything, and says nothing of the machine.
_RAISED = re.compile(
    r"(?:[\w$]+\.)*(?:[A-Z]\w*)?(?:Error|Exception|Timeout|TimeoutExpired|Interrupt|gaierror|herror)\b|"
    r"Failed: Timeout|test timed out"
)
_SAYS_NOTHING = {"failed", "test failed", "error", "failure", ""}  # of runners that start a file as a whole
_QUIET = re.compile(r"\[?(?:INFO|DEBUG|TRACE|NOTE|note|info|debug|hint|help|Note)\b")
_BEYOND_TESTS: set[Category] = {"ENV", "PERMISSION", "EXTERNAL", "TOOL"}
_TELLING = re.compile(
    r"(?i)\b(?:error|fatal|failed|failure|cannot|can't|could not|unable|denied|refused|not found|no such|invalid|"
    r"missing|unknown|exception|panic(?:ked)?|abort(?:ed)?|killed)\b|\w(?:Error|Exception)\b"
)


class Attempt(NamedTuple):
    """What the engine knows beside the output."""

    code: str | None = None  # published; None: told from the result
    step: str | None = None
    attempt: int = 1
    command: str | None = None
    tree: str | None = None
    times_seen: int = 0  # this signature, before


@cache
def shipped() -> Rules:
    return Rules(rulefile.shipped().rules)


def with_own(own: Sequence[Entry]) -> Rules:
    """A user's rules before the shipped ones: where both know a line, the user's decides."""
    return Rules((*own, *rulefile.shipped().rules)) if own else shipped()


def diagnose(
    data: bytes | str, result: VerificationResult, *, rules: Rules | None = None, about: Attempt | None = None
) -> FailureRecord | None:
    """The record of a failure; None where there is none. What is unclear is a failure of which little is known."""
    if result.ok:
        return None
    about = about or Attempt()
    said = lines.of(data)
    code = about.code or facts.code_of(result)
    found = _by_output(said, result, rules or shipped())
    told = facts.known(result)
    if told and (found is None or told.certain or found.rule.rank >= told.rank):
        category, diagnosis, hit = told.category, told.diagnosis, None
    elif found:
        category, diagnosis, hit = found.rule.category, found.diagnosis, found
    else:
        category, diagnosis, hit = _by_outcome(result), facts.unexplained(result), None
    name = signature.of(_said(said, result, found, about))
    return _record(about, result, code, category, diagnosis, hit, name, _excerpt(said, diagnosis))


def bare(message: str, about: Attempt, category: Category = "EXECUTION") -> FailureRecord:
    """The record of what stopped without any output to read: by its code where that says enough."""
    code = about.code or Internal.code
    category, needs = record.by_code(code) or (category, KINDS[category].needs)
    return FailureRecord(
        code=code,
        category=category,
        needs=needs,
        error_class=record.class_of(category, code=code, times_seen=about.times_seen + 1),
        tool_error_type=KINDS[category].tool_error,
        transient=KINDS[category].transient,
        signature=signature.of([f"{code} {message}"]),
        step=about.step,
        attempt=about.attempt,
        command=about.command,
        log_excerpt=message,
        tree=about.tree,
    )


def _record(
    about: Attempt,
    result: VerificationResult,
    code: str,
    category: Category,
    diagnosis: Diagnosis,
    hit: Hit | None,
    name: str,
    excerpt: str,
) -> FailureRecord:
    if category == "EXECUTION" and about.code == VerificationFailed.code:
        category, hit = "LOGIC", None  # that a check does not hold is known, whatever it printed
    needs = hit.rule.need if hit else KINDS[category].needs
    if decided := record.by_code(code):
        (category, needs), hit = decided, None
    return FailureRecord(
        code=code,
        category=category,
        needs=needs,
        error_class=record.class_of(category, code=code, times_seen=about.times_seen + 1),
        tool_error_type=hit.rule.tool_error_type if hit else KINDS[category].tool_error,
        transient=hit.rule.passes if hit else KINDS[category].transient,
        signature=name,
        step=about.step,
        attempt=about.attempt,
        command=about.command or (" ".join(result.command) or None),
        exit_code=result.exit_code,
        details=result.details[:_MOST_DETAILS],
        log_excerpt=excerpt,
        tree=about.tree,
        diagnosis=diagnosis,
    )


def _by_output(said: Sequence[Line], result: VerificationResult, rules: Rules) -> Hit | None:
    if result.type == "test_failure":
        return _by_tests(result.details, said, rules)
    told = dict.fromkeys([line.core for line in said] + [lines.core(one.error) for one in result.details])
    hits = [hit for core in told if not _QUIET.match(core) for hit in rules.hits(core)]
    return min(hits, key=lambda hit: hit.rule.rank, default=None)  # the first of the lowest rank


def _by_outcome(result: VerificationResult) -> Category:
    """A log of no tool we know, in which places are named, is no linter's."""
    return "EXECUTION" if result.type == "lint" and result.tool in {None, "log"} else record.by_outcome(result.type)


def _by_tests(details: Sequence[Detail], said: Sequence[Line], rules: Rules) -> Hit | None:
    """What most failing tests raised, where it is not the tests' own affair."""
    if details and all(one.error.lower() in _SAYS_NOTHING for one in details):
        hits = [_raised(line.core, rules) for line in said]
        return next((hit for hit in hits if hit), None)
    raised = [_raised(lines.core(one.error), rules) for one in details]
    if not raised:
        return None
    rule, times = Counter(hit.rule.id if hit else None for hit in raised).most_common(1)[0]
    return next((hit for hit in raised if hit and hit.rule.id == rule and 2 * times > len(raised)), None)


def _raised(core: str, rules: Rules) -> Hit | None:
    if not _RAISED.match(core) or asserts(core):
        return None
    hits = [hit for hit in rules.hits(core) if hit.rule.category in _BEYOND_TESTS]
    return min(hits, key=lambda hit: hit.rule.rank, default=None)


def _said(said: Sequence[Line], result: VerificationResult, found: Hit | None, about: Attempt) -> list[str]:
    """What names the failure: a tool's complaints, the line that was understood, or those that sound like it."""
    complaints = [signature.said_by(one) for one in result.details if one.severity == "error"]
    if result.type == "test_failure" and complaints:
        return complaints
    if found:
        return [found.line, *_where(found, result.details)]
    if complaints:
        return complaints
    telling = [line.core for line in said if _TELLING.search(line.core[:_LONGEST])]
    last = next((line.core for line in reversed(said) if line.core), "")
    return telling[-3:] or [last or f"{about.command or result.type} exit_{result.exit_code}"]


def _where(found: Hit, details: Sequence[Detail]) -> list[str]:
    """The file that is wrong, where a file is: what is missing on a machine is so wherever it was missed."""
    if found.rule.category in _BEYOND_TESTS:
        return []
    return [signature.said_by(one) for one in details if one.file and lines.core(one.error) == found.line][:1]


def _excerpt(said: Sequence[Line], diagnosis: Diagnosis) -> str:
    """The lines around what was understood, else the last."""
    texts = [line.text.rstrip()[:_LONGEST] for line in said if line.text.strip()]
    cores = [line.core for line in said if line.text.strip()]
    at = cores.index(diagnosis.line) if diagnosis.line in cores else len(texts)
    start = max(0, min(at - _EXCERPT // 2, len(texts) - _EXCERPT))
    return "\n".join(texts[start : start + _EXCERPT])
