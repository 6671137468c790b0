"""Carry what a build made from its own workspace to that of the tests, but for what would judge the change."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import PurePosixPath
from typing import NamedTuple

from reflectloop.sandbox.sandbox import Box
from reflectloop.system import beneath, git, tree_walk
from reflectloop.system.git import GitFailed
from reflectloop.verification import protected
from reflectloop.workspace.record_tree import Unrecordable

_ALWAYS_LEFT = frozenset(("hook", "shadow", "own"))
_NOT_OUTPUT = frozenset(("__pycache__", ".eggs", "site-packages", "dist-packages", ".venv", "venv"))
_COMPILED = (".so", ".pyd")
_SHOWN = 3


class BuildOutput(NamedTuple):
    """The output of a build: the paths that were left out, and those that judge and were carried all the same."""

    left_out: tuple[str, ...] = ()
    judging: tuple[str, ...] = ()
    fault: str = ""

    def note(self) -> str:
        """Return a remark for the reader of the verdict, or an empty text."""
        if self.fault:
            return f"what the build made could not be carried to the tests: {self.fault}"
        names = ", ".join(self.left_out[:_SHOWN]) + (" and more" if len(self.left_out) > _SHOWN else "")
        return (
            f"the build made {names}, which the tests do not get, since it judges the change or hides it"
            if names
            else ""
        )


def carry_output(source: Box, target: Box, tracked: Collection[str], known: Collection[str] | None) -> BuildOutput:
    """Move what git does not track, and tracked files that the build of base writes too, to the workspace of the tests.

    `known` are such files, and judging ones, of the build of base; None: this is the build of base, which may make any.
    """
    try:
        lister = source.workspace.git_on_files()
        listed = lister.run("ls-files", "-z", "--others", "--directory", "--no-empty-directory")
        changed = lister.run("diff-files", "-z", "--name-only", "--diff-filter=M", "--ignore-submodules=dirty")
    except (Unrecordable, GitFailed, TimeoutError) as fault:
        return BuildOutput(fault=str(fault)[:200])
    copied = {*source.workspace.copied}
    names = [os.fsdecode(name) for name in (*git.paths(listed), *git.paths(changed))]
    names = [name for name in names if name.rstrip("/") not in copied]
    folders = {os.fspath(parent) for path in tracked for parent in PurePosixPath(path).parents}
    left: list[str] = []
    judging: list[str] = []
    with tree_walk.open_folder(source.workspace.repo) as here, tree_walk.open_folder(target.workspace.repo) as there:
        for name in names:
            paths = _files(here, name)
            judges = [path for path in paths if path in tracked or _judges(path, folders, tracked)]
            unwanted = {path for path in judges if known is not None and path not in known}
            left += sorted(unwanted)
            judging += [path for path in judges if path not in unwanted]
            for path in [name.rstrip("/")] if not unwanted else [path for path in paths if path not in unwanted]:
                _move(here, there, path)
    return BuildOutput(tuple(left), tuple(judging))


def _files(top: int, name: str) -> list[str]:
    """Return every file and link at or below a path."""
    if not name.endswith("/"):
        return [name] if beneath.status(top, name) is not None else []
    with beneath.open_folder(top, name.rstrip("/").split("/")) as folder:
        return [
            f"{name}{part.within(entry.name)}"
            for part in tree_walk.walk(folder)
            for entry in part.entries
            if not entry.is_dir(follow_symlinks=False)
        ]


def _judges(path: str, folders: Collection[str], tracked: Collection[str]) -> bool:
    """Return True if a file would judge the change, run around the checks, or hide a source of the change."""
    protection = protected.guard(path)
    parts = PurePosixPath(path).parts
    if not _NOT_OUTPUT.isdisjoint(parts) or path.endswith((".pyc", "-info/entry_points.txt")):
        return True
    if _hides_source(path, tracked):
        return True
    if protection is None or protection.kind == "artefact":
        return False
    if protection.kind in _ALWAYS_LEFT:
        return True
    if parts[0] not in folders and len(parts) > 1:  # a folder of the build alone, with its own settings and programs
        return False
    is_code = path.rpartition(".")[2].lower() in protected.CODE_ENDINGS
    return is_code or protection.kind not in ("test", "fixture")


def _hides_source(path: str, tracked: Collection[str]) -> bool:
    """Return True if Python would import this file, or its package, instead of a tracked module of that name."""
    pure = PurePosixPath(path)
    modules = [f"{parent}.py" for parent in pure.parents]
    if pure.name.endswith(_COMPILED):
        modules.append(os.fspath(pure.with_name(f"{pure.name.partition('.')[0]}.py")))
    return any(module in tracked for module in modules)


def _move(here: int, there: int, path: str) -> None:
    try:
        if beneath.status(there, path) is not None:
            beneath.copy(here, path, there, path)
        else:
            beneath.move(here, there, path)
    except OSError:  # a pipe or a socket, or something in its place
        return
