"""Read files of rules and policies, refusing a user's rule that contradicts its own samples."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import re2

from reflectloop import rulefiles
from reflectloop.diagnosis import lines
from reflectloop.diagnosis.retry_policy import RetryPolicy
from reflectloop.diagnosis.rule import DiagnosisRuleEntry, Rules
from reflectloop.errors import Fault

SHIPPED = tuple(sorted((Path(__file__).parent / "rules").glob("*.toml")))


class DiagnosisTable(NamedTuple):
    """The rules and policies of a file."""

    rules: tuple[DiagnosisRuleEntry, ...] = ()
    policies: tuple[RetryPolicy, ...] = ()


@cache
def shipped() -> DiagnosisTable:
    """Return the built-in rules and policies."""
    tables = [read(path) for path in SHIPPED]
    return DiagnosisTable(
        tuple(rule for table in tables for rule in table.rules),
        tuple(policy for table in tables for policy in table.policies),
    )


def read(path: Path) -> DiagnosisTable:
    raw = rulefiles.read_toml(path, ("rule", "policy"))
    return DiagnosisTable(
        rulefiles.entries(path, "rule", raw, DiagnosisRuleEntry), rulefiles.entries(path, "policy", raw, RetryPolicy)
    )


def checked(path: Path) -> DiagnosisTable:
    """Read a user's file; raise InvalidInput if a rule is broken or contradicts its samples."""
    table = read(path)
    faults = [Fault(fault, None, "") for entry in table.rules for fault in faults_of(entry)]
    if faults:
        raise rulefiles.refused(str(path), faults)
    return table


def faults_of(entry: DiagnosisRuleEntry) -> list[str]:
    """Return what is wrong with a rule, judged by its own pattern and samples."""
    try:
        rules = Rules([entry])
    except re2.error as fault:
        return [f"rule '{entry.id}': the pattern is broken: {fault}"]
    if rules.hits("x") or rules.hits("all went well"):
        return [f"rule '{entry.id}': the pattern matches any line"]
    return rulefiles.sample_faults(
        entry.id, entry.match, entry.not_match, lambda sample: bool(rules.hits(lines.core(sample)))
    )
