"""The engine's own way to a workspace, as `reflectloop run` goes it."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Literal, NamedTuple

from bench import repository
from reflectloop import settings_files
from reflectloop.config import WorkspaceConfig
from reflectloop.system import overlay
from reflectloop.workspace import checkout, project, snapshot, store, workspace_registry
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.project import OWN_FOLDER, Project
from reflectloop.workspace.snapshot import Snapshot
from reflectloop.workspace.store import Store

Kind = Literal["auto", "off"]
NAMES: dict[Kind, str] = {"auto": "overlay", "off": "copy"}


class Taken(NamedTuple):
    """A project of which a snapshot was taken."""

    project: Project
    store: Store
    base: Snapshot


def take(root: Path) -> Taken:
    opened = project.open_project(root)
    kept = store.open_store(opened)
    return Taken(opened, kept, snapshot.take_snapshot(opened, kept, Folders(opened.root).scratch))


def create(taken: Taken, root: Path, kind: Kind) -> Workspace:
    """From a snapshot to a workspace that commands can run in."""
    root = checkout.sandbox_root(taken.project, root)
    name = f"RLOP-20200101-{secrets.token_hex(3)}"
    return checkout.create(*taken, name=name, root=root, carry=WorkspaceConfig(overlay=kind))


def workspace(source: Path, root: Path, kind: Kind = "auto") -> Workspace:
    """Everything from a path to a workspace that commands can run in."""
    return create(take(source), root, kind)


def kinds() -> tuple[Kind, ...]:
    """Return the kinds of workspaces that this machine can have: mounted over a layer, and copied."""
    return ("off",) if overlay.enter() else ("auto", "off")


def choose(kind: Kind) -> None:
    """Let the engine make workspaces of this kind, in this process and in those it starts."""
    settings = settings_files.user_file()
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[workspace]\noverlay = "{kind}"\n')


def entry(root: Path, space: Workspace) -> workspace_registry.WorkspaceEntry:
    own = root / OWN_FOLDER
    return next(one for one in workspace_registry.entries(own) if one.name == space.name)


def half_a_step(space: Workspace, files: int) -> None:
    """Leave what a command does that is cut short: a changed file, a new one, a deleted one."""
    changed, deleted = repository.names(files)[:2]
    (space.repo / changed).write_text("changed\n")
    (space.repo / deleted).unlink()
    (space.repo / "new.txt").write_text("new\n")


def dispose(root: Path, space: Workspace) -> None:
    space.close()
    workspace_registry.destroy(entry(root, space))
