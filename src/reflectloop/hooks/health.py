"""Find the hooks that are installed here, in the project or for the user, and whether each of them is live."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from reflectloop.commands.doctor import DoctorFinding
from reflectloop.errors import ReflectloopError
from reflectloop.hooks import install
from reflectloop.hooks.fragments import SETTINGS, Scope
from reflectloop.hooks.install import Place

_SCOPES: tuple[Scope, ...] = ("project", "user")
_GIT: tuple[str, Scope] = ("git", "project")
_LARGEST = 1 << 20


def findings(start: Path) -> list[DoctorFinding]:
    """Return a finding for each client and place with hooks of ours; one that is not live is missing."""
    return [_finding(at) for at in _places(start)]


def _places(start: Path) -> Iterator[Place]:
    for client, scope in (*itertools.product(SETTINGS, _SCOPES), _GIT):
        try:
            at = install.place(client, scope, start, Path.home())
            if _names_our_hooks(at) or install.is_entered(at):
                yield at
        except (ReflectloopError, OSError):  # no project, or settings that cannot be read, which are not ours
            continue


def _names_our_hooks(at: Place) -> bool:
    """Return True if the settings call our hooks, whoever entered them."""
    if not at.path.is_file() or at.path.stat().st_size > _LARGEST:
        return False
    text = at.path.read_text("utf-8", "replace")
    return f"--client {at.client}" in text and "reflectloop" in text


def _finding(at: Place) -> DoctorFinding:
    name = f"{at.client} hooks"
    try:
        faults = install.check(at, install.program()).faults
    except ReflectloopError as error:
        faults = [error.message]
    if faults:
        return DoctorFinding(name, "missing", "; ".join(faults), f"{at.command} --check")
    return DoctorFinding(name, "ok", f"{at.path}: every hook answers")
