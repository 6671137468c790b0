"""Check changed files that are neither tests nor settings: data of tests, hooks, scripts and CI."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import yaml

from reflectloop import config
from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import guard, runs_at_start
from reflectloop.verification.protected.changes import shades
from reflectloop.verification.protected.fixtures import beyond_fixtures
from reflectloop.verification.protected.names import CODE_ENDINGS
from reflectloop.verification.protected.paths import shadowed
from reflectloop.verification.protected.tool_names import of_tools
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering import commands
from reflectloop.verification.tampering.added import AddedLine, ending, stood
from reflectloop.verification.tampering.workflows import is_workflow, line_of, pairs, text_of
from reflectloop.workspace.project import OWN_FOLDER, is_shared_record

_RULES = {"ci": "ci-loosened", "script": "script-changed", "hook": "hook-changed"}
_COMMENT = lazy(r"(?:^|\s)#.*$|^\s*//.*$|^\s*dnl\b.*$")
_PYTHON_HOOKS = ("conftest.py", "sitecustomize.py", "usercustomize.py")
# Files whose content is compared by what it means, not line by line.
_READ_ELSEWHERE = lazy(r"(?:^|/)(?:\.pre-commit-(?:config|hooks)\.ya?ml|\.gitattributes|\.lintstagedrc[^/]*)$")
_STOPS = lazy(r"\b(?:sys\.exit|process\.exit|raise|throw|assert)\b")
_FLOW = lazy(
    r"^(?:if|elif|else|case|exit|return|trap|while|until|for|try|except|catch)\b|\bset\s+[-+]\w|\bprocess\.exit|sys\.exit"
)


def look_at_scripts(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    """Compare scripts, hooks and workflows that are no YAML line by line."""
    fresh = {change.path.rpartition("/")[2]: change for change in changes if change.before is None}
    for change in changes:
        protection = guard(change.path)
        if protection is None or protection.kind not in _RULES or is_workflow(change.path):
            continue
        if protection.kind == "ci" and change.path.endswith((".yml", ".yaml")):
            continue
        if change.path.endswith((*_PYTHON_HOOKS, ".pth")) or _READ_ELSEWHERE.search(change.path):
            continue
        moved = fresh.get(change.path.rpartition("/")[2]) if change.after is None else None
        compared = change._replace(path=moved.path, after=moved.after) if moved else change
        yield from _file(compared, _RULES[protection.kind])


def _file(change: ChangedFile, rule: str) -> Iterator[TamperFinding]:
    if change.after is None:
        lines = [command for line in _read(change.before) for command in commands.read(line.text)]
        if rule != "ci-loosened" or any(commands.is_check(command) for command in lines):
            yield TamperFinding(rule, change.path, None, "the file was removed, with everything it checked")
        return
    before, after = _read(change.before), _read(change.after)
    new_lines, removed = _without(after, before), _without(before, after)
    for line in new_lines:
        checks = any(commands.is_check(command) for command in commands.read(line.text))
        if (match := commands.loosens().search(line.text)) and (checks or (change.before and _stops(match[0]))):
            yield TamperFinding(rule, change.path, line.number, f"`{line.text[:80]}` lets a failure pass")
    yield from _removed_lines(change, rule, removed, new_lines)


def _stops(text: str) -> bool:
    return re.match(r"\s*(?:exit|set)\b", text) is not None


def _read(data: bytes | None) -> list[AddedLine]:
    rows = (data or b"").decode(errors="replace").splitlines()
    stripped = (AddedLine(number, _COMMENT.sub("", row).strip()) for number, row in enumerate(rows, 1))
    return [line for line in stripped if line.text]


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
    before, after = (
        [command for line in lines for command in commands.read(line.text)] for lines in (removed, new_lines)
    )
    checks = [command for command in before if commands.is_check(command)]
    losses = list(commands.lost(checks, [command._replace(lets_pass="") for command in after]))
    for loss in losses:
        number = next((line.number for line in removed if loss.old.text in line.text), 1)
        at = next((line.number for line in new_lines if loss.new and loss.new.text in line.text), None)
        yield TamperFinding(
            rule, change.path, at or stood(change.before, change.after, number), loss.effect.why, loss.effect.grade
        )
    flow = _STOPS if ending(change.path) in CODE_ENDINGS - {"sh", "bash", "bats"} else _FLOW
    others = [line for line in removed if flow.search(line.text)]
    if others and not losses:
        first = others[0]
        message = f"the flow of the script changed, first `{first.text[:80]}` (line {first.number} before)"
        yield TamperFinding(rule, change.path, stood(change.before, change.after, first.number), message, "suspect")


_DRIVER = lazy(r"\s(?:filter=(?!lfs\b)|merge=(?!lfs\b|union\b|binary\b|text\b|ours\b))\S+")
# Hooks that became part of another under these names.
_HOOK_NAMES = {"ruff-check": "ruff", "ruff-lint": "ruff", "check-byte-order-marker": "fix-byte-order-marker"}


def look_at_hooks(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    known = {name for change in changes if change.before is not None and (name := _module(change.path))}
    gone = [change.before for change in changes if change.after is None and change.path.endswith("conftest.py")]
    for change in changes:
        if change.after is None:
            protection = guard(change.path)
            if protection and protection.kind == "own" and ".claude/" not in change.path:
                yield from _own(change, protection.why)
        else:
            is_moved = change.before is None and change.path.endswith("conftest.py") and len(gone) == 1
            yield from _started(change._replace(before=gone[0]) if is_moved else change)
            # A package that is only moved hides nothing new.
            yield from _stands_in(change, moved=_module(change.path) in known)


def _started(change: ChangedFile) -> Iterator[TamperFinding]:
    name = change.path.rpartition("/")[2]
    if runs_at_start(change.path):
        yield TamperFinding(
            "runs-at-start", change.path, 1, f"{name} runs whenever Python starts, so also around every check"
        )
    elif name == "conftest.py":
        for line, what, grave in beyond_fixtures(change.before, change.after):
            yield TamperFinding(
                "conftest-beyond-fixtures", change.path, line, f"conftest.py {what}", "weakening" if grave else "note"
            )
    elif name == ".gitattributes":
        yield from _drivers(change)
    elif change.before is None and not _READ_ELSEWHERE.search(change.path):
        protection = guard(change.path)
        if protection and protection.kind == "hook":
            yield TamperFinding("hook-added", change.path, 1, f"{name} is new: {protection.why}", "suspect")


def _drivers(change: ChangedFile) -> Iterator[TamperFinding]:
    """Find lines that make git start a program; the names that git itself knows start none."""
    known = set((change.before or b"").splitlines())
    for number, row in enumerate((change.after or b"").splitlines(), 1):
        match = _DRIVER.search(row.decode(errors="replace"))
        if match and row not in known:
            yield TamperFinding("hook-added", change.path, number, f"`{match[0].strip()}` starts a program", "suspect")


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
        yield from _own(change, protection.why)


_RULES_FOLDER = f"{OWN_FOLDER}/rules/"
_LESSON = lazy(rf"{re.escape(OWN_FOLDER)}/knowledge/\w+/[^/]+\.md")
_SIGHTINGS = lazy(rf"{re.escape(OWN_FOLDER)}/knowledge/sightings/[^/]+\.jsonl")
_COMMANDS = lazy(rb"(?m)^commands:[ \t]*(\S.*(?:\n(?:[ \t]|- ).*)*|(?:\n(?:[ \t]|- ).*)+)")


def _own(change: ChangedFile, why: str) -> Iterator[TamperFinding]:
    """Yield what a change does to the engine's settings, lessons and rules, or to an agent's settings."""
    if is_shared_record(change.path):
        yield from _lesson(change)
        return
    if change.path.rpartition("/")[2] != config.NAME:
        grade: Literal["weakening", "suspect"] = "suspect" if ".claude/" in change.path else "weakening"
        yield TamperFinding("own-settings", change.path, 1, f"changes {why}", grade)
        return
    loosened = config.loosened(change.before, change.after)
    if loosened is None:
        yield TamperFinding("own-settings", change.path, 1, "is no valid settings file, before or now")
    elif loosened:
        first = next(iter(loosened)).split(".")[-1]
        lines = (change.after or b"").decode().splitlines()
        line = next((at for at, text in enumerate(lines, 1) if text.lstrip(" [").startswith(first)), 1)
        message = f"loosens the engine's settings: {'; '.join(loosened.values())}"
        yield TamperFinding("own-settings", change.path, line, message)


def _lesson(change: ChangedFile) -> Iterator[TamperFinding]:
    """Yield what a person must read: commands that runs will try, and rules that are edited or removed."""
    if change.path.startswith(_RULES_FOLDER):
        if change.before is not None:
            what = "is removed" if change.after is None else "is changed"
            yield TamperFinding("lesson", change.path, 1, f"a rule that was accepted {what}")
        return
    if change.after is None or _SIGHTINGS.fullmatch(change.path):
        return
    if not _LESSON.fullmatch(change.path):
        yield TamperFinding("lesson", change.path, None, "is no lesson, but lies among the lessons")
        return
    old, new = (_COMMANDS.search(data or b"") for data in (change.before, change.after))
    if new and (old is None or old[1] != new[1]):
        commands = " ".join(new[1].decode("utf-8", "replace").split())
        line = change.after[: new.start()].count(b"\n") + 1
        message = f"the lesson has commands that runs will try: {commands}"
        yield TamperFinding("lesson", change.path, line, message, "suspect")
    else:
        message = f"{'adds' if change.before is None else 'changes'} a lesson, which agents get as advice"
        yield TamperFinding("lesson", change.path, 1, message, "note")


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


# Hooks of pre-commit ----------------------------------------------------------------------------------------


# Arguments that say how files are written; a hook that writes one fails.
_LAYOUT = lazy(
    r"^--(?:py\d|fix|exit-non-zero|print-width|prose|tab|line|width|indent|offset|mapping|sequence|autofix|profile|wrap)"
)


_ALL_HOOKS = "every hook"  # the settings that apply to all


class PreCommitHook(NamedTuple):
    """One hook of a pre-commit configuration."""

    name: str
    settings: dict[str, str]
    arguments: tuple[str, ...]
    line: int


def look_at_pre_commit(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    for change in changes:
        name = change.path.rpartition("/")[2]
        if re.fullmatch(r"\.pre-commit-config\.ya?ml", name) and change.before is not None:
            yield from _hooks_compared(change, _hooks(change.before), _hooks(change.after))


def _hooks(data: bytes | None) -> dict[str, PreCommitHook] | None:
    try:
        document = yaml.compose((data or b"").decode("utf-8-sig"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    hooks: dict[str, PreCommitHook] = {}

    def visit(node: yaml.Node | None) -> None:
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                visit(item)
        elif isinstance(node, yaml.MappingNode):
            settings = dict(pairs(node))
            if "id" in settings:
                name = text_of(settings["id"])
                arguments = tuple(
                    text_of(item) for item in getattr(settings.get("args"), "value", []) if isinstance(item, yaml.Node)
                )
                plain = {key: text_of(value) for key, value in settings.items()}
                hooks[_HOOK_NAMES.get(name, name)] = PreCommitHook(name, plain, arguments, line_of(settings["id"]))
            for value in settings.values():
                visit(value)

    visit(document)
    if isinstance(document, yaml.MappingNode):
        everywhere = {key.removeprefix("default_"): text_of(value) for key, value in pairs(document)}
        hooks[_ALL_HOOKS] = PreCommitHook(_ALL_HOOKS, everywhere, (), line_of(document))
    return hooks


def _hooks_compared(
    change: ChangedFile, old: dict[str, PreCommitHook] | None, new: dict[str, PreCommitHook] | None
) -> Iterator[TamperFinding]:
    if old is None or new is None:
        if old is not None:
            yield TamperFinding("config-unreadable", change.path, 1, "the hooks can no longer be read", "suspect")
        return
    if change.after is None:
        yield TamperFinding(
            "hook-changed",
            change.path,
            None,
            f"the file was removed, with its hooks: {', '.join(name for name in old if name != _ALL_HOOKS)[:80]}",
        )
        return
    gone = [hook for name, hook in old.items() if name not in new]
    fresh = [hook.name for name, hook in new.items() if name not in old]
    if gone:
        instead = f"; new: {', '.join(fresh)[:60]}" if fresh else ""
        what = f"no longer runs {', '.join(hook.name for hook in gone)[:80]}{instead}"
        line = stood(change.before, change.after, gone[0].line)
        yield TamperFinding("hook-changed", change.path, line, what, "suspect" if fresh else "weakening")
    for name, hook in new.items():
        if name in old and (effect := _hook_effect(old[name], hook)):
            yield TamperFinding("hook-changed", change.path, hook.line, f"{hook.name} {effect.why}", effect.grade)


def _hook_effect(old: PreCommitHook, new: PreCommitHook) -> commands.Weakening | None:
    for key in ("exclude", "exclude_types", "files", "types", "types_or", "stages"):
        before, after = old.settings.get(key, ""), new.settings.get(key, "")
        if not _takes_as_much(key, before, after):
            return commands.Weakening(f"has another `{key}`: `{after[:80]}`", "suspect")
    if old.settings.get("entry", "") != new.settings.get("entry", "") and "entry" in old.settings:
        losses = commands.lost(
            list(commands.read(old.settings["entry"])), list(commands.read(new.settings.get("entry", "")))
        )
        return next((loss.effect for loss in losses), None)
    before_flags, after_flags = (
        [word for word in hook.arguments if word.startswith("-") and not _LAYOUT.search(word)] for hook in (old, new)
    )
    return commands.options(before_flags, after_flags, kind="lint", tool=new.name)


def _takes_as_much(key: str, before: str, after: str) -> bool:
    """Return True if a hook with the new value looks at all files that it looked at before."""
    if not after or before == after:
        return True
    if key == "stages":
        return _same_stages(before, after)
    old, new = _alternatives(before), _alternatives(after)
    return new <= old if key.startswith("exclude") else bool(before) and old <= new


def _alternatives(pattern: str) -> frozenset[str]:
    plain = re.sub(r"\(\?x\)|\s+|[\^$]", "", pattern)
    return frozenset(word.strip("()") for word in re.split(r"[|,]", plain) if word.strip("()"))


def _same_stages(old: str, new: str) -> bool:
    names = {"commit": "pre-commit", "push": "pre-push", "": "pre-commit"}
    before, after = ({names.get(word.strip(), word.strip()) for word in text.split(",")} for text in (old, new))
    return before <= after
