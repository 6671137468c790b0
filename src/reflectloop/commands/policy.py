"""`policy`: judge and explain commands by the project's policy, and list its rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import config, policy
from reflectloop.errors import InvalidInput, UnsupportedRepository
from reflectloop.policy import CommandPolicy, PolicyVerdict, builtin_rules
from reflectloop.policy.rule import PolicyRule
from reflectloop.workspace import project


def active_policy(start: Path) -> CommandPolicy:
    """Return the policy of the project around a folder; the built-in one if there is no project."""
    try:
        root = project.locate(start)
    except UnsupportedRepository:
        return policy.default()
    return policy.of(config.load(root).policy, root)


class CommandPart(NamedTuple):
    """One part of a command, as `explain` shows it."""

    command: str
    through: tuple[str, ...]
    verdict: PolicyVerdict
    match: tuple[str, ...]
    not_match: tuple[str, ...]


def explain(rules: CommandPolicy, command: str | tuple[str, ...]) -> Iterator[CommandPart]:
    samples = _samples()
    for part in rules.look(command):
        match, not_match = samples.get(part.verdict.rule or "", ((), ()))
        yield CommandPart(part.source, part.through, part.verdict, match, not_match)


def _samples() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    from reflectloop.policy import rulefile  # noqa: PLC0415 - reading rule files is slow and rarely needed

    entries = (entry for path in builtin_rules.files() for entry in rulefile.read(path))
    return {entry.id: (entry.match, entry.not_match) for entry in entries}


def rows(rules: CommandPolicy) -> list[dict[str, Any]]:
    return [_row(rule, allowed=rule.id in rules.allowed) for rule in rules.rules]


def _row(rule: PolicyRule, *, allowed: bool) -> dict[str, Any]:
    return {"id": rule.id, "verdict": rule.verdict, "reason": rule.reason, "about": rule.kind, "allowed": allowed}


def answer(rules: CommandPolicy, question: dict[str, Any], line: int) -> dict[str, Any]:
    """Answer one line of a batch: the verdict on a command, with the same id."""
    command = question.get("command")
    is_argv = isinstance(command, list) and all(isinstance(word, str) for word in command)
    if not (isinstance(command, str) or is_argv):
        raise InvalidInput(f"line {line}: 'command' must be a shell line or a list of words")
    verdict = rules.judge(command)  # type: ignore[arg-type]
    return {"id": question.get("id"), **as_data(verdict)}


def as_data(verdict: PolicyVerdict) -> dict[str, Any]:
    return {**verdict._asdict(), "through": list(verdict.through), "where": verdict.where[:500]}
