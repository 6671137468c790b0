"""Turns a working tree into a git tree, without letting anything in that tree run.

`git add -A` is not used: where the tree holds a repository of its own it starts `git status` in there,
and that repository's configuration can name programs to run. Listing and indexing by name does not.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop.system import files, git, tree_walk
from reflectloop.system.git import Git, GitFailed
from reflectloop.system.write_guard import GitStuck
from reflectloop.workspace.project import KEPT_OUT

_UNREADABLE = re.compile(rb"(?:open\(\"|could not open directory '|readlink\(\"|Unable to process path )([^'\"\n]+)")
# Rules that are a link: git says so, and goes by none of them.
_LINKED_RULES = re.compile(
    rb"warning: unable to access '(?:.*/)?\.git(?:attributes|ignore)': Too many levels of symbolic links"
)
_KEPT_OUT = tuple(path.encode() for path in KEPT_OUT)
_IGNORING = b"Ignoring path "
_SHOWN = 120  # of a name, in a message
_NAMED = 5


class Unrecordable(Exception):
    """What stands in the work tree cannot be taken as it is; whose fault that is, the caller knows."""

    def __init__(self, names: list[str], why: str) -> None:
        self.names = names
        super().__init__(why)


class RecordedTree(NamedTuple):
    tree: str
    nested: tuple[str, ...]  # repositories inside the tree; they are left out
    refused: tuple[str, ...] = ()  # files with names that git takes for its own; they are left out too


Inspect = Callable[[Git, list[bytes]], None]


def record(source: Git, leave_out: tuple[str, ...], inspect: Inspect | None = None) -> RecordedTree:
    """The tree id of what stands in the work tree now: tracked and untracked, not left out.

    `inspect` sees the names of what changed before any of it is stored. TimeoutError when `source` has a time to
    end by, and it came.
    """
    try:
        listing = source.attempt("ls-files", "-z", "--modified", "--others", "--deleted", *leave_out)
    except GitStuck as fault:
        name = files.display(str(fault))
        raise Unrecordable([name], f"git would wait for ever on {name!r}, which is no file") from fault
    said = b"\n".join(line for line in listing.stderr.splitlines() if not _LINKED_RULES.fullmatch(line))
    if listing.code or said:
        # A folder that cannot be read would otherwise look like deleted files.
        raise _unreadable(source, said, git.paths(listing.stdout))
    names = dict.fromkeys(git.paths(listing.stdout))
    nested = [name for name in names if name.endswith(b"/")]
    named = [name for name in names if not name.endswith(b"/") and not _ours(name)]
    try:
        changed = _in_order(named, source.work_tree or Path())
        if changed and inspect:
            inspect(source, changed)
    except TimeoutError:
        raise
    except OSError as fault:
        raise _unreadable(source, str(fault).encode("utf-8", "replace"), named) from fault
    refused = _index(source, changed) if changed else []
    return RecordedTree(
        source.line("write-tree"),
        tuple(files.display(name.rstrip(b"/")) for name in nested),
        tuple(files.display(name) for name in refused),
    )


def _index(source: Git, changed: list[bytes]) -> list[bytes]:
    """Put what changed into the index; returns the names that git refuses to take, such as `.GIT/config`."""
    names = b"\0".join(changed) + b"\0"
    done = source.attempt("update-index", "-z", "--add", "--remove", "--replace", "--stdin", stdin=names)
    if done.code:
        try:
            source.refuse(["update-index"], done)
        except GitFailed as fault:
            raise _unreadable(source, fault.stderr.encode(), changed) from fault
    if _IGNORING not in done.stderr:
        return []
    return [name for name in changed if _IGNORING + name + b"\n" in done.stderr]


def _in_order(names: list[bytes], root: Path) -> list[bytes]:
    """Sorted, so that a file that became a folder leaves the index before what lies in the folder enters it.

    Where a folder became a file or a link, what lay in it goes with it and is not named again.
    """
    with tree_walk.opened(root) as top:
        known = {name for name in names if not _is_folder(name, top)}
    return [name for name in sorted(names) if not any(above in known for above in _above(name))]


def _is_folder(name: bytes, top: int) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(name, dir_fd=top).st_mode)
    except OSError:
        return False


def _above(name: bytes) -> Iterator[bytes]:
    while b"/" in name:
        name = name.rsplit(b"/", 1)[0]
        yield name


def _ours(name: bytes) -> bool:
    return any(name == kept or name.startswith(kept + b"/") for kept in _KEPT_OUT)


def _unreadable(source: Git, said: bytes, listed: list[bytes]) -> Unrecordable:
    """Git stops at the first file it cannot read; whoever must mend it wants to know all of them."""
    root = os.fsencode(source.work_tree or "")
    closed = [name for name in listed if _is_closed(root + b"/" + name)]
    found = dict.fromkeys(files.display(name) for name in (*_UNREADABLE.findall(said), *closed))
    named = [_described(root, name) for name in found]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    words = ", ".join(named[:_NAMED]) + more or said.decode("utf-8", "replace").strip()[:500]
    return Unrecordable(list(found)[:20], f"cannot record {words}")


def _is_closed(path: bytes) -> bool:
    return os.path.isfile(path) and not os.path.islink(path) and not os.access(path, os.R_OK)  # noqa: PTH113, PTH114


def _described(root: bytes, name: str) -> str:
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    try:
        mode = os.lstat(root + b"/" + os.fsencode(name)).st_mode
    except OSError:
        return repr(shown)
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    kind = kinds.get(stat.S_IFMT(mode))
    return f"{shown!r} ({kind}; only files, folders and links can be recorded)" if kind else f"{shown!r} (not readable)"


def changed_since(root: Path, mark_ns: int) -> bool:
    """Whether anything below `root` was touched at or after `mark_ns`; cheap, and wrong only towards True.

    Change times are set by the kernel: a command cannot put them back, and a name that came or went shows
    on its folder.
    """
    try:
        return any(_touched_in(folder, mark_ns) for folder in tree_walk.walk(root))
    except (FileNotFoundError, NotADirectoryError):
        return True  # it went while we looked


def _touched_in(folder: tree_walk.Folder, mark_ns: int) -> bool:
    if folder.is_top:
        folder.entries = [entry for entry in folder.entries if entry.name != ".git"]
    if os.fstat(folder.fd).st_ctime_ns >= mark_ns:
        return True
    inside = (entry for entry in folder.entries if not entry.is_dir(follow_symlinks=False))
    return any(entry.stat(follow_symlinks=False).st_ctime_ns >= mark_ns for entry in inside)


def mark(beside: Path) -> int:
    """Now, by the clock of the file system that `beside` lies on."""
    probe = beside / ".mark"
    probe.touch()
    os.utime(probe)
    stamp = probe.lstat().st_ctime_ns
    probe.unlink()
    return stamp
