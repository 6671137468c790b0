"""Distinguish a tool that could not be started from a test whose output mentions missing things."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NOT_RUNNABLE = {126, 127}
_NEAR_END = 12_000

# Lines a shell or a launcher writes; `tool` is the program it could not start.
_NOT_STARTED = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(?:/\S+/)?python[\d.]*(?:\.exe)?: No module named '?(?P<tool>[\w.]+?)'?(?:\.__main__)?(?:;.*)?$",
        r"^(?:/\S+/)?(?:ba|da|z|k)?sh: (?:line )?\d*:? ?(?P<tool>[^\s:]+): (?:command )?not found$",
        r"^(?:\S+\.sh: )?line \d+: (?P<tool>[^\s:]+): (?:command not found|No such file.*|Permission denied)$",
        r"^zsh: command not found: (?P<tool>\S+)$",
        r"^(?:\S*/)?(?:env|timeout|nice|sudo|bwrap): .{0,40}?[‘'\"]?(?P<tool>[\w./@+-]+)[’'\"]?: (?:No |Perm|comm).*$",
        r"^make(?:\[\d+\])?: (?P<tool>[^\s:]+): (?:No such file or directory|Command not found|Permission denied)$",
        r"^npm (?:ERR!|error) [Mm]issing script: \"?(?P<tool>[\w:.-]+)\"?$",
        r"^ ?(?:error|ERR_PNPM_\w+):? {1,2}(?:Missing script:?|Command) \"?(?P<tool>[\w:.-]+)\"?(?: not found.*)?$",
        r"^(?:npm (?:ERR!|error)|npx:) could not determine executable to run.*(?P<tool>)$",
        r"^(?:Usage Error: )?Couldn't find a script named \"(?P<tool>[\w:.-]+)\".*$",
        r"^error: no such (?:command|subcommand): `(?P<tool>[\w-]+)`$",
        r"^error: '(?P<tool>cargo-[\w-]+)' is not installed for the toolchain .*$",
        r"^bundler: command not found: (?P<tool>\S+)$",
        r"^go: (?:no such tool|unknown command) \"?(?P<tool>\w+)\"?.*$",
        r"^(?:.{0,60}: )?exec: \"(?P<tool>[\w./-]+)\": executable file not found in \$PATH$",
        r"^Error: Cannot find module '(?P<tool>[^']*node_modules/[^']+)'$",
        r"^Could not execute because the specified command or file was not found\.(?P<tool>)$",
        r"^error: Failed to spawn: `(?P<tool>[^`]+)`$",
        r"^Error: Could not find or load main class (?P<tool>\S+)$",
    )
)


def tool(exit_code: int | None, log: str, command: Sequence[str], name: str | None) -> str | None:
    """Return the tool that could not be started, or None. Exit code 0 means it was started."""
    if exit_code == 0:
        return None
    missing = _named_tool(log[:_NEAR_END] + "\n" + log[-_NEAR_END:])
    if missing is not None:
        return missing or name or "the tool"
    if exit_code in _NOT_RUNNABLE:
        return _command_name(log, command, name)
    return None


def _named_tool(text: str) -> str | None:
    for pattern in _NOT_STARTED:
        if match := pattern.search(text):
            return match["tool"].rpartition("node_modules/")[2].split("/")[0] or match["tool"]
    return None


def _command_name(log: str, command: Sequence[str], name: str | None) -> str | None:
    """Return the command's name for exit code 126 or 127 if the log is empty or names it, or else None."""
    names = [word for word in (name, *command[:1]) if word]
    if not log.strip():
        return names[0].rpartition("/")[2] if names else "the tool"
    tail = log[-_NEAR_END:]
    return next((word.rpartition("/")[2] for word in names if word.rpartition("/")[2] in tail), None)
