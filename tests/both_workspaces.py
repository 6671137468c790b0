"""Workspaces of both kinds, mounted over a layer and copied, for tests that compare what is done in them."""

from __future__ import annotations

import json
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reflectloop.config import WorkspaceConfig
from reflectloop.system import overlay
from reflectloop.workspace import checkout, patch, project, snapshot, workspace_registry
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.fresh_layers import FreshLayers
from reflectloop.workspace.store import open_store
from support import Repo

KINDS = ("auto", "off")


def require_overlay(home: Path) -> None:
    """Skip the test if workspaces cannot be mounted over layers here; else allow it for a user's folder."""
    if reason := apart(_refusal):
        pytest.skip(f"no overlay: {reason}")
    settings = home / ".config" / "reflectloop" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[workspace]\noverlay = "auto"\n')


def _refusal() -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        return overlay.try_in(Path(folder))


def fresh_layers(repo: Repo) -> FreshLayers:
    """Return the layers of one verification."""
    return FreshLayers(checkout.sandbox_root(project.open_project(repo.path), None))


def layer_folder() -> Path:
    """Return the folder of the only layer."""
    (home,) = Path(os.environ["TMPDIR"], "reflectloop").glob("layers-*")
    (folder,) = [path for path in home.iterdir() if not path.name.startswith(".")]
    return folder


def apart(work: Callable[[], Any]) -> Any:
    """Return what `work` returns in a child with one thread, which can have mounts of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = {"value": work()}
        except BaseException:  # noqa: BLE001 - the parent fails with it
            answer = {"error": traceback.format_exc()}
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        answer = json.loads(file.read() or '{"error": "the child died"}')
    os.waitpid(child, 0)
    assert "error" not in answer, answer["error"]
    return answer["value"]


@contextmanager
def opened(repo: Repo, kind: str, name: str = "aaaaaa", *, copied: bool = False, **more: Any) -> Iterator[Workspace]:
    found = project.open_project(repo.path)
    settings = WorkspaceConfig(overlay=kind)
    store = open_store(found, settings)
    base = snapshot.take_snapshot(found, store, Folders(found.root).scratch)
    space = checkout.create(
        found,
        store,
        base._replace(tree=more.pop("tree", base.tree)),
        name=f"RLOP-20260101-{name}",
        root=checkout.sandbox_root(found, None),
        carry=settings,
        **more,
    )
    assert (space.over is not None) == (kind == "auto" and not copied)
    try:
        yield space
    finally:
        space.close()
        entry = workspace_registry.find(found.folder, space.name)
        assert entry is not None
        workspace_registry.destroy(entry)


def on_both(repo: Repo, work: Callable[[Workspace], Any], **more: Any) -> Any:
    """Return what `work` answers in a workspace; it must be the same in both kinds."""

    def answer(kind: str) -> Any:
        with opened(repo, kind, **more) as space:
            return work(space)

    answers = [apart(lambda kind=kind: answer(kind)) for kind in KINDS]  # type: ignore[misc]
    assert answers[0] == answers[1]
    return answers[0]


def recorded(change: Callable[[Path], object]) -> Callable[[Workspace], list[str]]:
    """Return a function that makes a change and returns the tree and the patch."""

    def work(space: Workspace) -> list[str]:
        change(space.repo)
        now = space.record()
        whole = space.record(thorough=True)
        assert whole.tree == now.tree
        return [now.tree, patch.exact_patch(space.git(), space.base_tree, now.tree).decode("utf-8", "replace")]

    return work
