"""Call the engine for `verify` and `gate`, and render its verdict. `--help` does not load this module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reflectloop.cli.interrupts import as_interrupts
from reflectloop.cli.progress import observe
from reflectloop.cli.render import Answer, Note, both_results, heading, paint, without_name
from reflectloop.engine.gating import verify_command
from reflectloop.engine.gating.verify_command import VerifyRequest
from reflectloop.errors import InvalidInput
from reflectloop.system import files
from reflectloop.terms import Decision, OutcomeWord, describe_level
from reflectloop.verification.result import PROBED

if TYPE_CHECKING:  # they load all that judges; a change that was proven before needs none of it
    from reflectloop.engine.gating.gate_command import GateResult
    from reflectloop.engine.gating.remembered import ProvenBefore
    from reflectloop.verification.result import TamperFinding
    from reflectloop.verification.verdict import CheckComparison, Verdict

__all__ = ["VerifyRequest", "gate", "verify"]

_GRADES = {"weakening": "red", "suspect": "yellow", "note": "dim"}
_COLOURS = {
    OutcomeWord.PASS: "green",
    OutcomeWord.REVIEW: "yellow",
    OutcomeWord.REFUSED: "red",
    OutcomeWord.NOT_JUDGED: "yellow",
}
_MOST_ALIKE = 3  # notes on one file by one rule that are shown one by one
_MOST = 20  # findings or reasons shown to a person


def verify(request: VerifyRequest, junit: Path | None, sarif: Path | None) -> Answer:
    """Verify a change, show the progress, and write the verdict to the files that are named."""
    as_interrupts()
    with observe() as observer:
        outcome = verify_command.verify(request, observer)
    verdict = outcome.verdict
    if outcome.before:
        short = tuple(_proven_before(outcome.before, outcome.envelope.warnings))
        return Answer(outcome.before.data, short, envelope=outcome.envelope)
    if verdict is None:
        return Answer(envelope=outcome.envelope, error=outcome.error)
    from reflectloop.engine.gating import verdict_export

    _export(junit, verdict_export.junit(verdict))
    _export(sarif, verdict_export.sarif(verdict))
    lines = (
        *_outcome_lines(verdict),
        *_verdict_lines(verdict, outcome.envelope.warnings),
        Note(_evidence_line(verdict, outcome.envelope.isolation)),
        Note(f"{paint('dim', 'next:')} {outcome.envelope.next}"),
    )
    return Answer(verdict_export.as_data(verdict), lines, envelope=outcome.envelope, error=outcome.error)


def gate(request: VerifyRequest, contract: Path, report: Path | None) -> Answer:
    """Put a change through the gates, and show the progress."""
    from reflectloop.engine.gating import gate_command

    as_interrupts()
    with observe() as observer:
        result = gate_command.gate(gate_command.GateInput(request, contract, report), observer)
    return Answer(result.data, _gate_lines(result), envelope=result.envelope, error=result.error)


def _proven_before(before: ProvenBefore, warnings: list[str]) -> Iterator[Note]:
    """Yield the answer for a change that was proven under the same conditions; nothing ran for it now."""
    level = describe_level(str(before.envelope.get("evidence_level")))
    yield Note(f"{paint('green', str(OutcomeWord.PASS))}: proven before, and nothing changed since")
    yield Note(f"  {before.run_id}, {before.finished}; --fresh runs everything again")
    for check in before.data.get("checks", ()):
        yield Note(f"  {check['name']}: {both_results(check)}")
    yield from (Note(f"{paint('yellow', 'warning:')} {text}") for text in warnings if not text.startswith(PROBED))
    yield Note(paint("dim", f"evidence {level}, isolation {before.envelope.get('isolation')}"))
    yield Note(f"{paint('dim', 'next:')} reflectloop receipt verify {before.run_id}")


def _export(path: Path | None, text: str) -> None:
    if path is None:
        return
    try:
        files.write_atomic(path, text)
    except OSError as fault:
        raise InvalidInput(f"cannot write {path}: {fault.strerror}", next_step="name another file") from fault


def _outcome_lines(verdict: Verdict) -> Iterator[Note]:
    """Yield the outcome, then each reason; one that a person may approve begins with its id, and comes last."""
    from reflectloop.engine.gating import verdict_export

    word, count = verdict.outcome, len(verdict.reasons)
    explained = {
        OutcomeWord.PASS: "",
        OutcomeWord.REVIEW: f": {count} finding{'s' if count > 1 else ''} for a person to approve",
        OutcomeWord.REFUSED: "",
        OutcomeWord.NOT_JUDGED: ": provisional" if verdict.provisional else ": no check could judge the change",
    }[word]
    yield Note(f"{paint(_COLOURS[word], str(word))}{explained}")
    for reason in sorted(verdict.reasons, key=lambda reason: bool(reason.finding))[:_MOST]:
        mark = f"{paint('bold', reason.finding)} " if reason.finding else ""
        yield Note(f"  {mark}{heading(reason.text, reason.details)}")
        for line in reason.details:
            yield Note(f"      {line}")
    if count > _MOST:
        yield Note(f"  and {count - _MOST} more")
    yield from (Note(f"  {line}") for line in verdict_export.failure_lines(verdict))
    for fault in verdict_export.check_faults(verdict):
        yield from (Note(f"  {line}") for line in fault.lines())
    for item in verdict.approved:
        yield Note(f"  {paint('dim', 'approved')} {item.reason.text}; {item.approval}")


def _evidence_line(verdict: Verdict, isolation: str | None) -> str:
    track = f", track {verdict.track}" if verdict.track else ""
    return paint("dim", f"evidence {describe_level(verdict.level)}, isolation {isolation}{track}")


def _verdict_lines(verdict: Verdict, warnings: list[str]) -> Iterator[Note]:
    from reflectloop.verification.intended import PART

    for check in verdict.checks:
        yield Note(_check_line(check))
    for own in verdict.own:
        yield Note(f"  {own.check}, tests of the patch: {own.on_patch.summary}; on base: {own.on_base.summary}")
    if verdict.strength:
        yield Note(f"  strength: {verdict.strength}")
        yield from (Note(f"    not noticed: {text}") for text in verdict.strength.unnoticed)
    reasons = " ".join(reason.text for reason in (*verdict.reasons, *(item.reason for item in verdict.approved)))
    unnamed = [
        finding
        for finding in verdict.findings
        if f"{finding.what} ({finding.rule})" not in reasons and not finding.what.endswith(PART)
    ]
    yield from _notes(unnamed)
    shown = {f"{check.check.name}: {check.left_out}" for check in verdict.checks}
    for warning in warnings:
        if warning.startswith(PROBED):
            yield Note(paint("dim", f"  {warning}"))
        elif warning not in shown:
            yield Note(f"{paint('yellow', 'warning:')} {warning}")


def _notes(findings: Sequence[TamperFinding]) -> Iterator[Note]:
    """Yield what does not count against the change; many places of a file or many files with the same are one line."""
    in_file = Counter((finding.path, finding.rule) for finding in findings)
    single = [finding for finding in findings if in_file[finding.path, finding.rule] <= _MOST_ALIKE]
    alike: dict[tuple[str, str, str], list[TamperFinding]] = {}
    for finding in single:
        alike.setdefault((finding.grade, finding.what, finding.rule), []).append(finding)
    lines = [
        (first.grade, _place(first), f" and {len(group) - 1} more" if len(group) > _MOST_ALIKE else "", first)
        for group in alike.values()
        for first in (group if len(group) <= _MOST_ALIKE else group[:1])
    ]
    for grade, place, more, finding in lines[:_MOST]:
        yield Note(f"  {paint(_GRADES[grade], grade)} {place}{more}: {finding.what} ({finding.rule})")
    if len(lines) > _MOST:
        yield Note(f"  and {len(lines) - _MOST} more")
    for (path, rule), number in in_file.items():
        if number > _MOST_ALIKE:
            yield Note(f"  {paint('dim', 'note')} {path}: {number} places ({rule})")


def _place(finding: TamperFinding) -> str:
    return f"{finding.path}:{finding.line}" if finding.line else finding.path


def _check_line(check: CheckComparison) -> str:
    change = check.comparison
    name = check.check.name
    on_base = without_name(name, check.base.summary) if check.base else "not run"
    result = check.left_out or f"{without_name(name, check.sealed.summary)}; on base: {on_base}"
    counts = [
        text
        for names, text in (
            (change.fixed, f"{len(change.fixed)} fixed"),
            (change.newly_failing, f"{len(change.newly_failing)} newly failing"),
            (change.vanished, f"{len(change.vanished)} gone"),
            (change.now_skipped, f"{len(change.now_skipped)} skipped now"),
            (change.pre_existing, f"{len(change.pre_existing)} failing before and now"),
            (change.flaky, f"{len(change.flaky)} flaky"),
        )
        if names
    ]
    return f"  {check.check.name}: {result}" + (f" ({', '.join(counts)})" if counts else "")


def _gate_lines(result: GateResult) -> Iterator[Note]:
    from reflectloop.engine.gating import verdict_export
    from reflectloop.gates.decisions import Gate

    names = {Gate.RULES: "rules", Gate.PROOF: "proof", Gate.INSIGHT: "insight", Gate.STORE: "retention"}
    word = OutcomeWord(result.data["outcome"])
    yield Note(paint(_COLOURS[word], str(word)))
    for stage in result.data["gates"]:
        outcome = OutcomeWord(stage["outcome"])
        shown = stage["decision"] if stage["decision"] == Decision.SKIP else outcome
        yield Note(f"  {names[stage['gate']]}: {paint(_COLOURS[outcome], shown)} {stage['why_skipped'] or ''}".rstrip())
        for reason in stage["reasons"][:_MOST]:
            mark = f"{paint('bold', reason['finding'])} " if reason["finding"] else ""
            repair = f"; {reason['mend']}" if reason["mend"] else ""
            yield Note(f"    {mark}{heading(reason['text'], reason['details'])}{repair}")
            yield from (Note(f"        {line}") for line in reason["details"])
        for text in stage["feedback"]:
            yield Note(f"    {paint('dim', 'feedback')} {text}")
    for item in result.data["approved"]:
        yield Note(f"  {paint('dim', 'approved')} {item['text']}; {item['approval']}")
    for fault in verdict_export.check_faults(result.verdict) if result.verdict else ():
        yield from (Note(line) for line in fault.lines())
    for warning in result.envelope.warnings:
        yield Note(f"{paint('yellow', 'warning:')} {warning}")
    if result.data["level"]:
        yield Note(paint("dim", f"evidence {describe_level(result.data['level'])}"))
    yield Note(paint("dim", f"report: {result.folder / 'gates.md'}"))
    yield Note(f"{paint('dim', 'next:')} {result.envelope.next}")
