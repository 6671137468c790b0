"""Let `git push` send only commits whose trees are proven, from what the remote has, by signed receipts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop.engine.gating import receipts
from reflectloop.engine.gating.background import PROSE
from reflectloop.errors import GateRejected, InvalidInput
from reflectloop.system.git import Git
from reflectloop.terms import OutcomeWord
from reflectloop.workspace import project, tree_diff
from reflectloop.workspace.folders import Folders

_NONE = "0"  # an id of zeros stands for no commit
_MOST = 500  # receipts that are looked at


class PushedRef(NamedTuple):
    """One line that git gives to the hook."""

    name: str
    commit: str
    remote_commit: str


def read(text: str) -> list[PushedRef]:
    """Return what is pushed; deleted branches are left out."""
    out = []
    for line in text.splitlines():
        words = line.split()
        if len(words) != 4:  # noqa: PLR2004 - as githooks(5) says
            raise InvalidInput(f"not a line of git's pre-push: {line[:200]!r}", next_step="see githooks(5)")
        if set(words[1]) != {_NONE}:
            out.append(PushedRef(words[0], words[1], "" if set(words[3]) == {_NONE} else words[3]))
    return out


def refuse_unproven(folders: Folders, pushed: list[PushedRef]) -> None:
    """Raise GateRejected for the first ref whose tree no chain of receipts reaches from a tree of the remote."""
    git = project.open_project(folders.root).git()
    proven = dict.fromkeys(_edges(folders))
    for ref in pushed:
        starts = set(_remote_trees(git, ref))
        tree = _tree(git, ref.commit)
        if tree in starts or any(_is_prose(git, start, tree) for start in starts):
            continue
        if tree not in _reached(starts, list(proven)):
            raise GateRejected(
                f"{ref.name} at {ref.commit[:10]} has no receipt: nothing shows that this change passes its checks",
                next_step=f"reflectloop verify --branch {ref.commit[:10]} --base {ref.remote_commit[:10] or 'REV'}",
            )


def _remote_trees(git: Git, ref: PushedRef) -> Iterator[str]:
    """Yield the trees that the remote is known to have: of the ref itself, and of the commits where it left others."""
    if ref.remote_commit and git.attempt("cat-file", "-e", ref.remote_commit).code == 0:
        yield _tree(git, ref.remote_commit)
    listed = git.attempt("for-each-ref", "--format=%(objectname)", "refs/remotes")
    for commit in listed.stdout.decode().split()[:50]:
        joint = git.attempt("merge-base", commit, ref.commit)
        if joint.code == 0:
            yield _tree(git, joint.stdout.decode().strip())


def _tree(git: Git, commit: str) -> str:
    return git.line("rev-parse", f"{commit}^{{tree}}")


def _is_prose(git: Git, base: str, tree: str) -> bool:
    names = tree_diff.changed_names(git, base, tree)
    return all(os.fsdecode(name).lower().endswith(PROSE) for name in names)


def _edges(folders: Folders) -> Iterator[tuple[str, str]]:
    """Yield base and tree of every receipt that passed and that this user's engine signed."""
    paths = sorted(folders.own.glob("verifications/*/receipt.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in paths[-_MOST:]:
        record = _record(path)
        if record.get("outcome") != OutcomeWord.PASS:
            continue
        if receipts.checked(folders.root, path.parent.name).data()["authenticated"]:
            yield str(record.get("base_tree")), str(record.get("tree"))


def _record(path: Path) -> dict[str, object]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _reached(starts: set[str], edges: list[tuple[str, str]]) -> set[str]:
    reached, grown = set(starts), True
    while grown:
        more = {tree for base, tree in edges if base in reached} - reached
        reached |= more
        grown = bool(more)
    return reached
