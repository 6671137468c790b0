"""The engine's own way to a workspace, as `reflectloop run` goes it."""

from __future__ import annotations

import secrets
from pathlib import Path

from reflectloop.workspace import checkout, project, snapshot, store, workspace_registry
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.project import OWN_FOLDER


def workspace(repository: Path, root: Path) -> Workspace:
    """Everything from a path to a workspace that commands can run in."""
    opened = project.open_project(repository)
    kept = store.open_store(opened)
    base = snapshot.take_snapshot(opened, kept, Folders(opened.root).scratch)
    root = checkout.sandbox_root(opened, root)
    return checkout.create(opened, kept, base, name=f"RLOP-20200101-{secrets.token_hex(3)}", root=root)


def entry(repository: Path, space: Workspace) -> workspace_registry.WorkspaceEntry:
    own = repository / OWN_FOLDER
    return next(one for one in workspace_registry.entries(own) if one.name == space.name)


def dispose(repository: Path, space: Workspace) -> None:
    space.close()
    workspace_registry.destroy(entry(repository, space))
