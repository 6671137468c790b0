"""What stands behind `npm test` and its kin: the scripts of a package.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from reflectloop.verify.runners.words import call, split

_RUN = ("run", "run-script")
_SHORT = {"t": "test", "tst": "test"}
# Words of package managers that are not names of scripts.
_OWN = frozenset(
    [
        *("add", "install", "i", "ci", "remove", "update", "up", "link", "outdated", "audit", "why"),
        *("exec", "dlx", "x", "init", "list", "pack", "publish"),
    ]
)


def named(words: Sequence[str]) -> str | None:
    """The script that a package manager's command line runs."""
    if not words:
        return None
    program, rest = PurePosixPath(words[0]).name, [word for word in words[1:] if not word.startswith("-")]
    if program not in ("npm", "pnpm", "yarn", "bun") or not rest:
        return None
    if rest[0] in _RUN:
        return rest[1] if len(rest) > 1 else None
    if program == "npm":
        first = _SHORT.get(rest[0], rest[0])
        return first if first in ("test", "start") else None
    # `bun test` is bun's own runner, whatever the script says.
    return None if rest[0] in _OWN or (program == "bun" and rest[0] == "test") else rest[0]


def recognise(command: Sequence[str] | str, scripts: Mapping[str, str] | None = None) -> str | None:
    """Which tool a command runs; "npm" for a script that is more than a plain call of one."""
    words = split(command) if isinstance(command, str) else tuple(command)
    script = named(words or ())
    if script is None:
        found = call(command)
        return found.tool if found else None
    behind = call((scripts or {}).get(script, ""))
    return behind.tool if behind else "npm"
