"""Judge a tool of an agent before it runs, and look at what it printed and wrote afterwards."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from reflectloop import settings_files
from reflectloop.hooks.model import ALLOW, HookAnswer, HookCall
from reflectloop.plan.globs import matches_any
from reflectloop.policy import CommandPolicy, PolicyVerdict, active_rules
from reflectloop.state import latch

_OWN = (".reflectloop/**",)
# Files that decide whether hooks run at all.
_HOOK_FILES = (
    *(".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json", ".codex/config.toml"),
    *(".cursor/hooks.json", ".github/hooks/*.json", "**/hooks/hooks.json", ".git/hooks/**"),
    ".agents/plugins/*/hooks.json",
)
_LARGEST_OUTPUT = 4 << 20  # characters of a tool's output that are searched
_LARGEST_FILE = 4 << 20  # bytes


def before(call: HookCall, root: Path, own: Path) -> HookAnswer:
    """Judge a tool call by the latch, the agent's role, the paths it writes and the command policy."""
    stop = latch.read_stop(own)
    if stop:
        return HookAnswer("deny", f"This project is stopped ({stop.error_code}): {stop.reason}. {_UNLOCK}")
    if call.read_only and (call.writes or _mutates(call)):
        return HookAnswer("deny", "A planner may not write: leave plan mode first, or let an executor do it.")
    written = [path for name in call.writes if (path := _inside(name, call.folder, root))]
    answers = [
        *([_by_policy(call, root)] if call.command is not None else ()),
        *(_by_path(name, root) for name in written),
    ]
    return next((answer for word in ("deny", "ask") for answer in answers if answer.word == word), ALLOW)


def _by_path(name: str, root: Path) -> HookAnswer:
    if matches_any(name, _OWN):
        return HookAnswer("deny", f"{name} belongs to the engine; agents may not write it.")
    if matches_any(name, _HOOK_FILES):
        return HookAnswer("ask", f"{name} decides which hooks run.")
    why = _judging(name, root)
    if why:
        return HookAnswer("ask", f"{name} judges this work ({why}). Change the code, or let a person allow this.")
    return ALLOW


_UNLOCK = "A person unlocks it: reflectloop unlock --reason TEXT"


def _inside(name: str, folder: Path, root: Path) -> str:
    """Return a path relative to the project, with links resolved; empty outside of it."""
    real = os.path.realpath(folder / name)
    top = os.path.realpath(root)
    return os.path.relpath(real, top) if real.startswith(top + os.sep) else ""


def _mutates(call: HookCall) -> bool:
    return call.command is not None and not only_reads(call.command)


def _by_policy(call: HookCall, root: Path) -> HookAnswer:
    verdict = _policy(root).judge(call.command or "")
    if verdict.verdict == "allow":
        return ALLOW
    return HookAnswer("ask" if verdict.verdict == "confirm" else "deny", _policy_text(verdict))


def _policy(root: Path) -> CommandPolicy:
    """Return the policy of the project; the settings are loaded only where they can say something about it."""
    if not settings_files.may_set(root, "policy") and not settings_files.policy_rules(root, None):
        return active_rules.default()
    from reflectloop import config  # noqa: PLC0415 - loads pydantic

    return active_rules.of(config.load(root).policy, root)


def _policy_text(verdict: PolicyVerdict) -> str:
    return f"{verdict.reason} ({verdict.rule}). Explained by: reflectloop policy explain COMMAND"


def _judging(name: str, root: Path) -> str:
    """Return why an existing file judges the work; empty if it does not, or is new."""
    from reflectloop.verification import protected  # noqa: PLC0415 - not needed for commands

    protection = protected.guard(name)
    if protection is None or not (root / name).is_file():
        return ""
    return protection.kind if protection.kind in ("test", "snapshot", "hook") else ""


