"""Read a file of policy rules. Every rule contains samples, and a rule that contradicts its samples is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import re2
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from reflectloop import rulefiles
from reflectloop.errors import Fault
from reflectloop.plan import strict_yaml
from reflectloop.policy import additions, builtin_rules
from reflectloop.policy.checks import CHECKS
from reflectloop.policy.commands import CommandPolicy
from reflectloop.policy.path_classes import Place
from reflectloop.policy.rule import PolicyRule, Verb, compiled
from reflectloop.policy.simple_command import LONGEST
from reflectloop.rulefiles import refused
from reflectloop.terms import dotted, wrong_shape

Text = Annotated[str, Field(min_length=1)]
Texts = tuple[Text, ...]
_PATTERNS = ("args", "code", "files", "line", "unless")
_WIDTH = 110


class PolicyRuleEntry(BaseModel):
    """One rule as written in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*(\.[a-z0-9-]+)+$")]
    verdict: Verb
    reason: Text
    program: Texts = ()
    sub: Texts = ()
    flags: Texts = ()
    without: Texts = ()
    args: str = ""
    place: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()
    check: str = ""
    language: Texts = ()
    code: str = ""
    files: str = ""
    line: str = ""
    unless: str = ""
    reach: Literal["", "folder"] = ""
    match: Annotated[Texts, Field(min_length=1)]
    not_match: Texts = ()

    @model_validator(mode="after")
    def _is_consistent(self) -> PolicyRuleEntry:
        if self.check and self.check not in CHECKS:
            raise ValueError(f"'check' is one of {', '.join(CHECKS)}")
        if bool(self.language) != bool(self.code):
            raise ValueError("'language' and 'code' go together")
        if sum(map(bool, (self.program, self.language, self.line or self.files))) > 1:
            raise ValueError("a rule has either 'program', or 'language' and 'code', or 'line' or 'files'")
        for name in _PATTERNS:
            _compiles(name, getattr(self, name))
        return self

    @property
    def rule(self) -> PolicyRule:
        return PolicyRule(**self.model_dump(exclude={"match", "not_match"}))


def _compiles(name: str, pattern: str) -> None:
    try:
        compiled(pattern)
    except re2.error as fault:
        raise ValueError(f"the pattern of '{name}' is broken: {fault}") from fault


def read(path: Path) -> tuple[PolicyRuleEntry, ...]:
    """Return the rules of a file, or report every fault at once with its line."""
    return parse(rulefiles.read_bytes(path), str(path))


def parse(raw: bytes, name: str) -> tuple[PolicyRuleEntry, ...]:
    """Parse rules from YAML text; `name` is used in error messages."""
    try:
        document = strict_yaml.parse(raw)
    except strict_yaml.UnreadableYaml as fault:
        raise refused(name, [fault.fault]) from fault
    if document.faults:
        raise refused(name, document.faults)
    rules = document.value.get("rules") if isinstance(document.value, dict) else None
    if not isinstance(rules, list) or list(document.value) != ["rules"]:  # type: ignore[arg-type]
        raise refused(name, [Fault("", None, "a rule file is a mapping with one key, 'rules', and a list below it")])
    faults: list[Fault] = []
    entries = [entry for at, raw_rule in enumerate(rules) if (entry := _entry(at, raw_rule, document, faults))]
    if faults:
        raise refused(name, faults)
    return tuple(entries)


def text(entry: PolicyRuleEntry) -> str:
    """Return a rule as the text of a file; the same rule always gives the same text."""
    fields = entry.model_dump(mode="json", exclude_defaults=True)
    written: str = yaml.safe_dump({"rules": [fields]}, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return written


def _entry(at: int, raw: Any, document: strict_yaml.YamlDocument, faults: list[Fault]) -> PolicyRuleEntry | None:  # noqa: ANN401
    try:
        return PolicyRuleEntry.model_validate(raw)
    except ValidationError as fault:
        for error in fault.errors():
            place = ("rules", at, *error["loc"])
            message = wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
            faults.append(Fault(dotted(place), document.line(place), message))
    return None


def checked(path: Path) -> tuple[PolicyRule, ...]:
    """Return the rules of a user's file; raise if one is broken or contradicts its samples."""
    entries = read(path)
    builtin_ids = {rule.id for rule in builtin_rules.rules()}
    faults = [Fault(entry.id, None, "a built-in rule has this id") for entry in entries if entry.id in builtin_ids]
    faults += [Fault(entry.id, None, fault) for entry in entries for fault in faults_of(entry)]
    if faults:
        raise refused(str(path), faults)
    return tuple(entry.rule for entry in entries)


def faults_of(entry: PolicyRuleEntry) -> list[str]:
    """Return the faults of a rule, checked against its own samples."""
    return rulefiles.sample_faults(
        entry.id, entry.match, entry.not_match, lambda sample: matches_sample(entry.rule, sample)
    )


def matches_sample(rule: PolicyRule, sample: str) -> bool:
    """Return True if this rule alone matches a sample."""
    if rule.kind == "added":
        path, _, line = sample.partition(": ")
        return additions.fits(rule, path, line)
    return bool(SingleRulePolicy(rule).part(sample.replace("{long}", "x " * LONGEST)))


class SingleRulePolicy:
    """A policy that consists of one rule."""

    def __init__(self, rule: PolicyRule) -> None:
        shapes = [other for other in builtin_rules.rules() if other.kind == "shape" and other.id != rule.id]
        self.rule = rule
        self._policy = CommandPolicy((rule, *shapes))

    @property
    def in_workspace(self) -> SingleRulePolicy:
        """Return the same rule for commands that run in a copy of the project."""
        inside = SingleRulePolicy(self.rule)
        inside._policy = self._policy.in_workspace
        return inside

    def part(self, command: str | Sequence[str]) -> str:
        """Return the part of a command that the rule matches; empty if none."""
        if self.rule.kind == "added":
            return ""
        parts = self._policy.look(command)
        return next((part.source or "it" for part in parts if part.verdict.rule == self.rule.id), "")
