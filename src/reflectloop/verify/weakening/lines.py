"""Looks, line by line, at continuous integration, scripts and hooks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from reflectloop.verify.protected import guard
from reflectloop.verify.protected.packages import RUNS_CHECKS
from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening import commands
from reflectloop.verify.weakening.added import Line, stood

_RULES = {"ci": "ci-loosened", "script": "script-changed", "hook": "hook-changed"}
_COMMENT = re.compile(r"(?:^|\s)#.*$|^\s*//.*$|^\s*dnl\b.*$")
_VERSION = re.compile(r"(uses:\s*[\w./-]+|image:\s*[\w./-]+)[@:]\S+|(\brev:).*|(\bv?\d+(?:\.\d+)+\b)")
_HARMLESS = re.compile(
    r"^-?\s*(?:name|description|runs-on|timeout-minutes|rev|default_language_version|autoupdate\w*|ci|cache|permissions|contents|"
    r"id-token|fetch-depth|persist-credentials|python-version|node-version|go-version|java-version|concurrency|group|"
    r"cancel-in-progress|environment|url|path|key|os|default|retention-days|cache-dependency-path|token|with)\b\s*:|"
    r"^-?\s*shell\s*:\s*[\w-]+$"
)
# Leaves out files, branches or events; which of them only a person can tell.
_LEAVES_OUT = re.compile(
    r"^-?\s*(?:exclude|files|stages|if|only|except|when|rules|skip|paths|paths-ignore|branches-ignore|shell|"
    r"continue-on-error|allow_failure)\s*:"
)
# A command that no list knows but that says itself that it tests.
_TESTS = re.compile(
    r"(?i)(?:^|&&|;|run:|script:|-\s)[\s\"'\[]*(?:\.{0,2}/|(?:sudo|node|deno|bun|npx|python3?|sh|bash|php|perl|ruby|java|"
    r"cmake|ninja|meson|just|task|invoke|doit|dotnet|swift|mix|lein|sbt|bazel|zig|docker)\b).{0,200}?"
    r"(?<![a-z])(?:tests?|checks?|lint|specs?|verify|coverage|typecheck)(?![a-z])"
)
# Names a tool without running it: it is installed, or a job or a dependency is called so.
_NO_CHECK = re.compile(r"\binstall\b|^[\w -]+:$|npm ci\b|^-\s*[\w.-]+\s*[<>=~]")
_LETS_PASS = re.compile(r"(?:continue-on-error|allow_failure):\s*(?:\$\{\{\s*)?[\"']?true|^exit\s+0\b")
_PYTHON_HOOKS = ("conftest.py", "sitecustomize.py", "usercustomize.py")


def look(changes: Sequence[Change]) -> Iterator[Finding]:
    for change in changes:
        found = guard(change.path)
        if found is None or found.kind not in _RULES:
            continue
        if change.before is None:
            yield from _fresh(change, _RULES[found.kind])
        elif not change.path.endswith((*_PYTHON_HOOKS, ".pth")):
            yield from _file(change, _RULES[found.kind])


def _fresh(change: Change, rule: str) -> Iterator[Finding]:
    """A new file took nothing away, but a check whose failure it lets pass is none."""
    for line in _read(change.after):
        if _checks(line.text) and commands.LOOSENS.search(line.text):
            yield Finding(rule, change.path, line.number, f"`{line.text[:80]}` lets a failure pass")
        elif rule == "ci-loosened" and _LETS_PASS.search(line.text):
            yield Finding(rule, change.path, line.number, f"`{line.text[:80]}` lets a failure pass", "suspect")


def _checks(text: str) -> bool:
    return bool(RUNS_CHECKS.search(text) or _TESTS.search(text)) and not _NO_CHECK.search(text)


def _file(change: Change, rule: str) -> Iterator[Finding]:
    if change.after is None:
        yield Finding(rule, change.path, None, "the file is gone, and what it checked with it")
        return
    before, after = _read(change.before), _read(change.after)
    come, gone = _without(after, before), _without(before, after)
    for line in come:
        if commands.LOOSENS.search(line.text):
            yield Finding(rule, change.path, line.number, f"`{line.text[:80]}` lets a failure pass")
        elif _LEAVES_OUT.match(line.text):
            yield Finding(rule, change.path, line.number, f"`{line.text[:80]}` may leave something out", "suspect")
    yield from _gone(change, rule, gone, come)


def _read(data: bytes | None) -> list[Line]:
    rows = (data or b"").decode(errors="replace").splitlines()
    stripped = (
        Line(number, _VERSION.sub(r"\1\2", _COMMENT.sub("", row)).strip()) for number, row in enumerate(rows, 1)
    )
    return [line for line in stripped if line.text and not _HARMLESS.match(line.text)]


def _without(lines: Sequence[Line], others: Sequence[Line]) -> list[Line]:
    known = Counter(line.text for line in others)
    left = []
    for line in lines:
        if known[line.text] > 0:
            known[line.text] -= 1
        else:
            left.append(line)
    return left


def _gone(change: Change, rule: str, gone: Sequence[Line], come: Sequence[Line]) -> Iterator[Finding]:
    others = []
    for line in gone:
        if not _checks(line.text):
            others.append(line)
        elif not any(_asks_as_much(line.text, each.text) for each in come):
            words = f"no longer there as it was: `{line.text[:80]}` (line {line.number} before)"
            yield Finding(rule, change.path, stood(change.before, change.after, line.number), words)
    if others:
        first = others[0]
        words = f"{len(others)} line(s) are gone or changed, first `{first.text[:80]}` (line {first.number} before)"
        yield Finding(rule, change.path, stood(change.before, change.after, first.number), words, "suspect")


def _asks_as_much(old: str, new: str) -> bool:
    return (
        commands.command(old.removeprefix("- ").removeprefix("run: "), new.removeprefix("- ").removeprefix("run: "))
        is None
    )
