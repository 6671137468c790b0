"""Records a working tree as a git tree, without running anything from that tree.

`git add -A` is not used: in a nested repository it runs `git status`, and that repository's configuration can name
programs to run. Listing and indexing files by name does not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop.system import files, git, tree_walk
from reflectloop.system.git import Git, GitFailed, GitStuck
from reflectloop.system.patterns import lazy
from reflectloop.terms import join_first
from reflectloop.workspace.project import KEPT_OUT

_UNREADABLE = lazy(rb"(?:open\(\"|could not open directory '|readlink\(\"|Unable to process path )([^'\"\n]+)")
# Git warns about a rule file that is a link and ignores it.
_LINKED_RULES = lazy(
    rb"warning: unable to access '(?:.*/)?\.git(?:attributes|ignore)': Too many levels of symbolic links"
)
_KEPT_OUT = tuple(path.encode() for path in KEPT_OUT)
_IGNORING = b"Ignoring path "
_SHOWN = 120  # characters of a name in a message
_NAMED = 5
_EVERYWHERE = ("--modified", "--others", "--deleted")
_MOST_NAMED = 400  # paths that git compares with each file of the index


class Unrecordable(Exception):
    """The working tree cannot be recorded; the caller knows who caused that."""

    def __init__(self, names: list[str], why: str) -> None:
        self.names = names
        super().__init__(why)


class RecordedTree(NamedTuple):
    tree: str
    nested: tuple[str, ...]  # nested repositories, which are left out
    refused: tuple[str, ...] = ()  # files with names that git reserves, which are left out


Inspect = Callable[[Git, list[bytes]], None]


class Within(NamedTuple):
    """The paths at or below which files can have been changed, for a working tree that knows them."""

    paths: frozenset[bytes]
    since_ns: int  # when the index matched the files
    check: Callable[[list[bytes], list[bytes]], None]  # gets names that git calls changed elsewhere, and missing ones

    @property
    def _named(self) -> bool:
        return len(self.paths) <= _MOST_NAMED

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of `ls-files`: by name it lists tracked files too, and looks at none of them."""
        return ("-t", "--cached", "--others") if self._named else _EVERYWHERE

    @property
    def pathspecs(self) -> tuple[str, ...]:
        return ("--", *(":(top,literal)" + os.fsdecode(path) for path in sorted(self.paths))) if self._named else ()

    def select(self, listed: list[bytes], root: Path) -> list[bytes]:
        """Return the names that may have changed, after the check."""
        with tree_walk.open_folder(root) as top:
            fresh = _FreshNames(top, self.since_ns)
            if self._named:
                changed = [line[2:] for line in listed if line.startswith(b"? ") or fresh.has(line[2:])]
            else:
                changed = [name for name in listed if self.paths.intersection((name.rstrip(b"/"), *_above(name)))]
            self.check([] if self._named else sorted({*listed}.difference(changed)), fresh.missing(changed))
        return changed


class _FreshNames:
    """The names that were changed since a time: they, or a folder above them, which may have been moved."""

    def __init__(self, top: int, since_ns: int) -> None:
        self._top, self._since_ns = top, since_ns
        self._folders: dict[bytes, bool] = {}

    def has(self, name: bytes) -> bool:
        return self._is_fresh(name) or any(self._has_folder(above) for above in _above(name))

    def missing(self, names: list[bytes]) -> list[bytes]:
        return [name for name in names if _mode(name, self._top) is None]

    def _has_folder(self, name: bytes) -> bool:
        if name not in self._folders:
            self._folders[name] = self._is_fresh(name)
        return self._folders[name]

    def _is_fresh(self, name: bytes) -> bool:
        try:
            return os.lstat(name, dir_fd=self._top).st_ctime_ns >= self._since_ns
        except OSError:
            return True