def after(call: HookCall, root: Path) -> HookAnswer:
    """Search what a tool printed and wrote for secrets."""
    from reflectloop import config, secrets  # noqa: PLC0415 - slow to load, and not needed before tools

    detector = secrets.detector_for(config.load(root).secrets, root)
    places = []
    for name, data in _to_search(call, root):
        scanner = detector.scanner()
        scanner.feed(data)
        scanner.finish()
        places += [f"{name}:{secret.line}: {secret.rule}" for secret in scanner.findings if secret.grade == "certain"]
    if not places:
        return ALLOW
    listed = "; ".join(dict.fromkeys(places[:5]))
    return HookAnswer(
        "deny",
        f"A secret is in {listed}. Do not repeat, store or send it; in files, use an environment variable instead.",
    )


def _to_search(call: HookCall, root: Path) -> Iterator[tuple[str, bytes]]:
    if call.output:
        yield "the output", call.output[:_LARGEST_OUTPUT].encode("utf-8", "replace")
    for written in call.writes:
        name = _inside(written, call.folder, root)
        path = root / name
        if name and path.is_file() and path.stat().st_size <= _LARGEST_FILE:
            yield name, path.read_bytes()


# Commands that only read --------------------------------------------------------------------------------------------
# For agents that may not write.

_READERS = frozenset(
    """
    ls cat head tail grep egrep fgrep rg wc sort uniq cut tr nl pwd which type file stat tree du df echo printf date
    diff cmp basename dirname realpath readlink true false test [ jq column cd less more od xxd sha256sum
    """.split()  # noqa: SIM905 - reads better as text
)
_GIT = frozenset(
    """
    status log diff show blame ls-files ls-tree rev-parse grep describe shortlog cat-file rev-list
    """.split()  # noqa: SIM905
)
# Commands of ours that leave the user's files as they are: what they change is a copy, or the journal.
_OURS = frozenset(
    """
    status tasks show log diff route plan tp tr run review resume answer skip redo fileops template agents detect
    protected verify gate receipt policy critic reflect diagnose scan doctor help
    """.split()  # noqa: SIM905
)
_LESSONS = frozenset(("list", "search", "show", "patches"))
_ACTING_OPTIONS = frozenset(("-o", "--output", "-i", "--in-place", "-delete", "-exec", "-execdir", "-ok", "-fprint"))
_REDIRECTED = re.compile(r"(?<![0-9&])[0-9]?>>?(?!&[0-9]|\s*/dev/null)|<>|>\|")
_JOINED = re.compile(r"[;&|`$()\n]")  # more than one program
_HERE = re.compile(r"<<'(\w+)'\n.*?^\1$", re.DOTALL | re.MULTILINE)  # input that the shell leaves as it is
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")


def only_reads(command: str | tuple[str, ...]) -> bool:
    """Return True if every part of a command is a program that reads; unknown programs count as writing."""
    text = _HERE.sub("", command) if isinstance(command, str) else shlex.join(command)
    bare = _QUOTED.sub("''", text)
    if _REDIRECTED.search(bare):
        return False
    if not _JOINED.search(bare) and "`" not in text and "$(" not in text and _reads(text):
        return True
    parts = [part for part in active_rules.default().look(text) if part.source.strip() != text.strip()]
    sources = [part.source for part in parts] or [text]
    return all(_reads(source) for source in sources)


def _reads(source: str) -> bool:
    try:
        words = shlex.split(source)
    except ValueError:
        return False
    if not words or "=" in words[0]:
        return False
    return _ours(words[1:]) if words[0] == "reflectloop" else _program_reads(words)


def _program_reads(words: list[str]) -> bool:
    program = words[0].rpartition("/")[2]
    options = {word.partition("=")[0] for word in words[1:]}
    if options & _ACTING_OPTIONS:
        return False
    if program == "git":
        return next((word for word in words[1:] if not word.startswith("-")), "") in _GIT and "-c" not in words
    if program == "sed":
        return words[1:2] == ["-n"] and not re.search(r"[we]\b", " ".join(words[2:3]))
    return program in _READERS or program == "find"


def _ours(words: list[str]) -> bool:
    """Return True for a command of ours that a planner may send; a setting of the project is not his to accept."""
    if "--trust-project" in words:
        return False
    name, below = (*words, "", "")[:2]
    return name in _OURS or (name == "lessons" and below in _LESSONS)
