"""Refuses or removes what a command left to hold the engine up, before git looks at it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from reflectloop.system import beneath, files, tree_walk
from reflectloop.workspace.record_tree import Unrecordable

_READ_BY_GIT = frozenset((".gitignore", ".gitattributes", ".gitmodules"))
_LARGEST_RULES = 1 << 20  # bytes of a file of rules
_MOST_RULES = 20_000  # lines of one; git tries every line on every file


def refuse(root: Path, since_ns: int | None = None) -> None:
    """Refuse pipes that git would open, and wait on for ever; with `since_ns`, also large rules written since then."""
    for folder in _folders(root):
        for entry in folder.entries:
            if entry.is_file(follow_symlinks=False):
                if since_ns is not None and entry.name in _READ_BY_GIT:
                    _refuse_large(folder, entry, since_ns)
            elif _is_special(entry):
                _refuse_special(folder, entry)


def remove_special(root: Path) -> None:
    """Delete every pipe, socket and device below `root`, also in folders that a command shut.

    `git clean` passes over them, and git then waits for ever on a pipe that has the name of a file it reads.
    """
    for folder in _folders(root):
        for entry in folder.entries:
            if _is_special(entry):
                os.unlink(entry.name, dir_fd=folder.fd)
            elif entry.is_dir(follow_symlinks=False):
                tree_walk.open_up(entry.name, entry.stat(follow_symlinks=False), folder.fd)


def _folders(root: Path) -> Iterator[tree_walk.Folder]:
    """Walk all folders that can be entered, without the `.git` at the top: no git of ours reads that."""
    for folder in tree_walk.walk(root, passing=(OSError,)):
        if folder.is_top:
            folder.entries = [entry for entry in folder.entries if entry.name != ".git"]
        yield folder


def _is_special(entry: os.DirEntry[str]) -> bool:
    """Tell whether it is a pipe, a socket or a device."""
    return not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False) or entry.is_symlink())


def _refuse_special(folder: tree_walk.Folder, entry: os.DirEntry[str]) -> None:
    path = folder.within(entry.name)
    if entry.name not in _READ_BY_GIT and ".git" not in path.split("/"):
        return
    found = entry.stat(follow_symlinks=False)
    if not stat.S_ISSOCK(found.st_mode):  # which cannot be opened, so nobody waits on it
        name = files.display(path)
        kind = beneath.kind_of(found)
        raise Unrecordable([name], f"git would wait for ever on {name!r}, which is no file but {kind}")


def _refuse_large(folder: tree_walk.Folder, entry: os.DirEntry[str], since_ns: int) -> None:
    try:
        found = entry.stat(follow_symlinks=False)
        if found.st_ctime_ns < since_ns:
            return
        with beneath.open_file(folder.fd, entry.name) as file:
            content = file.read(_LARGEST_RULES + 1)
    except OSError:
        return  # git says what is wrong with it
    lines = content.count(b"\n")
    if found.st_size > _LARGEST_RULES or lines > _MOST_RULES:
        name = files.display(folder.within(entry.name))
        raise Unrecordable(
            [name],
            f"{name!r} has {found.st_size / 1e6:.1f} MB of rules; git would try each on every file for hours"
            f" (the limit is {_LARGEST_RULES / 1e6:.0f} MB and {_MOST_RULES} lines)",
        )
