"""What differs from a layer is laid over it as a copy would have it, and a damaged layer judges nothing."""

from __future__ import annotations

import ast
import errno
import graphlib
import os
import subprocess
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from both_workspaces import apart, fresh_layers, layer_folder, on_both, opened, require_overlay
from reflectloop.config import Config
from reflectloop.errors import Interrupted, SandboxCreateFailed
from reflectloop.verification.check_runner import CheckRun, CheckRunner
from reflectloop.verification.result import VerificationResult
from reflectloop.workspace import layers, project
from reflectloop.workspace import store as stores
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.layers import Layer
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


def test_few_packs_of_new_objects_stay_in_memory(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_MOST_PACKS", 2)
    monkeypatch.setattr(stores, "_small_packs", {})
    for number in range(4):
        repo.write("new.txt", f"{number}\n")
        with opened(repo, "off", fresh=fresh_layers(repo)) as space:
            assert list((space.repo / ".git" / "objects" / "pack").iterdir())
    assert len(stores._small_packs) == 2


def _imports(path: Path) -> list[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    pairs = [(node.module, alias.name) for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
    return [name for module, name in pairs if module == layers.__package__] + [
        str(module).rpartition(".")[2] for module, _ in pairs if str(module).startswith(f"{layers.__package__}.")
    ]


def test_no_two_modules_of_workspaces_need_each_other_also_not_for_types() -> None:
    modules = {path.stem: _imports(path) for path in Path(layers.__file__).parent.glob("*.py")}
    tuple(graphlib.TopologicalSorter(modules).static_order())


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


@pytest.mark.parametrize(
    "damage", ["", "echo x > upper/src/b.txt", "rm upper/src/b.txt", "echo x > upper/n", "rm index"]
)
def test_a_thin_layer_that_is_changed_during_a_verification_is_noticed_at_its_end(layered: Repo, damage: str) -> None:
    layered.write("src/b.txt", "of the patch\n")
    (layered.path / "src" / "c.py").unlink()

    def work() -> str:
        fresh, store = fresh_layers(layered), open_store(project.open_project(layered.path))
        with opened(layered, "auto", fresh=fresh) as space:
            seen = (space.repo / "src" / "b.txt").read_text()
            assert not (space.repo / "src" / "c.py").exists()
            (thin,) = layer_folder().parent.glob(".part-*")
            subprocess.run(["sh", "-c", damage], cwd=thin, check=True)
        with pytest.raises(SandboxCreateFailed, match="outside of the verification") if damage else nullcontext():
            fresh.compare_again(store)
        fresh.close()
        return seen

    assert apart(work) == "of the patch\n"


def test_a_layer_with_a_single_use_is_compared_again_before_a_result_is_stored(layered: Repo, tmp_path: Path) -> None:
    def work() -> list[bool]:
        store = open_store(project.open_project(layered.path))
        passed = CheckRun(VerificationResult(ok=True, type="passed", summary="", duration_ms=1), "", None, "", "")
        memory: Any = tmp_path / "memory"
        for damaged in (False, True):
            fresh = fresh_layers(layered)
            ground: Any = SimpleNamespace(settings=Config(), layers=fresh, trees=SimpleNamespace(store=store))
            runner = CheckRunner(ground, memory, memory, str, "", None, None)  # type: ignore[arg-type]
            with suppress(SandboxCreateFailed, Interrupted), runner:
                with opened(layered, "auto", fresh=fresh):
                    runner._remember(f"damaged-{damaged}", passed)
                    if damaged:
                        (layer_folder() / "files" / "a.txt").write_text("damaged\n")
                raise Interrupted("by the user", next_step="")
            fresh.close()
        return [(memory / f"damaged-{damaged}.json").exists() for damaged in (False, True)]

    assert apart(work) == [True, False]


def test_no_fresh_workspace_stands_on_a_layer_that_was_discarded_meanwhile(
    layered: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Layer, "attach_again", lambda layer: layer.discard())

    def work() -> bool:
        with opened(layered, "auto", copied=True, fresh=fresh_layers(layered)) as space:
            return (space.repo / "a.txt").exists() and space.over is None

    assert apart(work)


@pytest.mark.parametrize("fault", [None, errno.EXDEV])
def test_an_index_that_somebody_else_makes_at_the_same_time_stays(
    layered: Repo, fault: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def slow(source: Path, target: Path) -> None:
        target.write_text("newer\n")
        if fault and source.parent != target.parent:
            raise OSError(fault, "another disk")
        link(source, target)

    def work() -> str:
        with opened(layered, "auto") as space:
            monkeypatch.setattr(os, "link", slow)
            index = space.index
            monkeypatch.undo()
            left = [path.name for path in index.parent.iterdir() if "part" in path.name]
            return "".join([index.read_text(), *left])

    assert apart(work) == "newer\n"
