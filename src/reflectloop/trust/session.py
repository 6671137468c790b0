"""What one process knows of trust: whether its caller vouches for the project, and which settings were left out."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

VARIABLE = "REFLECTLOOP_TRUST_PROJECT"

_NAMED = 30  # of many settings, in a warning

_by_flag: list[bool] = []
_ignored: dict[Path, tuple[str, ...]] = {}


def trust_by_flag() -> None:
    """Let every setting of the project count in this process."""
    _by_flag[:] = [True]


@contextlib.contextmanager
def vouched() -> Iterator[None]:
    """Let every setting count inside: for a project that this process has written itself."""
    before = list(_by_flag)
    trust_by_flag()
    try:
        yield
    finally:
        _by_flag[:] = before


def is_by_flag() -> bool:
    """Say whether the caller vouches for the project, by the flag or by the variable."""
    return bool(_by_flag) or os.environ.get(VARIABLE) == "1"


def ignore(root: Path, keys: Iterable[str]) -> None:
    """Remember what was left out of a project's settings; only the last reading counts."""
    _ignored[root] = tuple(keys)


def notices() -> list[str]:
    """Return one warning for each project whose settings were left out."""
    return [
        f"ignored from reflectloop.toml (not trusted): {_listed(keys)}; to allow: {command_for(root)}"
        for root, keys in _ignored.items()
        if keys
    ]


def _listed(keys: tuple[str, ...]) -> str:
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return ", ".join(keys[:_NAMED]) + more


def command_for(root: Path) -> str:
    """Return the command that trusts a project, as it is typed in the current folder."""
    try:
        here = Path.cwd().is_relative_to(root)
    except OSError:  # the current folder was removed
        here = False
    return "reflectloop trust" if here else f"reflectloop trust --project {shlex.quote(str(root))}"
