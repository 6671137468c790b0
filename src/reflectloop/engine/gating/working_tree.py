"""Record the working tree that is judged: the user's files, without secrets and installed packages."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from reflectloop.errors import UnsupportedRepository
from reflectloop.system import git
from reflectloop.system.git import Git
from reflectloop.system.patterns import lazy
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace import repository, secret_guard, snapshot
from reflectloop.workspace.project import Project

_SUBMODULE = b"160000 "
_COMPARED = (bytes(4), b"\x03\0\0\0")  # flags of a compiled file with the time, or a hash to compare, of its source
# `__pycache__/NAME.TAG.pyc`: without its source, no import finds such a file.
_COMPILED = lazy(r"(?:^|/)__pycache__/[^/.]+\.[^/]+\.pyc$")
_ENVIRONMENTS = frozenset((".venv", "venv", "node_modules"))


def record(project: Project, trees: TreeBuilder, scratch: Path, commit: str, base: str) -> tuple[str, list[str]]:
    """Return the tree of the user's folder as it is compared with a base, and warnings.

    Files that the engine keeps out of every change are as in the commit.
    """
    taken = snapshot.take_snapshot(project, trees.store, scratch, _refuse_leaks)
    committed = project.git().line("rev-parse", f"{commit}^{{tree}}")
    tree = trees.laid_over(taken.tree, committed, trees.kept_out(committed))
    tree, warnings = _without_environments(trees, base, tree)
    tree, more = _without_compiled(trees, [base, committed], tree)
    return tree, [*taken.warnings, *warnings, *more]


def changed_submodule(project: Project, trees: TreeBuilder, scratch: Path, tree: str) -> str | None:
    """Return a submodule of a tree with changes that are committed nowhere: the tree has only its commit.

    Its files are compared under settings of the engine: those beside them could name programs to run.
    """
    for entry in git.paths(project.git().run("ls-tree", "-r", "-z", "--full-tree", tree)):
        head, _, name = entry.partition(b"\t")
        place = project.root / os.fsdecode(name)
        objects = _objects(place) if head.startswith(_SUBMODULE) else None
        if objects is None:
            continue
        index = scratch / f"{uuid.uuid4().hex}.index"
        part = Git(git_dir=trees.store.path, work_tree=place, index_file=index, objects=objects)
        try:
            known = part.attempt("read-tree", head.split()[-1].decode())
            if not known.code and part.attempt("ls-files", "-m", "-o", "--exclude-standard").stdout:
                return os.fsdecode(name)
        finally:
            index.unlink(missing_ok=True)
    return None


def _objects(place: Path) -> Path | None:
    """Return the folder of objects of a repository inside the project, or None if there is none to be trusted."""
    if place.is_symlink() or not place.is_dir():
        return None
    try:
        found = repository.find(place)
    except UnsupportedRepository:
        return None
    return found.git_dir / "objects" if found and found.root == place else None


def _without_environments(trees: TreeBuilder, base: str, head: str) -> tuple[str, list[str]]:
    """Leave out environments that are installed in the project, also if git does not ignore them."""
    strange: dict[str, list[str]] = {}
    for entry in trees.changed_entries(base, head):
        folder = _environment(entry.path)
        if folder and entry.is_new:
            strange.setdefault(folder, []).append(entry.path)
    before = trees.listing(base) if strange else ()
    own = {folder: paths for folder, paths in strange.items() if not any(path.startswith(folder) for path in before)}
    warnings = [f"{folder} is not ignored by git; it is left out of the change" for folder in own]
    return trees.laid_over(head, base, [path for paths in own.values() for path in paths]), warnings


def _without_compiled(trees: TreeBuilder, known: Sequence[str], head: str) -> tuple[str, list[str]]:
    """Leave out what Python compiled in the user's folder, if no commit has it: sealed runs compile for themselves.

    What Python would load without a look at the source is no usual file, and stays.
    """
    new = {entry.path: entry.new.blob for entry in trees.changed_entries(known[0], head) if entry.is_new}
    compiled = [path for path in new if _COMPILED.search(path)]
    compiled = [path for path in compiled if not any(path in trees.listing(tree) for tree in known)]
    contents = trees.contents([new[path] for path in compiled]) if compiled else {}
    compiled = [path for path in compiled if contents[new[path]][4:8] in _COMPARED]
    if not compiled:
        return head, []
    folders = list(dict.fromkeys(path.rpartition("/")[0] for path in compiled))
    more = f" and {len(folders) - 1} more" if len(folders) > 1 else ""
    warning = f"{folders[0]}/{more}: compiled by Python and not ignored by git; left out of the change"
    return trees.laid_over(head, known[0], compiled), [warning]


def _refuse_leaks(source: Git, names: list[bytes]) -> None:
    """Raise SECRET_LEAK before a file that holds a secret is stored; installed packages are no part of the change."""
    secret_guard.refuse_new_secrets(source, [name for name in names if not _environment(os.fsdecode(name))])


def _environment(path: str) -> str:
    """Return the folder of installed packages that a path lies in, with a slash; empty if it lies in none."""
    parts = path.split("/")
    at = next((at for at, part in enumerate(parts[:-1]) if part in _ENVIRONMENTS), None)
    return "" if at is None else "/".join(parts[: at + 1]) + "/"
