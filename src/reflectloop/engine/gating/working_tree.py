"""Record the working tree that is judged: the user's files, without secrets and installed packages."""

from __future__ import annotations

import os
from pathlib import Path

from reflectloop.system.git import Git
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace import secret_guard, snapshot
from reflectloop.workspace.project import Project

_ENVIRONMENTS = frozenset((".venv", "venv", "node_modules"))


def record(project: Project, trees: TreeBuilder, scratch: Path, commit: str, base: str) -> tuple[str, list[str]]:
    """Return the tree of the user's folder as it is compared with a base, and warnings.

    Files that the engine keeps out of every change are as in the commit.
    """
    taken = snapshot.take_snapshot(project, trees.store, scratch, _refuse_leaks)
    committed = project.git().line("rev-parse", f"{commit}^{{tree}}")
    tree = trees.laid_over(taken.tree, committed, trees.kept_out(committed))
    tree, warnings = _without_environments(trees, base, tree)
    return tree, [*taken.warnings, *warnings]


def _without_environments(trees: TreeBuilder, base: str, head: str) -> tuple[str, list[str]]:
    """Leave out environments that are installed in the project, also if git does not ignore them."""
    before = trees.listing(base)
    strange: dict[str, list[str]] = {}
    for path in trees.listing(head):
        folder = _environment(path)
        if folder and path not in before:
            strange.setdefault(folder, []).append(path)
    own = {folder: paths for folder, paths in strange.items() if not any(path.startswith(folder) for path in before)}
    warnings = [f"{folder} is not ignored by git; it is left out of the change" for folder in own]
    return trees.laid_over(head, base, [path for paths in own.values() for path in paths]), warnings


def _refuse_leaks(source: Git, names: list[bytes]) -> None:
    """Raise SECRET_LEAK before a file that holds a secret is stored; installed packages are no part of the change."""
    secret_guard.refuse_new_secrets(source, [name for name in names if not _environment(os.fsdecode(name))])


def _environment(path: str) -> str:
    """Return the folder of installed packages that a path lies in, with a slash; empty if it lies in none."""
    parts = path.split("/")
    at = next((at for at, part in enumerate(parts[:-1]) if part in _ENVIRONMENTS), None)
    return "" if at is None else "/".join(parts[: at + 1]) + "/"
