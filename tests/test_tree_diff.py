"""A moved or added submodule is seen, whatever `.gitmodules` and the user's settings say about submodules."""

from __future__ import annotations

from pathlib import Path

import pytest

import reflectloop
from reflectloop.engine.gating.background import BackgroundVerification
from reflectloop.hooks import push_gate
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace import patch, project, tree_diff
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.store import open_store
from support import Repo

_IGNORED = '[submodule "part"]\n\tpath = part\n\turl = ./part\n\tignore = all\n'


@pytest.fixture
def trees(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return the trees before and after a submodule was moved, in a project that lets git ignore submodules."""
    monkeypatch.chdir(repo.path)
    repo.write(".gitmodules", _IGNORED)
    repo.git("config", "diff.ignoreSubmodules", "all")
    out = []
    for commit in ("1" * 40, "2" * 40):
        repo.git("add", ".gitmodules")
        repo.git("update-index", "--add", "--cacheinfo", f"160000,{commit},part")
        out.append(repo.git("write-tree").strip())
    return out[0], out[1]


def test_a_moved_submodule_is_a_change_in_every_comparison(repo: Repo, trees: tuple[str, str]) -> None:
    found = project.open_project(repo.path)
    store = open_store(found)
    builder = TreeBuilder(store, repo.path, store.objects)
    assert [entry.path for entry in builder.changed_entries(*trees)] == ["part"]
    assert [change.path for change in builder.changes(*trees)] == ["part"]
    assert [change.name for change in tree_diff.tree_changes(store.git(), *trees)] == [b"part"]
    for git in (store.git(), found.git()):
        assert tree_diff.changed_names(git, *trees) == [b"part"]
        assert b"+Subproject commit 2222" in patch.exact_patch(git, *trees)


def test_a_moved_submodule_is_no_prose(repo: Repo, trees: tuple[str, str]) -> None:
    folders = Folders(repo.path)
    gate = BackgroundVerification(folders, folders.own)
    assert gate.judged_paths(*trees) == ["part"]
    assert not push_gate._is_prose(gate.project.git(), *trees)


def test_git_reads_no_file_of_the_callers_folder_when_it_reads_the_store(repo: Repo, trees: tuple[str, str]) -> None:
    git = open_store(project.open_project(repo.path)).git()
    assert git.run("diff-tree", "-r", *trees)
    assert git.line("rev-parse", "--show-prefix") == ""
    assert Path(git.line("rev-parse", "--absolute-git-dir")) == git.cwd


def test_trees_are_compared_in_one_place() -> None:
    source = Path(reflectloop.__file__).parent
    users = [path.relative_to(source) for path in source.rglob("*.py") if '"diff-tree"' in path.read_text()]
    assert users == [Path("workspace/tree_diff.py")]
