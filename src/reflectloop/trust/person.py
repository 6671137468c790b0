"""Tells if an agent or a hook started this process: only a person may approve."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from reflectloop.errors import NeedsInput

# Variables that an agent's program sets for the commands it runs.
_MARK_NAMES = """
    AI_AGENT AMP_CURRENT_THREAD_ID AUGMENT_AGENT CLAUDECODE CLAUDE_CODE_ENTRYPOINT CLINE_ACTIVE COPILOT_AGENT
    CURSOR_AGENT GEMINI_CLI GOOSE_TERMINAL OPENCODE QWEN_CODE TRAE_AI_SHELL_ID REFLECTLOOP_COMMAND REFLECTLOOP_RUN
"""
_MARKS = frozenset(_MARK_NAMES.split())
_MARK_PREFIXES = ("CODEX_", "CLAUDE_AGENT_")
_SETTINGS = frozenset(("CODEX_API_KEY", "CODEX_HOME", "CODEX_CA_CERTIFICATE"))  # a person sets these
_PROGRAM_NAMES = """
    aider amp auggie claude codex copilot crush cursor-agent droid gemini goose kimi opencode openhands qwen
"""
_PROGRAMS = frozenset(_PROGRAM_NAMES.split())
_PACKAGES = frozenset(("claude-code", "gemini-cli", "opencode-ai", "qwen-code"))
_WRAPPERS = frozenset(("node", "nodejs", "bun", "deno", "python", "python3", "npx", "uvx"))
_LONGEST = 1 << 20


def refuse_programs(what: str, environ: Mapping[str, str], *, hooks: bool = False) -> None:
    """Raise NeedsInput if an agent or a command that this engine runs is behind this process; with `hooks` also git."""
    sign = agent_sign(environ) or next(ancestor_signs(hooks=hooks), None)
    if sign:
        raise NeedsInput(
            f"{what} is for a person, and a program started this command ({sign})",
            next_step="type the command yourself, in a terminal of your own",
        )


def agent_sign(environ: Mapping[str, str]) -> str | None:
    """Return the variable by which an agent's commands are known, or None."""
    for name, value in environ.items():
        if name in _MARKS or (name.startswith(_MARK_PREFIXES) and name not in _SETTINGS):
            return name
        if name == "TMPDIR" and _in_workspace(Path(value)):
            return "TMPDIR in a workspace"
        if name == "AGENT" and value in _PROGRAMS:  # a common name for other things
            return f"{name}={value}"
    return None


def _in_workspace(temp: Path) -> bool:
    """Return True for the temp folder of a workspace, whose commands may carry no other mark."""
    beside = (temp.parent / name for name in ("repo", "home"))
    return temp.name == "tmp" and all(map(os.path.isdir, beside))


def program_sign(words: list[str]) -> str | None:
    """Return the name of the agent that a command line starts, directly or by an interpreter; None otherwise."""
    named = [Path(word).name for word in words[:1]]
    if named and named[0].rstrip("0123456789.") in _WRAPPERS:
        script = next((word for word in words[1:] if not word.startswith("-")), "")
        named += [Path(script).name, *(part for part in Path(script).parts if part in _PACKAGES)]
    known = _PROGRAMS | _PACKAGES
    return next((name for name in named if name.removesuffix(".js").removesuffix(".py") in known), None)


def ancestor_signs(*, hooks: bool = False) -> Iterator[str]:
    """Yield a sign of each agent, or with `hooks` of each git, among the processes that led to this one."""
    seen, pid = set(), os.getppid()
    while pid > 0 and pid not in seen:
        seen.add(pid)
        environ = _read(pid, "environ")
        variables = {name: value for name, _, value in (word.partition("=") for word in environ)}
        words = _read(pid, "cmdline")
        sign = agent_sign(variables) or program_sign(words)
        if hooks and words and Path(words[0]).name == "git":
            sign = "a hook of git"
        if sign:
            yield f"{sign}, process {pid}"
        pid = _parent(pid)


def _read(pid: int, name: str) -> list[str]:
    """Return the words of a file of a process; none if it is another user's or has ended."""
    try:
        with Path(f"/proc/{pid}/{name}").open("rb") as file:
            raw = file.read(_LONGEST)
    except OSError:
        return []
    return [os.fsdecode(word) for word in raw.split(b"\0") if word]


def _parent(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])
