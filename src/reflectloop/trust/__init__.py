"""Decides which settings of a project apply: restrictions always, permissions only after the user trusted them."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from reflectloop.terms import join_first
from reflectloop.trust.grants import Grant, SettingsSplit, split

__all__ = [
    "VARIABLE",
    "Grant",
    "SettingsSplit",
    "ignore",
    "is_by_flag",
    "notices",
    "split",
    "trust_by_flag",
    "trusting_project",
]

VARIABLE = "REFLECTLOOP_TRUST_PROJECT"

_NAMED = 30  # settings listed in a warning

_by_flag: list[bool] = []
_ignored: dict[Path, tuple[str, ...]] = {}


def trust_by_flag() -> None:
    """Apply every setting of the project in this process."""
    _by_flag[:] = [True]


@contextlib.contextmanager
def trusting_project() -> Iterator[None]:
    """Apply every setting within the context, for a project that this process has created."""
    before = list(_by_flag)
    trust_by_flag()
    try:
        yield
    finally:
        _by_flag[:] = before


def is_by_flag() -> bool:
    """Return True if the caller trusts the project by the flag or the variable."""
    return bool(_by_flag) or os.environ.get(VARIABLE) == "1"


def ignore(root: Path, keys: Iterable[str]) -> None:
    """Store the ignored settings of a project; a later call replaces them."""
    _ignored[root] = tuple(keys)


def notices() -> list[str]:
    """Return one warning for each project with ignored settings."""
    return [
        f"ignored from reflectloop.toml (not trusted): {join_first(keys, _NAMED)}; to allow: {command_for(root)}"
        for root, keys in _ignored.items()
        if keys
    ]


def command_for(root: Path) -> str:
    """Return the command that trusts a project, for the current folder."""
    try:
        here = Path.cwd().is_relative_to(root)
    except OSError:  # the current folder was removed
        here = False
    return "reflectloop trust" if here else f"reflectloop trust --project {shlex.quote(str(root))}"
