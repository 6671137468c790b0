"""Compares trees by git: the only module that calls `diff-tree`.

git leaves out submodules if `.gitmodules` or the user's settings say so, and a patch may write `.gitmodules`. So every
call names submodules expressly.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from reflectloop.system import git as git_calls
from reflectloop.system.git import Git

SUBMODULES = "--ignore-submodules=none"  # for every comparison that reads no files
ABSENT, GITLINK = b"000000", b"160000"  # modes: nothing, and the commit of a submodule
_DIFF_TREE = ("diff-tree", "-r", SUBMODULES)


class TreeChange(NamedTuple):
    """A path at which two trees differ, with mode and object in the new tree and in the old one."""

    name: bytes
    mode: bytes
    blob: bytes
    old_mode: bytes = ABSENT
    old_blob: bytes = b""
    letter: str = ""  # git's word for the change
    source: bytes | None = None  # the old name of a renamed file


def compare(git: Git, old: str, new: str, *options: str) -> list[TreeChange]:
    """Return where two trees differ. No file counts as renamed without the option `--find-renames`."""
    if old == new:
        return []
    asked = ("-z", "--raw", "--no-abbrev", "--no-renames", *options)
    fields = iter(git.run(*_DIFF_TREE, *asked, old, new).split(b"\0"))
    changes = []
    for row in fields:
        if row:
            old_mode, mode, old_blob, blob, letter = row[1:].split(b" ")
            name, source = next(fields), None
            if letter[:1] == b"R":
                source, name = name, next(fields)
            changes.append(TreeChange(name, mode, blob, old_mode, old_blob, letter[:1].decode(), source))
    return changes


@functools.lru_cache(maxsize=2)  # a workspace asks for the same trees several times, and they never change
def tree_changes(git: Git, old: str, new: str) -> tuple[TreeChange, ...]:
    """Return where `new` differs from `old`."""
    return tuple(compare(git, old, new))


def changed_names(git: Git, old: str, new: str, *options: str, within: Sequence[str] = ()) -> list[bytes]:
    """Return the paths at which two trees differ, of those that the patterns `within` match.

    No file counts as renamed without the option `--find-renames`.
    """
    asked = ("-z", "--name-only", "--no-renames", *options, old, new)
    return git_calls.paths(git.run(*_DIFF_TREE, *asked, "--", *within))


def patch(git: Git, old: str, new: str, *options: str) -> bytes:
    """Return the difference between two trees as a patch."""
    return git.run(*_DIFF_TREE, "-p", *options, old, new)


def stream_patch(git: Git, on_chunk: Callable[[bytes], None], old: str, new: str, *options: str) -> None:
    """Pass the difference between two trees on as a patch while git writes it."""
    git.stream(on_chunk, *_DIFF_TREE, "-p", *options, old, new)
