"""Refuses or removes what a command left in a workspace and what would block git or the next run."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from reflectloop.errors import SandboxCreateFailed
from reflectloop.system import beneath, files, tree_walk
from reflectloop.workspace.record_tree import Unrecordable

_READ_BY_GIT = frozenset((".gitignore", ".gitattributes", ".gitmodules"))
_LARGEST_RULES = 1 << 20  # bytes of a rule file
_MOST_RULES = 20_000  # lines of a rule file; git tries every line on every file


def refuse_traps(root: Path, since_ns: int | None = None) -> None:
    """Raise Unrecordable for pipes that git would open; with `since_ns`, also for large rule files written since."""
    for folder in _folders(root):
        for entry in folder.entries:
            if entry.is_file(follow_symlinks=False):
                if since_ns is not None and entry.name in _READ_BY_GIT:
                    _refuse_large(folder, entry, since_ns)
            elif is_special(entry):
                _refuse_special(folder, entry)


def remove_special(root: Path) -> None:
    """Delete every pipe, socket and device below `root`, also in folders without permissions.

    `git clean` ignores them, and git would then block on a pipe with the name of a file it reads.
    """
    for folder in _folders(root):
        for entry in folder.entries:
            if is_special(entry):
                os.unlink(entry.name, dir_fd=folder.fd)
            elif entry.is_dir(follow_symlinks=False):
                tree_walk.open_up(entry.name, entry.stat(follow_symlinks=False), folder.fd)


def reset_modes(repo: Path) -> None:
    """Reset file modes that git does not record, so that they do not pass to the next run."""
    mask = os.umask(0)
    os.umask(mask)
    repo.chmod(0o700)
    for folder in tree_walk.walk(repo):
        _refuse_inherited(folder)
        for entry in folder.entries:
            mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
            plain = (0o777 if entry.is_dir(follow_symlinks=False) or mode & 0o100 else 0o666) & ~mask
            if mode != plain and not entry.is_symlink():
                os.chmod(entry.name, plain, dir_fd=folder.fd)


def _refuse_inherited(folder: tree_walk.Folder) -> None:
    """Raise if a folder has a default ACL: such a workspace is removed, not repaired."""
    with contextlib.suppress(OSError):
        if "system.posix_acl_default" not in os.listxattr(folder.fd):
            return
        raise SandboxCreateFailed(f"a command left an access list on {folder.name}")


def _folders(root: Path) -> Iterator[tree_walk.Folder]:
    """Walk all folders that can be entered, except the top-level `.git`, which our git does not read."""
    for folder in tree_walk.walk(root, passing=(OSError,)):
        if folder.is_top:
            folder.entries = [entry for entry in folder.entries if entry.name != ".git"]
        yield folder


def is_special(entry: os.DirEntry[str]) -> bool:
    """Return True for a pipe, a socket or a device."""
    return not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False) or entry.is_symlink())


def _refuse_special(folder: tree_walk.Folder, entry: os.DirEntry[str]) -> None:
    path = folder.within(entry.name)
    if entry.name not in _READ_BY_GIT and ".git" not in path.split("/"):
        return
    status = entry.stat(follow_symlinks=False)
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        return  # nothing opens such a device; in the upper layer of a workspace it stands for a deleted file
    if not stat.S_ISSOCK(status.st_mode):  # a socket cannot be opened, so git does not block
        name = files.display(path)
        kind = beneath.kind_of(status)
        raise Unrecordable([name], f"git would wait forever for {name!r}, which is {kind}, not a file")


def _refuse_large(folder: tree_walk.Folder, entry: os.DirEntry[str], since_ns: int) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
        if status.st_ctime_ns < since_ns:
            return
        with beneath.open_file(folder.fd, entry.name) as file:
            content = file.read(_LARGEST_RULES + 1)
    except OSError:
        return  # git will report the problem
    lines = content.count(b"\n")
    if status.st_size > _LARGEST_RULES or lines > _MOST_RULES:
        name = files.display(folder.within(entry.name))
        raise Unrecordable(
            [name],
            f"{name!r} has {status.st_size / 1e6:.1f} MB of rules; git would try each on every file for hours"
            f" (the limit is {_LARGEST_RULES / 1e6:.0f} MB and {_MOST_RULES} lines)",
        )
