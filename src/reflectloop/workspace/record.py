"""Turns a working tree into a git tree, without letting anything in that tree run.

`git add -A` is not used: where the tree holds a repository of its own it starts `git status` in there,
and that repository's configuration can name programs to run. Listing and indexing by name does not.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import SandboxCreateFailed
from reflectloop.world import files, git
from reflectloop.world.git import Git, GitFailed

_UNREADABLE = re.compile(rb"(?:open\(\"|could not open directory '|readlink\(\"|Unable to process path )([^'\"\n]+)")


class Recorded(NamedTuple):
    tree: str
    nested: tuple[str, ...]  # repositories inside the tree; they are left out


def record(source: Git, leave_out: tuple[str, ...]) -> Recorded:
    """The tree id of what stands in the work tree now: tracked and untracked, not left out."""
    listing = source.attempt("ls-files", "-z", "--modified", "--others", "--deleted", *leave_out)
    if listing.code or listing.stderr:
        # A folder that cannot be read would otherwise look like deleted files.
        raise _unreadable(source, listing.stderr)
    names = dict.fromkeys(git.paths(listing.stdout))
    nested = [name for name in names if name.endswith(b"/")]
    # Sorted, so that a file that became a folder leaves the index before what lies in the folder enters it.
    changed = sorted(name for name in names if not name.endswith(b"/"))
    if changed:
        try:
            source.run(
                "update-index",
                "-z",
                "--add",
                "--remove",
                "--replace",
                "--stdin",
                stdin=b"\0".join(changed) + b"\0",
            )
        except GitFailed as fault:
            raise _unreadable(source, fault.said.encode()) from fault
    return Recorded(source.line("write-tree"), tuple(files.display(name.rstrip(b"/")) for name in nested))


def _unreadable(source: Git, said: bytes) -> SandboxCreateFailed:
    names = [files.display(name) for name in _UNREADABLE.findall(said)]
    named = ", ".join(repr(name) for name in names[:5]) or said.decode("utf-8", "replace").strip()
    return SandboxCreateFailed(
        f"cannot read {named} in {source.work_tree}",
        next_step="make it readable (chmod u+rX) or list it in .gitignore",
        missing=tuple(names[:20]),
    )


def changed_since(root: Path, mark_ns: int) -> bool:
    """Whether anything below `root` was touched at or after `mark_ns`; cheap, and wrong only towards True.

    Change times are set by the kernel: a command cannot put them back, and a name that came or went shows
    on its folder.
    """
    stack = [os.fspath(root)]
    while stack:
        folder = stack.pop()
        if os.lstat(folder).st_ctime_ns >= mark_ns:
            return True
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != ".git" or folder != os.fspath(root):
                        stack.append(entry.path)
                elif entry.stat(follow_symlinks=False).st_ctime_ns >= mark_ns:
                    return True
    return False


def mark(beside: Path) -> int:
    """Now, by the clock of the file system that `beside` lies on."""
    probe = beside / ".mark"
    probe.touch()
    os.utime(probe)
    stamp = probe.lstat().st_ctime_ns
    probe.unlink()
    return stamp
