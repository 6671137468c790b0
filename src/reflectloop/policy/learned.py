"""Propose rules from a failure: which rules are refused, and drafts from commands and added lines. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reflectloop.policy.options import split
from reflectloop.policy.rulefile import PolicyRuleEntry, faults_of, matches_sample
from reflectloop.policy.simple_command import SimpleCommand, of_argv
from reflectloop.system import patterns

Command = str | tuple[str, ...]
PREFIX = "learned"
# Ordinary work of every project; a rule that matches all of it would stop everything.
_ORDINARY = ("true", "ls", "git status", "make test", "python3 -m pytest -q", "npm test", "cat README.md", "echo done")
_ORDINARY_LINES = ("README.md: # A title", "src/app.py: import os", "src/index.js: const a = 1;", "docs/a.txt: words")
# Programs that only prepare for the next one.
_PREPARING = frozenset(": true false cd echo printf export set unset source . test [ [[ mkdir sleep".split())
_WORD = patterns.lazy(r"[^\s|*$`]+")
_LONGEST = 200  # characters of a line that a draft is made from
_SHORTEST = 4
_MOST_SAMPLES = 5


def faults(entry: PolicyRuleEntry) -> list[str]:
    """Return why a rule cannot be proposed."""
    if not entry.not_match:
        return [f"rule '{entry.id}' has no 'not_match' samples: add a command that it must not match"]
    broken = faults_of(entry)
    ordinary = _ORDINARY_LINES if entry.rule.kind == "added" else _ORDINARY
    if not broken and all(matches_sample(entry.rule, sample) for sample in ordinary):
        return [f"rule '{entry.id}' stops everything, also {ordinary[0]!r}"]
    return broken


def of_command(command: Command) -> Iterator[dict[str, Any]]:
    """Yield rule fields that distinguish this command from others, the most specific first, without samples."""
    for simple in _simple(command):
        if simple.program and simple.program not in _PREPARING:
            yield from _drafts(simple)


def _simple(command: Command) -> Sequence[SimpleCommand]:
    if not isinstance(command, str):
        return [of_argv(command)]
    from reflectloop.policy import shell  # noqa: PLC0415 - loads the parser

    return shell.read(command).commands


def _drafts(simple: SimpleCommand) -> Iterator[dict[str, Any]]:
    program = {"program": (simple.program,)}
    rest = split(simple.words[1:]).rest
    sub = {"sub": (rest[0].text,)} if rest and rest[0].known and _WORD.fullmatch(rest[0].text) else {}
    named = [text.partition("=")[0] for text in simple.texts[1:] if text.startswith("-")]
    flags = {"flags": tuple(dict.fromkeys(flag for flag in named if _WORD.fullmatch(flag)))} if named else {}
    if sub and flags:
        yield {**program, **sub, **flags}
    yield from ({**program, **part} for part in (sub, flags) if part)
    values = [word.text for word in simple.words[1:] if word.known and (word in rest or "=" in word.text)]
    yield from ({**program, "args": f"^{_escaped(text)}$"} for text in values if 0 < len(text) <= _LONGEST)
    if not simple.words[1:]:
        yield program


def _escaped(text: str) -> str:
    """Return a text as a pattern with as few backslashes as possible, because people read it."""
    return re.sub(r"[\\.^$*+?()\[\]{}|]", r"\\\g<0>", text)


def of_addition(path: str, text: str) -> Iterator[dict[str, Any]]:
    """Yield rule fields that distinguish an added line, or a path if `text` is empty, from others."""
    if not text:
        yield {"files": f"^{_escaped(path)}$"}
    elif _SHORTEST <= len(text.strip()) <= _LONGEST:
        ending = posixpath.splitext(path)[1]
        files = {"files": f"{_escaped(ending)}$"} if ending else {}
        yield {**files, "line": rf"^\s*{_escaped(text.strip())}\s*$"}


def entry(
    fields: dict[str, Any], *, id_: str, reason: str, match: Iterable[str], not_match: Iterable[str]
) -> PolicyRuleEntry:
    """Return a draft as a rule with verdict `confirm`, because one failure proves no more."""
    counterexamples = tuple(dict.fromkeys(not_match))[:_MOST_SAMPLES]
    samples = {
        "match": tuple(dict.fromkeys(match))[:_MOST_SAMPLES],
        "not_match": counterexamples or (_harmless(fields),),
    }
    return PolicyRuleEntry(id=id_, verdict="confirm", reason=reason, **fields, **samples)


def _harmless(fields: dict[str, Any]) -> str:
    return f"{fields['program'][0]} --help" if "program" in fields else "README.md: words"


def name(fields: dict[str, Any], mark: str) -> str:
    """Return a rule id that says what the rule is about."""
    parts = [*fields.get("program", ()), *fields.get("sub", ()), *([fields["files"]] if "files" in fields else [])]
    plain = "-".join(re.findall(r"[a-z0-9]+", " ".join(parts).lower()))[:40].strip("-")
    return f"{PREFIX}.{plain or 'change'}-{mark[:6]}"
