"""Probe a patch in each language that can be probed, and join the reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reflectloop.verification.probing import examine as python
from reflectloop.verification.probing.examine import ProbeInput, ProbeReport
from reflectloop.verification.probing.javascript import examine as javascript
from reflectloop.verification.probing.second_run import EarlyRuns, SuiteOutcomes
from reflectloop.verification.result import ChangedFile, DetectedCheck


def run_early(case: ProbeInput, suites: Sequence[SuiteOutcomes]) -> Mapping[str, EarlyRuns]:
    """Run suites in other surroundings, before their usual outcomes are known; return the runs by language."""
    runs = {language.LANGUAGE: language.run_early(case, suites) for language in (python, javascript)}
    return {name: early for name, early in runs.items() if early is not None}


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
