"""Find the tool behind `npm test` and similar commands, by the scripts of a package.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from reflectloop.verification.runners.command_recognition import call, split

_RUN = ("run", "run-script")
_SHORT = {"t": "test", "tst": "test"}
# Subcommands of package managers, which are not names of scripts.
_SUBCOMMANDS = frozenset(
    [
        *("add", "install", "i", "ci", "remove", "update", "up", "link", "outdated", "audit", "why"),
        *("exec", "dlx", "x", "init", "list", "pack", "publish"),
    ]
)


def named(argv: Sequence[str]) -> str | None:
    """Return the script that a package manager's command line runs, or None."""
    if not argv:
        return None
    program, rest = PurePosixPath(argv[0]).name, [word for word in argv[1:] if not word.startswith("-")]
    if program not in ("npm", "pnpm", "yarn", "bun") or not rest:
        return None
    if rest[0] in _RUN:
        return rest[1] if len(rest) > 1 else None
    if program == "npm":
        first = _SHORT.get(rest[0], rest[0])
        return first if first in ("test", "start") else None
    # `bun test` is bun's own runner, whatever the script says.
    return None if rest[0] in _SUBCOMMANDS or (program == "bun" and rest[0] == "test") else rest[0]


def recognise(command: Sequence[str] | str, scripts: Mapping[str, str] | None = None) -> str | None:
    """Return the tool a command runs; "npm" for a script that does more than call one tool."""
    argv = split(command) if isinstance(command, str) else tuple(command)
    script = named(argv or ())
    if script is None:
        tool_call = call(command)
        return tool_call.tool if tool_call else None
    script_call = call((scripts or {}).get(script, ""))
    return script_call.tool if script_call else "npm"
