"""The files to search: a working folder with its changes, or a tree of git. Each file has a key by its content."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

from reflectloop.context import filekinds
from reflectloop.errors import InvalidInput
from reflectloop.system import beneath, tree_walk
from reflectloop.system.git import Git
from reflectloop.workspace.project import KEPT_OUT, LEFT_OUT

_SOME = 200  # files that are read from git at once
# "H MODE ID STAGE", a tab and a path; the same again with "C" if it was changed, and "? PATH" if it is new.
_TRACKED = re.compile(r"\0[A-Z] 100(?:644|755|664) ([0-9a-f]+) \d\t((?:[^\0]*/)?)([^\0]+)")
_DIFFERS = re.compile(rb"\0(?:\? ([^\0]+)|C [^\t\0]+\t([^\0]+))")
_REGULAR = frozenset(("100644", "100755", "100664"))
_MOST_FILES = 400_000
_KEPT_OUT = tuple(f"{folder}/" for folder in KEPT_OUT)
_NOT_WALKED = frozenset((".git", ".hg", ".svn", *(name.rstrip("/") for name in LEFT_OUT if name.endswith("/"))))


class FileStat(NamedTuple):
    """The facts of a file by which a change is noticed."""

    mtime_ns: int
    size: int
    inode: int


class Listing(NamedTuple):
    """The files of a tree; in a working folder also the files as git tracks them, which have a name as a whole."""

    files: dict[str, str]  # path -> key of its content
    tracked: Mapping[str, str] = MappingProxyType({})  # differs from `files` in the paths of `changed` only
    base: str = ""  # the name of `tracked`
    changed: frozenset[str] = frozenset()


class ListingMemory(Protocol):
    """Remembers the keys of files that git does not know, by their facts, and sets of tracked files."""

    def key(self, path: str, facts: FileStat) -> str | None: ...
    def remember(self, path: str, facts: FileStat, key: str) -> None: ...
    def base(self, name: str) -> dict[str, str] | None: ...


class NoMemory:
    """Remembers nothing: every changed file is read."""

    def key(self, path: str, facts: FileStat) -> str | None:
        del path, facts
        return None

    def remember(self, path: str, facts: FileStat, key: str) -> None:
        del path, facts, key

    def base(self, name: str) -> dict[str, str] | None:
        del name
        return None


class Tree(Protocol):
    """A set of files; `listing` gives a key for the content of each path."""

    @property
    def tip(self) -> str | None:
        """The commit whose history belongs to it."""

    def listing(self, memory: ListingMemory) -> Listing: ...
    def read(self, wanted: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        """Yield path and content for paths with their keys; files that vanished are left out."""


def blob_id(data: bytes) -> str:
    """Return the id that git gives to this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class GitTree:
    """A commit or tree of a repository."""

    git: Git
    name: str
    tip: str | None = None
    suffixes: tuple[str, ...] = ()  # only files that end so
    without_tests: bool = False

    def listing(self, memory: ListingMemory) -> Listing:
        del memory
        out = {}
        listing = self.git.run("ls-tree", "-r", "-z", "--full-tree", self.name).decode("utf-8", "surrogateescape")
        for line in listing.split("\0"):
            facts, _, path = line.partition("\t")
            if facts[:6] in _REGULAR and self._takes(path):
                out[path] = facts.split()[2]
        return Listing(out)

    def _takes(self, path: str) -> bool:
        if self.suffixes and not path.endswith(self.suffixes):
            return False
        return _takes(path) and not (self.without_tests and filekinds.is_test(path))

    def read(self, wanted: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        paths = list(wanted)
        for at in range(0, len(paths), _SOME):
            yield from _read_blobs(self.git, paths[at : at + _SOME], wanted)


def _read_blobs(git: Git, paths: Sequence[str], keys: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    sizes = git.run("cat-file", "--batch-check", stdin="".join(f"{keys[path]}\n" for path in paths).encode())
    small = [
        path
        for path, line in zip(paths, sizes.splitlines(), strict=True)
        if line.split()[-1].isdigit() and int(line.split()[-1]) <= filekinds.LARGEST
    ]
    answer = git.run("cat-file", "--batch", stdin="".join(f"{keys[path]}\n" for path in small).encode())
    at = 0
    for path in small:
        end = answer.index(b"\n", at)
        size = int(answer[at:end].split()[2])
        yield path, answer[end + 1 : end + 1 + size]
        at = end + size + 2
    yield from ((path, b"\0") for path in paths if path not in set(small))  # too large: known, not indexed


@dataclass(frozen=True)
class WorkTree:
    """A working folder of git: tracked files as they are now, and new ones that are not ignored."""

    root: Path
    tip: str | None = None

    def listing(self, memory: ListingMemory) -> Listing:
        git = Git(cwd=self.root)
        answer = b"\0" + git.run("ls-files", "-z", "-t", "-s", "-c", "-m", "-o", "--exclude-standard")
        tracked = _DIFFERS.sub(b"", answer)
        base = hashlib.sha256(tracked).hexdigest()
        known = memory.base(base) or _tracked_files(tracked.decode("utf-8", "surrogateescape"))
        out = dict(known)
        changed = frozenset(
            (new or edited).decode("utf-8", "surrogateescape") for new, edited in _DIFFERS.findall(answer)
        )
        with tree_walk.open_folder(self.root) as top:
            for path in sorted(changed):
                out.pop(path, None)
                if _takes(path) and (key := _key_now(top, path, memory)):
                    out[path] = key
        return Listing(out, known, base, changed)

    def read(self, wanted: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        return _read_files(self.root, wanted)


@dataclass(frozen=True)
class PlainFolder:
    """A folder without git."""

    root: Path
    tip: str | None = None

    def listing(self, memory: ListingMemory) -> Listing:
        out: dict[str, str] = {}
        with tree_walk.open_folder(self.root) as top:
            for path in islice(filter(_takes, _walk(self.root)), _MOST_FILES):
                if key := _key_now(top, path, memory):
                    out[path] = key
        return Listing(out)

    def read(self, wanted: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        return _read_files(self.root, wanted)


def _tracked_files(listing: str) -> dict[str, str]:
    entries = _TRACKED.findall(listing)
    folders = set(filter(_takes_below, {folder for _, folder, _ in entries}))
    takes = filekinds.may_index_name
    return {folder + name: key for key, folder, name in entries if folder in folders and takes(name)}


def _takes(path: str) -> bool:
    at = path.rfind("/") + 1
    return _takes_below(path[:at]) and filekinds.may_index_name(path[at:])


@lru_cache(10_000)
def _takes_below(folder: str) -> bool:
    return not folder.startswith(_KEPT_OUT) and filekinds.may_index_below(folder)


def _walk(root: Path) -> Iterator[str]:
    """Yield the regular files below a folder; links are not followed."""
    stack = [""]
    while stack:
        folder = stack.pop()
        try:
            with os.scandir(root / folder) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in ordered:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _NOT_WALKED:
                    stack.append(f"{folder}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                yield f"{folder}{entry.name}"


def _key_now(top: int, path: str, memory: ListingMemory) -> str | None:
    """Return the key of a file as it is now; None if it is no regular file of a fair size."""
    try:
        now = beneath.status(top, path)
    except OSError:
        return None
    if now is None or not stat.S_ISREG(now.st_mode) or now.st_size > filekinds.LARGEST:
        return None
    facts = FileStat(now.st_mtime_ns, now.st_size, now.st_ino)
    key = memory.key(path, facts)
    if key is None:
        data = _read(top, path)
        if data is None:
            return None
        key = blob_id(data)
        memory.remember(path, facts, key)
    return key


def _read(top: int, path: str) -> bytes | None:
    """Return the content of a regular file; no link is followed. A file that is too large counts as binary."""
    try:
        return beneath.read(top, path, filekinds.LARGEST)
    except beneath.NotPlain as fault:
        return b"\0" if fault.errno == errno.EFBIG else None
    except OSError:
        return None


def _read_files(root: Path, wanted: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    with tree_walk.open_folder(root) as top:
        for path in wanted:
            data = _read(top, path)
            if data is not None:
                yield path, data


def object_id(git: Git, name: str) -> str | None:
    """Return the id of an object by any of its names; None if there is none."""
    answer = git.attempt("rev-parse", "--verify", "--quiet", "--end-of-options", name)
    return answer.stdout.decode("ascii", "replace").strip() or None if answer.code == 0 else None


def commit_of(git: Git, name: str) -> str:
    """Return the id of a commit by any of its names."""
    commit = object_id(git, f"{name}^{{commit}}")
    if commit is None:
        raise InvalidInput(f"there is no commit {name!r} here", next_step="git log --oneline")
    return commit
