"""Read a file of secret rules.

Each rule of a user's file is checked: one that does not match its samples is refused.
"""

from __future__ import annotations

import base64
import random
import re
import string
from pathlib import Path
from typing import Annotated

import re2
from pydantic import BaseModel, ConfigDict, Field, model_validator

from reflectloop import rulefiles
from reflectloop.errors import Fault
from reflectloop.secrets.matcher import Matcher, ScanBlock
from reflectloop.secrets.rule import Grade, SecretRule, compile_pattern, pattern_of
from reflectloop.secrets.validators import CHECKS
from reflectloop.system import patterns

Words = Annotated[tuple[str, ...], Field(min_length=1)]
_FIELD = patterns.lazy(r"\{(\w+)(?::(\d+))?\}")
_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "letters": string.ascii_letters,
    "lower": string.ascii_lowercase,
    "lownum": string.ascii_lowercase + string.digits,
    "upnum": string.ascii_uppercase + string.digits,
    "digits": string.digits,
    "hex": "0123456789abcdef",
    "b32": string.ascii_uppercase + "234567",
    "b32low": string.ascii_lowercase + "234567",
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "base64": string.ascii_letters + string.digits + "+/",
}


class SecretRuleEntry(BaseModel):
    """One rule as written in the file."""

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


def read_rule_file(path: Path) -> tuple[SecretRuleEntry, ...]:
    raw = rulefiles.read_toml(path, ("rule",))
    return rulefiles.entries(path, "rule", raw, SecretRuleEntry)


def load_checked_rules(path: Path) -> tuple[SecretRule, ...]:
    """Return the rules of a user's file; raise if one is broken or contradicts its samples."""
    entries = read_rule_file(path)
    faults = [Fault(fault, None, "") for entry in entries for fault in faults_of(entry)]
    if faults:
        raise rulefiles.refused(str(path), faults)
    return tuple(entry.rule for entry in entries)


def faults_of(entry: SecretRuleEntry) -> list[str]:
    """Return the faults of a rule, checked against its own pattern and samples."""
    rule = entry.rule
    try:
        pattern = compile_pattern(rule.pattern)
        inner = compile_pattern(rule.each) if rule.each else pattern
    except (re2.error, UnicodeEncodeError) as fault:
        return [f"rule '{entry.id}': the pattern is broken: {fault}"]
    groups = next((regex.groups for regex in (pattern, inner) if regex.groups != 1), 1)
    if groups != 1:
        return [f"rule '{entry.id}': the pattern has {groups} groups; it needs one, around the value"]
    if any(match and not match.group(1) for match in map(pattern.search, (b"", b"a b"))):
        return [f"rule '{entry.id}': the pattern matches an empty text"]
    matcher = Matcher([rule])
    return rulefiles.sample_faults(
        entry.id, entry.match, entry.not_match, lambda sample: _matches(matcher, fill_sample(sample, entry.id))
    )


def _matches(matcher: Matcher, text: str) -> bool:
    raw = text.encode()
    return bool(matcher.find(ScanBlock(raw, 0, len(raw))).spans)


def fill_sample(template: str, seed: str) -> str:
    """Fill in every `{kind:length}` of a sample, so that no rule file contains a text that looks like a credential.

    The same seed gives the same text.
    """
    rng = random.Random(seed)  # noqa: S311 - a sample, not a secret

    def fill(field: re.Match[str]) -> str:
        kind, length = field[1], int(field[2] or 0)
        if kind == "uuid":
            return "-".join(_run("hex", size, rng) for size in (8, 4, 4, 4, 12))
        if kind == "login":
            return base64.b64encode(f"acme:{_run('lownum', length, rng)}".encode()).decode()
        return _run(kind, length, rng) if kind in _ALPHABETS else field[0]

    return _FIELD.sub(fill, template)


def _run(kind: str, length: int, rng: random.Random) -> str:
    """Return random characters that include a digit if possible: real tokens do, and rules may require it."""
    alphabet = _ALPHABETS[kind]
    letters = [rng.choice(alphabet) for _ in range(length)]
    if length >= 8 and "7" in alphabet and not any(letter.isdigit() for letter in letters):  # noqa: PLR2004
        letters[length // 2] = "7"
    return "".join(letters)
