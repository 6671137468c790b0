"""Looks, line by line, at continuous integration, scripts and hooks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from reflectloop.verify.protected import guard
from reflectloop.verify.protected.packages import RUNS_CHECKS
from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening import commands
from reflectloop.verify.weakening.added import Line

_RULES = {"ci": "ci-loosened", "script": "script-changed", "hook": "hook-changed"}
_COMMENT = re.compile(r"(?:^|\s)#.*$|^\s*//.*$|^\s*dnl\b.*$")
_VERSION = re.compile(r"(uses:\s*[\w./-]+|image:\s*[\w./-]+)[@:]\S+|(\brev:).*|(\bv?\d+(?:\.\d+)+\b)")
_HARMLESS = re.compile(
    r"^-?\s*(?:name|description|runs-on|timeout-minutes|rev|default_language_version|autoupdate\w*|ci|cache|permissions|contents|"
    r"id-token|fetch-depth|persist-credentials|python-version|node-version|go-version|java-version|concurrency|group|"
    r"cancel-in-progress|environment|url|path|key|os|default|retention-days|cache-dependency-path|shell|token|with)\b\s*:"
)
# Leaves out files, branches or events; which of them only a person can tell.
_LEAVES_OUT = re.compile(
    r"^-?\s*(?:exclude|files|stages|if|only|except|when|rules|skip|paths|paths-ignore|branches-ignore)\s*:"
)
# Names a tool without running it: it is installed, or a job or a dependency is called so.
_NO_CHECK = re.compile(r"\binstall\b|^[\w -]+:$|npm ci\b|^-\s*[\w.-]+\s*[<>=~]")
_PYTHON_HOOKS = ("conftest.py", "sitecustomize.py", "usercustomize.py")


def look(changes: Sequence[Change]) -> Iterator[Finding]:
    for change in changes:
        found = guard(change.path)
        if found is None or found.kind not in _RULES or change.before is None:
            continue
        if not change.path.endswith((*_PYTHON_HOOKS, ".pth")):
            yield from _file(change, _RULES[found.kind])


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
    yield from _gone(change.path, rule, gone, come)


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


def _gone(path: str, rule: str, gone: Sequence[Line], come: Sequence[Line]) -> Iterator[Finding]:
    others = []
    for line in gone:
        if not RUNS_CHECKS.search(line.text) or _NO_CHECK.search(line.text):
            others.append(line)
        elif not any(_asks_as_much(line.text, each.text) for each in come):
            yield Finding(
                rule, path, None, f"no longer there as it was: `{line.text[:80]}` (line {line.number} before)"
            )
    if others:
        words = (
            f"{len(others)} line(s) are gone or changed, first `{others[0].text[:80]}` (line {others[0].number} before)"
        )
        yield Finding(rule, path, None, words, "suspect")


def _asks_as_much(old: str, new: str) -> bool:
    return (
        commands.command(old.removeprefix("- ").removeprefix("run: "), new.removeprefix("- ").removeprefix("run: "))
        is None
    )
