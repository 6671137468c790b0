"""What differs from a layer is laid over it as a copy would have it, and a damaged layer judges nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from both_workspaces import on_both, require_overlay
from reflectloop.workspace import layers, project
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.store import open_store
from reflectloop.workspace.tree_diff import TreeChange
from support import Repo


def test_a_path_behind_a_link_is_not_deleted_when_changes_are_laid_out(repo: Repo, tmp_path: Path) -> None:
    repo.write("folder/deep/file.txt", "old\n")
    repo.commit("a folder")
    outside = tmp_path / "outside"
    outside.mkdir()
    (repo.path / "folder" / "deep").rename(outside / "deep")
    (repo.path / "folder").rmdir()
    (repo.path / "folder").symlink_to(outside)
    store = open_store(project.open_project(repo.path))
    writer = store.git(work_tree=repo.path, index=tmp_path / "index")
    writer.run("read-tree", repo.git("rev-parse", "HEAD").strip())
    gone = TreeChange(b"folder/deep/file.txt", b"000000", b"0" * 40)
    layers.lay_changes(writer, repo.path, "", "", [gone])
    assert b"deep" not in writer.run("ls-files")
    assert (outside / "deep" / "file.txt").read_text() == "old\n"


@pytest.fixture
def layered(repo: Repo, tmp_path: Path) -> Repo:
    """Return a project whose base has a layer."""
    require_overlay(tmp_path / "home")
    for name in ("a.txt", "src/b.txt", "src/c.py"):
        repo.write(name, f"content of {name}\n")
    repo.commit("a tree")
    on_both(repo, lambda space: (space.repo / "a.txt").read_text())
    return repo


@pytest.mark.parametrize("place", [".gitattributes", "src/.gitattributes"])
def test_changed_attributes_decide_how_unchanged_files_are_written(layered: Repo, place: str) -> None:
    layered.write(place, "*.txt text eol=crlf\n")

    def work(space: Workspace) -> list[str]:
        return [path.read_bytes().decode() for path in sorted(space.repo.rglob("*.txt"))]

    assert on_both(layered, work)[-1] == "content of src/b.txt\r\n"
