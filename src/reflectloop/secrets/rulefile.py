"""Reads a file of rules. A user's file is checked rule by rule: a rule that does not find its samples is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import re2
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from reflectloop.errors import Fault, InvalidInput
from reflectloop.secrets.matcher import Matcher, ScanBlock
from reflectloop.secrets.rule import Grade, SecretRule, compiled, pattern_of
from reflectloop.secrets.samples import filled
from reflectloop.secrets.validators import CHECKS
from reflectloop.system import beneath

Words = Annotated[tuple[str, ...], Field(min_length=1)]


class SecretRuleEntry(BaseModel):
    """One rule as it is written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    description: str
    keywords: tuple[str, ...] = ()
    regex: str | None = None
    format: str | None = None
    near: str | None = None
    value: str | None = None
    grade: Grade = "likely"
    entropy: Annotated[float, Field(ge=0, le=8)] = 0.0
    check: str = ""
    lines: Annotated[int, Field(ge=1, le=50)] = 1
    each: str = ""
    match: Words
    not_match: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_form(self) -> SecretRuleEntry:
        forms = [self.regex, self.format, self.value and self.near]
        if sum(form is not None for form in forms) != 1:
            raise ValueError("a rule has either 'regex', or 'format', or 'near' and 'value'")
        if self.check and self.check not in CHECKS:
            raise ValueError(f"'check' is one of {', '.join(CHECKS)}")
        return self

    @property
    def rule(self) -> SecretRule:
        pattern = pattern_of(self.model_dump(exclude_none=True))
        check = self.check or ("near" if self.near else "value")
        return SecretRule(self.id, self.keywords, pattern, self.grade, self.entropy, check, self.lines, self.each)


class RuleFile(NamedTuple):
    entries: tuple[SecretRuleEntry, ...]

    @property
    def rules(self) -> tuple[SecretRule, ...]:
        return tuple(entry.rule for entry in self.entries)


def written(path: Path) -> dict[str, Any]:
    """A file of rules as TOML says it."""
    try:
        return tomllib.loads(beneath.read_path(path).decode())
    except OSError as fault:
        raise InvalidInput(f"cannot read the rules in {path}: {fault.strerror}") from fault
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise InvalidInput(f"{path} is not TOML: {fault}", next_step=f"correct {path}") from fault


def read(path: Path) -> RuleFile:
    raw = written(path)
    unknown = sorted(set(raw) - {"rule"})
    if unknown:
        raise InvalidInput(f"{path} has unknown keys: {', '.join(unknown)}; rules are written as [[rule]]")
    return RuleFile(tuple(_entry(path, number, entry) for number, entry in enumerate(raw.get("rule", ()), 1)))


def _entry(path: Path, number: int, entry: dict[str, Any]) -> SecretRuleEntry:
    try:
        return SecretRuleEntry.model_validate(entry)
    except ValidationError as fault:
        name = entry.get("id", f"number {number}")
        faults = tuple(
            Fault(
                f"rule {name}: " + ".".join(str(part) for part in error["loc"]), None, error["msg"], InvalidInput.code
            )
            for error in fault.errors()
        )
        raise InvalidInput(
            f"{path}: rule '{name}' is not usable", next_step=f"correct {path}", faults=faults
        ) from fault


def checked(path: Path) -> tuple[SecretRule, ...]:
    """A user's rules; raises when one is broken, or does not do what its samples say."""
    found = read(path)
    faults = [fault for entry in found.entries for fault in faults_of(entry)]
    if faults:
        raise InvalidInput(
            f"{path}: {len(faults)} fault(s) in its rules",
            next_step=f"correct {path}",
            faults=tuple(Fault(fault, None, "", InvalidInput.code) for fault in faults),
        )
    return found.rules


def faults_of(entry: SecretRuleEntry) -> list[str]:
    """What is wrong with a rule, judged by its own pattern and samples."""
    rule = entry.rule
    try:
        pattern = compiled(rule.pattern)
        inner = compiled(rule.each) if rule.each else pattern
    except (re2.error, UnicodeEncodeError) as fault:
        return [f"rule '{entry.id}': the pattern is broken: {fault}"]
    groups = next((each.groups for each in (pattern, inner) if each.groups != 1), 1)
    if groups != 1:
        return [f"rule '{entry.id}': the pattern has {groups} groups; it needs one, around the value"]
    if any(found and not found.group(1) for found in map(pattern.search, (b"", b"a b"))):
        return [f"rule '{entry.id}': the pattern finds an empty text"]
    matcher = Matcher([rule])
    missed = [one for one in entry.match if not _found(matcher, filled(one, entry.id))]
    wrong = [one for one in entry.not_match if _found(matcher, filled(one, entry.id))]
    return [f"rule '{entry.id}': does not find its sample {one!r}" for one in missed] + [
        f"rule '{entry.id}': finds what it should not: {one!r}" for one in wrong
    ]


def _found(matcher: Matcher, text: str) -> bool:
    raw = text.encode()
    return bool(matcher.find(ScanBlock(raw, 0, len(raw))).spans)
