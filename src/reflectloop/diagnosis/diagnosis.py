"""Find the most likely cause of a failure, from the facts of the attempt and from complete lines of its output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from reflectloop.diagnosis import exit_code_rules, failure_record, lines, rulefile, signature
from reflectloop.diagnosis.failure_record import KINDS, Category, Diagnosis, ErrorClass, FailureRecord, Needs
from reflectloop.diagnosis.lines import OutputLine
from reflectloop.diagnosis.rule import DiagnosisRuleEntry, RuleMatch, Rules, asserts
from reflectloop.errors import Internal, VerificationFailed
from reflectloop.system.patterns import lazy
from reflectloop.verification.result import Detail, VerificationResult

_MOST_DETAILS = 50  # stored in a record; the result has all of them
_EXCERPT = 12  # lines
_LONGEST = 400
# An exception a failing test raised. The text of an assertion says nothing about the machine.
_RAISED = lazy(
    r"(?:[\w$]+\.)*(?:[A-Z]\w*)?(?:Error|Exception|Timeout|TimeoutExpired|Interrupt|gaierror|herror)\b|"
    r"Failed: Timeout|test timed out"
)
_UNINFORMATIVE = {"failed", "test failed", "error", "failure", ""}  # from runners that report only whole files
_QUIET = lazy(r"\[?(?:INFO|DEBUG|TRACE|NOTE|note|info|debug|hint|help|Note)\b")
_MISSING_WORDS = lazy(r"(?i)not found|no module|import ?error|cannot import|\bversions?\b|incompatible")
_CHECK_WORDS = lazy(r"(?i)\bassert|\bexpected\b|tests? failed|\bFAILED \(")
_BEYOND_TESTS: set[Category] = {"ENV", "PERMISSION", "EXTERNAL", "TOOL"}
_INFORMATIVE = lazy(
    r"(?i)\b(?:error|fatal|failed|failure|cannot|can't|could not|unable|denied|refused|not found|no such|invalid|"
    r"missing|unknown|exception|panic(?:ked)?|abort(?:ed)?|killed)\b|\w(?:Error|Exception)\b"
)


class FailedCommand(NamedTuple):
    """The engine's knowledge of an attempt, besides its output."""

    code: str | None = None  # published code; None: derived from the result
    step: str | None = None
    attempt: int = 1
    command: str | None = None
    tree: str | None = None
    times_seen: int = 0  # previous occurrences of this signature


@cache
def shipped() -> Rules:
    """Return the built-in rules, compiled."""
    return Rules(rulefile.shipped().rules)


def with_own(user_rules: Sequence[DiagnosisRuleEntry]) -> Rules:
    """Return a user's rules followed by the built-in ones; if both match a line, the user's decides."""
    return Rules((*user_rules, *rulefile.shipped().rules)) if user_rules else shipped()


def diagnose(
    data: bytes | str, result: VerificationResult, *, rules: Rules | None = None, about: FailedCommand | None = None
) -> FailureRecord | None:
    """Return the record of a failure, or None if the result is ok. An unclear result counts as a failure."""
    return None if result.ok else diagnose_failed(data, result, rules=rules, about=about)


def diagnose_failed(
    data: bytes | str, result: VerificationResult, *, rules: Rules | None = None, about: FailedCommand | None = None
) -> FailureRecord:
    """Return the record of a failure whose result is not ok."""
    about = about or FailedCommand()
    log_lines = lines.of(data)
    code = about.code or exit_code_rules.code_of(result)
    match = _by_output(log_lines, result, rules or shipped())
    exit_facts = exit_code_rules.known(result)
    if exit_facts and (match is None or exit_facts.certain or match.rule.rank >= exit_facts.rank):
        category, diagnosis, hit = exit_facts.category, exit_facts.diagnosis, None
    elif match:
        category, diagnosis, hit = match.rule.category, match.diagnosis, match
    else:
        category, diagnosis, hit = _by_outcome(result), exit_code_rules.unexplained(result), None
    name = signature.of(_identifying_lines(log_lines, result, match, about))
    return _record(about, result, code, category, diagnosis, hit, name, _excerpt(log_lines, diagnosis))


