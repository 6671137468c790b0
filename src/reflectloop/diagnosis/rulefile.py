"""Read files of rules and policies, refusing a user's rule that contradicts its own samples."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import re2
from pydantic import BaseModel, ValidationError

from reflectloop.diagnosis import lines
from reflectloop.diagnosis.retry_policy import RetryPolicy
from reflectloop.diagnosis.rule import DiagnosisRuleEntry, Rules
from reflectloop.errors import Fault, InvalidInput
from reflectloop.secrets.rulefile import written

SHIPPED = tuple(sorted((Path(__file__).parent / "rules").glob("*.toml")))
_KEYS = ("rule", "policy")
Written = TypeVar("Written", bound=BaseModel)


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
    raw = written(path)
    unknown = sorted(set(raw) - set(_KEYS))
    if unknown or not all(isinstance(raw.get(key, []), list) for key in _KEYS):
        what = f"unknown keys: {', '.join(unknown)}; " if unknown else ""
        raise InvalidInput(f"{path}: {what}rules are written as [[rule]] and policies as [[policy]]")
    return DiagnosisTable(_entries(path, "rule", raw, DiagnosisRuleEntry), _entries(path, "policy", raw, RetryPolicy))


def _entries(path: Path, key: str, raw: dict[str, Any], model: type[Written]) -> tuple[Written, ...]:
    return tuple(_entry(path, f"{key} {number}", entry, model) for number, entry in enumerate(raw.get(key, ()), 1))


def _entry(path: Path, place: str, entry: object, model: type[Written]) -> Written:
    try:
        return model.model_validate(entry)
    except ValidationError as fault:
        name = entry.get("id") or entry.get("tool") if isinstance(entry, dict) else None
        label = f"{place} ({name})" if name else place
        faults = tuple(
            Fault(".".join([label, *map(str, error["loc"])]), None, error["msg"], InvalidInput.code)
            for error in fault.errors()
        )
        raise InvalidInput(f"{path}: {label} is not usable", next_step=f"correct {path}", faults=faults) from fault


def checked(path: Path) -> DiagnosisTable:
    """Read a user's file; raise InvalidInput if a rule is broken or contradicts its samples."""
    table = read(path)
    faults = [fault for entry in table.rules for fault in faults_of(entry)]
    if faults:
        raise InvalidInput(
            f"{path}: {len(faults)} fault(s) in its rules",
            next_step=f"correct {path}",
            faults=tuple(Fault(fault, None, "", InvalidInput.code) for fault in faults),
        )
    return table


def faults_of(entry: DiagnosisRuleEntry) -> list[str]:
    """Return what is wrong with a rule, judged by its own pattern and samples."""
    try:
        rules = Rules([entry])
    except re2.error as fault:
        return [f"rule '{entry.id}': the pattern is broken: {fault}"]
    if rules.hits("x") or rules.hits("all went well"):
        return [f"rule '{entry.id}': the pattern matches any line"]
    missed = [sample for sample in entry.match if not rules.hits(lines.core(sample))]
    wrong = [sample for sample in entry.not_match if rules.hits(lines.core(sample))]
    return [f"rule '{entry.id}': does not find its sample {sample!r}" for sample in missed] + [
        f"rule '{entry.id}': finds what it should not: {sample!r}" for sample in wrong
    ]
