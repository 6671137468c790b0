"""Check continuous integration files, scripts and hooks line by line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from reflectloop.verification.protected import guard
from reflectloop.verification.protected.packages import RUNS_CHECKS
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering import commands
from reflectloop.verification.tampering.added import AddedLine, stood

_RULES = {"ci": "ci-loosened", "script": "script-changed", "hook": "hook-changed"}
_COMMENT = re.compile(r"(?:^|\s)#.*$|^\s*//.*$|^\s*dnl\b.*$")
_VERSION = re.compile(r"(uses:\s*[\w./-]+|image:\s*[\w./-]+)[@:]\S+|(\brev:).*|(\bv?\d+(?:\.\d+)+\b)")
_HARMLESS = re.compile(
    r"^-?\s*(?:name|description|runs-on|timeout-minutes|rev|default_language_version|autoupdate\w*|ci|cache|permissions|contents|"
    r"id-token|fetch-depth|persist-credentials|python-version|node-version|go-version|java-version|concurrency|group|"
    r"cancel-in-progress|environment|url|path|key|os|default|retention-days|cache-dependency-path|token|with)\b\s*:|"
    r"^-?\s*shell\s*:\s*[\w-]+$"
)
# Excludes files, branches or events; only a person can judge which.
_LEAVES_OUT = re.compile(
    r"^-?\s*(?:exclude|files|stages|if|only|except|when|rules|skip|paths|paths-ignore|branches-ignore|shell|"
    r"continue-on-error|allow_failure)\s*:"
)
# A command on no list whose own words say that it tests.
_TESTS = re.compile(
    r"(?i)(?:^|&&|;|run:|script:|-\s)[\s\"'\[]*(?:\.{0,2}/|(?:sudo|node|deno|bun|npx|python3?|sh|bash|php|perl|ruby|java|"
    r"cmake|ninja|meson|just|task|invoke|doit|dotnet|swift|mix|lein|sbt|bazel|zig|docker)\b).{0,200}?"
    r"(?<![a-z])(?:tests?|checks?|lint|specs?|verify|coverage|typecheck)(?![a-z])"
)
# Names a tool without running it: an installation, a job name, a dependency.
_NO_CHECK = re.compile(r"\binstall\b|^[\w -]+:$|npm ci\b|^-\s*[\w.-]+\s*[<>=~]")
_LETS_PASS = re.compile(r"(?:continue-on-error|allow_failure):\s*(?:\$\{\{\s*)?[\"']?true|^exit\s+0\b")
_PYTHON_HOOKS = ("conftest.py", "sitecustomize.py", "usercustomize.py")


def look(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    for change in changes:
        protection = guard(change.path)
        if protection is None or protection.kind not in _RULES:
            continue
        if change.before is None:
            yield from _fresh(change, _RULES[protection.kind])
        elif not change.path.endswith((*_PYTHON_HOOKS, ".pth")):
            yield from _file(change, _RULES[protection.kind])


def _fresh(change: ChangedFile, rule: str) -> Iterator[TamperFinding]:
    """Find checks in a new file whose failure the file ignores; a new file removes nothing."""
    for line in _read(change.after):
        if _checks(line.text) and commands.LOOSENS.search(line.text):
            yield TamperFinding(rule, change.path, line.number, f"`{line.text[:80]}` lets a failure pass")
        elif rule == "ci-loosened" and _LETS_PASS.search(line.text):
            yield TamperFinding(rule, change.path, line.number, f"`{line.text[:80]}` lets a failure pass", "suspect")


def _checks(text: str) -> bool:
    return bool(RUNS_CHECKS.search(text) or _TESTS.search(text)) and not _NO_CHECK.search(text)


def _file(change: ChangedFile, rule: str) -> Iterator[TamperFinding]:
    if change.after is None:
        yield TamperFinding(rule, change.path, None, "the file was removed, with everything it checked")
        return
    before, after = _read(change.before), _read(change.after)
    new_lines, removed = _without(after, before), _without(before, after)
    for line in new_lines:
        if commands.LOOSENS.search(line.text):
            yield TamperFinding(rule, change.path, line.number, f"`{line.text[:80]}` lets a failure pass")
        elif _LEAVES_OUT.match(line.text):
            yield TamperFinding(
                rule, change.path, line.number, f"`{line.text[:80]}` may leave something out", "suspect"
            )
    yield from _removed_lines(change, rule, removed, new_lines)


def _read(data: bytes | None) -> list[AddedLine]:
    rows = (data or b"").decode(errors="replace").splitlines()
    stripped = (
        AddedLine(number, _VERSION.sub(r"\1\2", _COMMENT.sub("", row)).strip()) for number, row in enumerate(rows, 1)
    )
    return [line for line in stripped if line.text and not _HARMLESS.match(line.text)]


def _without(lines: Sequence[AddedLine], others: Sequence[AddedLine]) -> list[AddedLine]:
    """Return the lines that the other version lacks, counting repetitions."""
    known = Counter(line.text for line in others)
    left = []
    for line in lines:
        if known[line.text] > 0:
            known[line.text] -= 1
        else:
            left.append(line)
    return left


def _removed_lines(
    change: ChangedFile, rule: str, removed: Sequence[AddedLine], new_lines: Sequence[AddedLine]
) -> Iterator[TamperFinding]:
    others = []
    for line in removed:
        if not _checks(line.text):
            others.append(line)
        elif not any(_checks_as_much(line.text, candidate.text) for candidate in new_lines):
            message = f"removed or changed: `{line.text[:80]}` (line {line.number} before)"
            yield TamperFinding(rule, change.path, stood(change.before, change.after, line.number), message)
    if others:
        first = others[0]
        message = (
            f"{len(others)} line(s) were removed or changed, first `{first.text[:80]}` (line {first.number} before)"
        )
        yield TamperFinding(rule, change.path, stood(change.before, change.after, first.number), message, "suspect")


def _checks_as_much(old: str, new: str) -> bool:
    return (
        commands.command(old.removeprefix("- ").removeprefix("run: "), new.removeprefix("- ").removeprefix("run: "))
        is None
    )
