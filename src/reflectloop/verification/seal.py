"""Keep the files that judge a change as they are while a check runs, and tell which of them it changed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from reflectloop.plan.globs import matches_any as is_named
from reflectloop.sandbox.sandbox import Box
from reflectloop.system import beneath, tree_walk
from reflectloop.system.inotify import FolderWatch
from reflectloop.terms import Decision
from reflectloop.verification import protected
from reflectloop.verification.protected import Protection
from reflectloop.verification.verdict import VerdictReason

# Binding a file costs more the more there are: bubblewrap reads its mount table for each. 200 take about 0.1 s.
_MOST_BOUND = 200
_MOST_WATCHED = 4000  # folders
_HASHED = 64 << 20  # bytes of all files that are read before a check; of the others only the status is compared
_PIECE = 1 << 20
_CACHE = "__pycache__"
# In the order in which they are bound. The engine's own settings are not: the mount would name the engine.
_BOUND_KINDS = ("hook", "runner", "test", "script", "fixture", "lint", "ci")
_IMPORT_ROOTS = (".", "src", "lib", "python")
_STEERING = frozenset(("hook", "runner"))  # a new file of these kinds changes what the checks do
_NOT_JUDGING = frozenset(("shadow", "artefact"))
RULE = "changed-while-checked"
LOST = "(more files than could be followed)"


@dataclass
class JudgingFiles:
    """Says which files of a tree judge the change, besides those that are protected by name."""

    protect: tuple[str, ...] = ()  # globs of the settings
    lifted: tuple[str, ...] = ()  # globs of what a person freed

    def kind_of(self, path: str) -> str | None:
        """Return the kind of a file that judges the change, or None; code that runs is told from data."""
        protection = protected.guard(path)
        if protection is not None and protection.kind not in _NOT_JUDGING:
            kind = "data" if _is_data(path, protection) else protection.kind
        elif self.protect and is_named(path, self.protect):
            kind = "test"
        else:
            return None
        return None if is_named(path, self.lifted) else kind


def _is_data(path: str, protection: Protection) -> bool:
    is_code = path.rpartition(".")[2].lower() in protected.CODE_ENDINGS
    return protection.kind == "snapshot" or (protection.kind == "fixture" and not is_code)


class _FileState(NamedTuple):
    identity: tuple[int, ...]  # inode, size, and the times that only the kernel sets
    digest: bytes | None


@dataclass
class Seal:
    """The files of one fresh workspace that judge the change."""

    repo: Path
    files: JudgingFiles
    kinds: Mapping[str, str]
    tracked: frozenset[str]
    bound: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # files that commands may only read, with inodes
    caches: tuple[str, ...] = ()  # folders whose compiled Python modules are hidden
    hidden: Path | None = None  # an empty folder outside, which hides a cache
    _states: dict[str, _FileState] = field(default_factory=dict)

    def mounts(self) -> list[tuple[Path, Path]]:
        """Return what to mount read-only: a path in the workspace, and its source.

        A path that a command replaced is left out: its source might be a link to somewhere else.
        """
        out: list[tuple[Path, Path]] = []
        with tree_walk.open_folder(self.repo) as top:
            for path, inode in self.bound.items():
                status = beneath.status(top, path)
                if status and (status.st_dev, status.st_ino) == inode:
                    out.append((Path(path), self.repo / path))
            if self.hidden is not None:
                out += [(Path(path), self.hidden) for path in self.caches if beneath.is_folder(top, path)]
        return out

    @contextmanager
    def watched(self) -> Iterator[set[str]]:
        """Yield the set that has, afterwards, each judging file that a command changed, and each new one that steers.

        Code counts if it was written at all, data if its content differs afterwards.
        """
        self._remove_caches()
        self._states = self._look()
        watch = FolderWatch(self.repo, self._folders())
        touched: set[str] = set()
        try:
            yield touched
            touched |= self._changed()
            events = watch.events()
            touched |= {f"{folder}/" for folder in events.moved if folder}
            made = {f"{folder}/{name}" if folder else name for folder, name in events.made}
            touched |= {path for path in made - self.tracked if self._steers(path)}
            touched |= {LOST} if events.lost else set()
        finally:
            watch.close()

    def is_code(self, path: str) -> bool:
        return self.kinds.get(path) != "data"

    def _steers(self, path: str) -> bool:
        protection = protected.guard(path)
        named = is_named(path, self.files.lifted)
        return protection is not None and protection.kind in _STEERING and not named

    def _folders(self) -> list[str]:
        """Return the folders with code that judges, those above them, and those that Python imports from."""
        code = (path for path, kind in self.kinds.items() if kind != "data")
        parents = dict.fromkeys(parent for path in code for parent in PurePosixPath(path).parents)
        parents |= dict.fromkeys(PurePosixPath(root) for root in _IMPORT_ROOTS if (self.repo / root).is_dir())
        return ["" if os.fspath(parent) == "." else os.fspath(parent) for parent in parents][:_MOST_WATCHED]

    def _look(self) -> dict[str, _FileState]:
        states: dict[str, _FileState] = {}
        room = _HASHED
        with tree_walk.open_folder(self.repo) as top:
            for path in self.kinds:
                status = beneath.status(top, path)
                if status is None or not stat.S_ISREG(status.st_mode):
                    continue
                room -= status.st_size
                states[path] = _FileState(_identity(status), _digest(top, path) if room >= 0 else None)
        return states

    def _changed(self) -> set[str]:
        out = set()
        with tree_walk.open_folder(self.repo) as top:
            for path, before in self._states.items():
                status = beneath.status(top, path)
                if status is not None and _identity(status) == before.identity:
                    continue
                if status is None or self.is_code(path) or before.digest is None or _digest(top, path) != before.digest:
                    out.add(path)
        return out

    def _remove_caches(self) -> None:
        """Remove compiled modules beside code that judges: a later check would run them instead of the code."""
        with tree_walk.open_folder(self.repo) as top:
            for folder in self.caches:
                try:
                    with beneath.open_folder(top, folder.split("/")) as cache:
                        for entry in list(os.scandir(cache)):
                            if not entry.is_dir(follow_symlinks=False):
                                os.unlink(entry.name, dir_fd=cache)
                except OSError:
                    continue


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _digest(top: int, path: str) -> bytes | None:
    try:
        with beneath.open_file(top, path) as file:
            digest = hashlib.sha256()
            while piece := file.read(_PIECE):
                digest.update(piece)
            return digest.digest()
    except OSError:
        return None


def seal_files(box: Box, tracked: Iterable[str], files: JudgingFiles, free: Collection[str] | None) -> Seal:
    """Return the seal of a fresh workspace, and let its commands only read the code that judges.

    They may write the files that are `free` because the run of base writes them; None: all of them.
    """
    repo, paths = box.workspace.repo, list(tracked)
    kinds = {path: kind for path in paths if (kind := files.kind_of(path)) is not None}
    out = Seal(repo, files, kinds, frozenset(paths))
    with tree_walk.open_folder(repo) as top:
        plain = {path: status for path in kinds if (status := beneath.status(top, path)) and _is_plain(status)}
    code = [path for path, kind in kinds.items() if kind != "data" and path in plain]
    folders = dict.fromkeys(path.rpartition("/")[0] for path in code if path.endswith(".py"))
    out.caches = tuple(f"{folder}/{_CACHE}" if folder else _CACHE for folder in folders)
    for path in paths:
        if path.endswith(".pyc") and PurePosixPath(path).parent.name == _CACHE:
            (repo / path).unlink(missing_ok=True)
    if free is None or box.wall.by != "bubblewrap":
        return out
    code = [path for path in code if path not in free and kinds[path] in _BOUND_KINDS]
    code.sort(key=lambda path: _BOUND_KINDS.index(kinds[path]))
    out.hidden = box.workspace.folder / "empty"
    out.hidden.mkdir(exist_ok=True)
    out.caches = out.caches[: _MOST_BOUND // 4]
    for folder in out.caches:
        (repo / folder).mkdir(exist_ok=True)
    chosen = code[: _MOST_BOUND - len(out.caches)]
    out.bound = {path: (plain[path].st_dev, plain[path].st_ino) for path in chosen}
    box.sealed = out.mounts
    return out


def _is_plain(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)


@dataclass
class TouchedFiles:
    """The files that judge the change and that checks changed, by tree."""

    _by_tree: dict[str, dict[str, str]] = field(default_factory=dict)  # each with the check that changed it

    def add(self, tree: str, check: str, paths: Iterable[str]) -> None:
        for path in paths:
            self._by_tree.setdefault(tree, {}).setdefault(path, check)

    def on(self, tree: str) -> set[str]:
        return {*self._by_tree.get(tree, ())}

    def reasons(self, sealed: str, bases: Iterable[str]) -> list[VerdictReason]:
        """Return a reason for each file that is changed on the patch and not on base; nobody can approve changed code.

        Data counts in the sealed tree alone: the patch's own tests may write the data that they expect.
        """
        known = {path for base in bases for path in self.on(base)}
        out: dict[str, VerdictReason] = {}
        for tree, paths in self._by_tree.items():
            for path, check in paths.items():
                is_data = path == LOST or JudgingFiles().kind_of(path) == "data"
                if path in known or path in out or (is_data and tree != sealed):
                    continue
                text = f"{path}: {check} changes it while it runs, which it does not on base ({RULE})"
                decision, rule = (Decision.ASK, RULE) if is_data else (Decision.REDO, "")
                out[path] = VerdictReason(decision, text, rule)
        return list(out.values())