def record_tree(
    source: Git, leave_out: tuple[str, ...], inspect: Inspect | None = None, within: Within | None = None
) -> RecordedTree:
    """Record the tracked and untracked files and return their tree.

    `inspect` is called with the changed names before anything is stored. `within` says where changes can be.
    TimeoutError is raised at the deadline of `source`.
    """
    try:
        options, places = (within.options, within.pathspecs) if within else (_EVERYWHERE, ())
        listing = source.attempt("ls-files", "-z", *options, *leave_out, *places)
    except GitStuck as fault:
        name = files.display(str(fault))
        raise Unrecordable([name], f"git would wait forever for {name!r}, which is not a file") from fault
    warnings = b"\n".join(line for line in listing.stderr.splitlines() if not _LINKED_RULES.fullmatch(line))
    if listing.code or warnings:
        # Files in an unreadable folder would look deleted otherwise.
        raise _unreadable(source, warnings, [] if within else git.paths(listing.stdout))
    listed = git.paths(listing.stdout)
    names = dict.fromkeys(within.select(listed, source.work_tree or Path()) if within else listed)
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
    """Add the changed files to the index; return the names that git refuses, such as `.GIT/config`."""
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
    """Sort the names, so that a file that became a folder leaves the index before the folder's files enter it.

    If a folder became a file or a link, the names below it are dropped, because they are removed with it.
    """
    with tree_walk.open_folder(root) as top:
        known = {name for name in names if not stat.S_ISDIR(_mode(name, top) or 0)}
    return [name for name in sorted(names) if not any(above in known for above in _above(name))]


def _mode(name: bytes, top: int) -> int | None:
    try:
        return os.lstat(name, dir_fd=top).st_mode
    except OSError:
        return None


def _above(name: bytes) -> Iterator[bytes]:
    while b"/" in name:
        name = name.rsplit(b"/", 1)[0]
        yield name


def _ours(name: bytes) -> bool:
    return any(name == folder or name.startswith(folder + b"/") for folder in _KEPT_OUT)


def _unreadable(source: Git, stderr: bytes, listed: list[bytes]) -> Unrecordable:
    """Return an error that names all unreadable files; git itself stops at the first."""
    root = os.fsencode(source.work_tree or "")
    closed = [name for name in listed if _is_closed(root + b"/" + name)]
    names = dict.fromkeys(files.display(name) for name in (*_UNREADABLE.findall(stderr), *closed))
    named = [_described(root, name) for name in names]
    text = join_first(named, _NAMED) or stderr.decode("utf-8", "replace").strip()[:500]
    return Unrecordable(list(names)[:20], f"cannot record {text}")


def _is_closed(path: bytes) -> bool:
    return os.path.isfile(path) and not os.path.islink(path) and not os.access(path, os.R_OK)  # noqa: PTH113, PTH114


def _described(root: bytes, name: str) -> str:
    short = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    try:
        mode = os.lstat(root + b"/" + os.fsencode(name)).st_mode
    except OSError:
        return repr(short)
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    kind = kinds.get(stat.S_IFMT(mode))
    return f"{short!r} ({kind}; only files, folders and links can be recorded)" if kind else f"{short!r} (not readable)"


def changed_since(root: Path, mark_ns: int) -> bool:
    """Return True if anything below `root` was changed at or after `mark_ns`; cheap, and may err only towards True.

    The kernel sets change times: a command cannot reset them, and an added or removed name changes its folder's.
    """
    try:
        return any(_touched_in(folder, mark_ns) for folder in tree_walk.walk(root))
    except (FileNotFoundError, NotADirectoryError):
        return True  # removed while we looked


def _touched_in(folder: tree_walk.Folder, mark_ns: int) -> bool:
    if folder.is_top:
        folder.entries = [entry for entry in folder.entries if entry.name != ".git"]
    if os.fstat(folder.fd).st_ctime_ns >= mark_ns:
        return True
    inside = (entry for entry in folder.entries if not entry.is_dir(follow_symlinks=False))
    return any(entry.stat(follow_symlinks=False).st_ctime_ns >= mark_ns for entry in inside)


def time_mark(folder: Path) -> int:
    """Return the present time by the clock of the file system of `beside`."""
    probe = folder / ".mark"
    probe.touch()
    os.utime(probe)
    stamp = probe.lstat().st_ctime_ns
    probe.unlink()
    return stamp