def bare(message: str, about: FailedCommand, category: Category = "EXECUTION") -> FailureRecord:
    """Return the record of a failure without output, judged by its code if that is sufficient."""
    code = about.code or Internal.code
    category, needs = failure_record.by_code(code) or (category, KINDS[category].needs)
    return FailureRecord(
        code=code,
        category=category,
        needs=needs,
        error_class=failure_record.class_of(category, code=code, times_seen=about.times_seen + 1),
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
    about: FailedCommand,
    result: VerificationResult,
    code: str,
    category: Category,
    diagnosis: Diagnosis,
    hit: RuleMatch | None,
    name: str,
    excerpt: str,
) -> FailureRecord:
    if category == "EXECUTION" and about.code == VerificationFailed.code:
        category, hit = "LOGIC", None  # the check failed, whatever it printed
    needs = hit.rule.need if hit else KINDS[category].needs
    if hit or category == "EXECUTION":
        category, needs = _by_words(hit.line if hit else excerpt, category, needs, explained=hit is not None)
    if decided := failure_record.by_code(code):
        (category, needs), hit = decided, None
    return FailureRecord(
        code=code,
        category=category,
        needs=needs,
        error_class=_class_of(category, code, about.times_seen + 1, result.exit_code),
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


def _class_of(category: Category, code: str, times: int, exit_code: int | None) -> ErrorClass:
    """Return the error class; what a signal ended was interrupted, whatever it printed before."""
    usual = failure_record.class_of(category, code=code, times_seen=times)
    return ErrorClass.PIPELINE if exit_code_rules.is_signal(exit_code) and usual is ErrorClass.DECISION else usual


def _by_words(text: str, category: Category, needs: Needs, *, explained: bool) -> tuple[Category, Needs]:
    """Apply the protocol's table of words where the failure needs a new plan or research, and no fact says which.

    In a line that a rule explains, only words about something missing count; in other output also those of a check.
    """
    if needs not in ("REPLAN", "RESEARCH"):
        return category, needs
    if _MISSING_WORDS.search(text):
        return "ENV" if category == "EXECUTION" else category, "RESEARCH"
    if not explained and _CHECK_WORDS.search(text):
        return "LOGIC" if category == "EXECUTION" else category, "REPLAN"
    return category, needs


def _by_output(log_lines: Sequence[OutputLine], result: VerificationResult, rules: Rules) -> RuleMatch | None:
    if result.type == "test_failure":
        return _by_tests(result.details, log_lines, rules)
    cores = dict.fromkeys([line.core for line in log_lines] + [lines.core(detail.error) for detail in result.details])
    hits = [hit for core in cores if not _QUIET.match(core) for hit in rules.hits(core)]
    return min(hits, key=lambda hit: hit.rule.rank, default=None)  # the first one with the lowest rank


def _by_outcome(result: VerificationResult) -> Category:
    """Return the category of the outcome; locations in a log of an unknown tool do not make it a linter."""
    return (
        "EXECUTION"
        if result.type == "lint" and result.tool in {None, "log"}
        else failure_record.by_outcome(result.type)
    )


def _by_tests(details: Sequence[Detail], log_lines: Sequence[OutputLine], rules: Rules) -> RuleMatch | None:
    """Return what most failing tests raised, if the cause lies outside the tests."""
    if details and all(detail.error.lower() in _UNINFORMATIVE for detail in details):
        hits = [_raised(line.core, rules) for line in log_lines]
        return next((hit for hit in hits if hit), None)
    raised = [_raised(lines.core(detail.error), rules) for detail in details]
    if not raised:
        return None
    rule, times = Counter(hit.rule.id if hit else None for hit in raised).most_common(1)[0]
    return next((hit for hit in raised if hit and hit.rule.id == rule and 2 * times > len(raised)), None)


def _raised(core: str, rules: Rules) -> RuleMatch | None:
    if not _RAISED.match(core) or asserts(core):
        return None
    hits = [hit for hit in rules.hits(core) if hit.rule.category in _BEYOND_TESTS]
    return min(hits, key=lambda hit: hit.rule.rank, default=None)


def _identifying_lines(
    log_lines: Sequence[OutputLine], result: VerificationResult, match: RuleMatch | None, about: FailedCommand
) -> list[str]:
    """Return the lines that identify the failure: reported errors, the recognised line, or error-like lines."""
    complaints = [signature.said_by(detail) for detail in result.details if detail.severity == "error"]
    if result.type == "test_failure" and complaints:
        return complaints
    if match:
        return [match.line, *_where(match, result.details)]
    if complaints:
        return complaints
    informative = [line.core for line in log_lines if _INFORMATIVE.search(line.core[:_LONGEST])]
    last = next((line.core for line in reversed(log_lines) if line.core), "")
    return informative[-3:] or [last or f"{about.command or result.type} exit_{result.exit_code}"]


def _where(match: RuleMatch, details: Sequence[Detail]) -> list[str]:
    """Return the faulty file for a fault in a file; for a problem of the machine the place does not matter."""
    if match.rule.category in _BEYOND_TESTS:
        return []
    return [signature.said_by(detail) for detail in details if detail.file and lines.core(detail.error) == match.line][
        :1
    ]


def _excerpt(log_lines: Sequence[OutputLine], diagnosis: Diagnosis) -> str:
    """Return the lines around the recognised line, or the last lines."""
    texts = [line.text.rstrip()[:_LONGEST] for line in log_lines if line.text.strip()]
    cores = [line.core for line in log_lines if line.text.strip()]
    at = cores.index(diagnosis.line) if diagnosis.line in cores else len(texts)
    start = max(0, min(at - _EXCERPT // 2, len(texts) - _EXCERPT))
    return "\n".join(texts[start : start + _EXCERPT])
