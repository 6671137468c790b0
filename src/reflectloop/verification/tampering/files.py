"""Check changed files that are neither tests nor settings: data of tests, hooks, scripts and CI."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from reflectloop.verification.protected import guard
from reflectloop.verification.protected.changes import shades
from reflectloop.verification.protected.fixtures import beyond_fixtures
from reflectloop.verification.protected.names import CODE_ENDINGS
from reflectloop.verification.protected.parts import calls_a_tool
from reflectloop.verification.protected.paths import of_tools, shadowed
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering import commands
from reflectloop.verification.tampering.added import AddedLine, ending, stood

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


def look_at_scripts(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
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
        if _checks(line.text) and commands.loosens().search(line.text):
            yield TamperFinding(rule, change.path, line.number, f"`{line.text[:80]}` lets a failure pass")
        elif rule == "ci-loosened" and _LETS_PASS.search(line.text):
            yield TamperFinding(rule, change.path, line.number, f"`{line.text[:80]}` lets a failure pass", "suspect")


def _checks(text: str) -> bool:
    return (calls_a_tool(text) or _TESTS.search(text) is not None) and not _NO_CHECK.search(text)


def _file(change: ChangedFile, rule: str) -> Iterator[TamperFinding]:
    if change.after is None:
        yield TamperFinding(rule, change.path, None, "the file was removed, with everything it checked")
        return
    before, after = _read(change.before), _read(change.after)
    new_lines, removed = _without(after, before), _without(before, after)
    for line in new_lines:
        if commands.loosens().search(line.text):
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


_RUN_AT_START = ("sitecustomize.py", "usercustomize.py")


def look_at_hooks(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    known = {name for change in changes if change.before is not None and (name := _module(change.path))}
    for change in changes:
        if change.after is not None:
            yield from _started(change)
            # A package that is only moved hides nothing new.
            yield from _stands_in(change, moved=_module(change.path) in known)


def _started(change: ChangedFile) -> Iterator[TamperFinding]:
    name = change.path.rpartition("/")[2]
    if name in _RUN_AT_START or name.endswith(".pth"):
        yield TamperFinding(
            "runs-at-start", change.path, 1, f"{name} runs whenever Python starts, so also around every check"
        )
    elif name == "conftest.py":
        for line, what, grave in beyond_fixtures(change.before, change.after):
            yield TamperFinding(
                "conftest-beyond-fixtures", change.path, line, f"conftest.py {what}", "weakening" if grave else "note"
            )
    elif (protection := guard(change.path)) and protection.kind == "hook" and change.before is None:
        yield TamperFinding("hook-added", change.path, 1, f"{name} is new: {protection.why}", "suspect")


def _module(path: str) -> str | None:
    folder, _, name = path.rpartition("/")
    return folder.rpartition("/")[2] if name == "__init__.py" else None


def _stands_in(change: ChangedFile, *, moved: bool) -> Iterator[TamperFinding]:
    module = shadowed(change.path)
    protection = guard(change.path)
    if module and change.before is None and not moved:
        message = f"would be imported instead of {module}"
        yield TamperFinding(
            "module-shadowed", change.path, 1, message, "weakening" if module in of_tools("modules") else "suspect"
        )
    elif protection is None:
        return
    elif protection.kind == "shadow" and shades(change) and not module:
        yield TamperFinding("tool-shadowed", change.path, 1, protection.why)
    elif protection.kind == "artefact":
        lines = change.after is not None and b"\0" not in change.after
        yield TamperFinding("artefact", change.path, 1 if lines else None, protection.why)
    elif protection.kind == "own":
        message = f"changes {protection.why}"
        yield TamperFinding(
            "own-settings", change.path, 1, message, "suspect" if ".claude/" in change.path else "weakening"
        )


_PROSE_ENDINGS = frozenset({"md", "rst", "gitignore", "gitkeep", "typed"})


def look_at_data(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    new_contents = {change.after for change in changes if change.before is None}
    for change in changes:
        protection = guard(change.path)
        if change.before is None or protection is None or protection.kind not in {"fixture", "snapshot"}:
            continue
        is_prose = protection.kind != "snapshot" and ending(change.path) in _PROSE_ENDINGS
        if ending(change.path) not in CODE_ENDINGS and not is_prose and not _same_document(change):
            yield _data(change, protection.kind, moved=change.before in new_contents)


def _same_document(change: ChangedFile) -> bool:
    """Return True if only the layout of a JSON file changed; the order of keys counts."""
    if ending(change.path) != "json" or change.before is None or change.after is None:
        return False
    try:
        return json.dumps(json.loads(change.before)) == json.dumps(json.loads(change.after))
    except (ValueError, RecursionError):
        return False


def _data(change: ChangedFile, kind: str, *, moved: bool) -> TamperFinding:
    rule = "snapshot-rewritten" if kind == "snapshot" else "data-rewritten"
    if change.after is None:
        message = "moved" if moved else "data that tests read or compare with was removed"
        return TamperFinding(rule, change.path, None, message, "note" if moved else "weakening")
    before, after = _lines(change.before), _lines(change.after)
    lost = [line for line in before if line not in set(after)]
    if not lost and len(after) >= len(before):
        return TamperFinding("data-extended", change.path, None, "only entries were added", "note")
    number = before.index(lost[0]) + 1 if lost else 1
    if not after or (len(after) < len(before) and not set(after) - set(before)):
        return TamperFinding(
            rule,
            change.path,
            number,
            f"{len(before) - len(after)} line(s) were removed from data that tests compare with",
        )
    return TamperFinding(
        rule, change.path, number, f"{len(lost)} line(s) of data that tests compare with were rewritten", "suspect"
    )


def _lines(data: bytes | None) -> list[bytes]:
    return [line.strip().rstrip(b",") for line in (data or b"").splitlines() if line.strip()]
