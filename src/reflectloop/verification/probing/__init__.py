"""Probe the functions that a patch changes: record the calls of the tests, repeat them elsewhere, compare."""

from reflectloop.verification.probing.examine import ProbeInput, ProbeReport, settle
from reflectloop.verification.probing.languages import applies, examine, run_early
from reflectloop.verification.probing.second_run import EarlyRuns, SuiteOutcomes

__all__ = ("EarlyRuns", "ProbeInput", "ProbeReport", "SuiteOutcomes", "applies", "examine", "run_early", "settle")
