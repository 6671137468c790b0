"""Probe the functions that a patch changes: record the calls of the tests, repeat them elsewhere, compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reflectloop.verification.probing import examine as python
from reflectloop.verification.probing.changed import ChangeReport
from reflectloop.verification.probing.examine import ProbeInput, ProbeReport, settle
from reflectloop.verification.probing.javascript import examine as javascript
from reflectloop.verification.probing.second_run import EarlyRuns, SuiteOutcomes
from reflectloop.verification.result import ChangedFile, DetectedCheck

__all__ = ("EarlyRuns", "ProbeInput", "ProbeReport", "SuiteOutcomes", "applies", "examine", "run_early", "settle")


def run_early(case: ProbeInput, suites: Sequence[SuiteOutcomes]) -> Mapping[str, EarlyRuns]:
    """Run quick suites in other surroundings, before their usual outcomes are known; return the runs by language."""
    out: dict[str, EarlyRuns] = {}
    for language in (python, javascript):
        chosen = [suite for suite in suites if suite.is_quick and language.applies(suite.check, case.changes)]
        change = language.changed_functions(case) if chosen else ChangeReport()
        if chosen and case.records(change):
            runs = {item.check.name: language.surroundings(case, item).run_once(change.functions) for item in chosen}
            out[language.LANGUAGE] = EarlyRuns(change, runs)
    return out


def examine(case: ProbeInput) -> ProbeReport:
    """Probe the changed functions of a patch."""
    report, other = python.examine(case), javascript.examine(case)
    report.findings += other.findings
    report.notes += [note for note in other.notes if note not in report.notes]
    report.unproven |= other.unproven
    report.functions += other.functions
    report.general += other.general
    return report


def applies(check: DetectedCheck, changes: Sequence[ChangedFile]) -> bool:
    """Return True if a check's tests are run a second time to probe the patch."""
    return python.applies(check, changes) or javascript.applies(check, changes)
