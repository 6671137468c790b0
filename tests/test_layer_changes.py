"""Changed files are laid over a layer without following links."""

from __future__ import annotations

from pathlib import Path

from reflectloop.workspace import layers, project
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
