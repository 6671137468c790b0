"""`trust`: show what a project's settings would allow, and record that the user agrees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from reflectloop import config
from reflectloop.errors import ReflectloopError
from reflectloop.system import clock
from reflectloop.trust import Grant, ignore, record
from reflectloop.trust.digests import digest
from reflectloop.trust.record import TrustEntry
from reflectloop.workspace import base_settings, project

Answer = Literal["nothing to trust", "trusted already", "trusted", "not trusted", "revoked", "was not trusted"]


class TrustQuestion(NamedTuple):
    """The grants that a project asks for; `changed` names those that changed since the user last agreed."""

    root: Path
    grants: tuple[Grant, ...]
    changed: tuple[str, ...]


class TrustAnswer(NamedTuple):
    asked: TrustQuestion
    answer: Answer


def ask(start: Path, agree: Callable[[TrustQuestion], bool]) -> TrustAnswer:
    """Show what the project's settings would allow; if the user agrees, record exactly what was shown."""
    root = project.locate(start)
    grants = (*config.sources(root).split.grants, *_judging(root))
    ignore(root, ())  # no warning that they are ignored: the user is asked about them now
    asked = TrustQuestion(root, grants, tuple(record.changed_grants(root, grants)))
    if not grants:
        return TrustAnswer(asked, "nothing to trust")
    if record.is_trusted(root, grants):
        return TrustAnswer(asked, "trusted already")
    # Before the user is asked: a file that changes in the meantime is not what was agreed to.
    digests = {grant.key: digest(grant, root) for grant in grants}
    if not agree(asked):
        return TrustAnswer(asked, "not trusted")
    record.trust(root, digests, clock.stamp(clock.now()))
    return TrustAnswer(asked, "trusted")


def _judging(root: Path) -> list[Grant]:
    """Return the settings that judge changes, if the last commit has others or the user trusted some already."""
    try:
        home = project.open_project(root)
    except ReflectloopError:  # without a commit there is nothing to compare with
        return []
    settings = base_settings.at_commit(home, home.head)
    trusted = record.is_trusted(root, [settings.grant])
    return [settings.grant] if settings.differing or trusted else []


def revoke(start: Path) -> TrustAnswer:
    """Revoke the user's agreement."""
    root = project.locate(start)
    known = record.revoke(root)
    return TrustAnswer(TrustQuestion(root, (), ()), "revoked" if known else "was not trusted")


def known() -> dict[str, TrustEntry]:
    """Return every project that the user trusts."""
    return record.read()
