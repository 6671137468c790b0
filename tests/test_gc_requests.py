"""What commands of requests printed and what killed processes left is cleared away in time."""

from __future__ import annotations

import os

import pytest

from reflectloop.commands import apply_run
from reflectloop.config import WorkspaceConfig
from reflectloop.workspace import project, snapshot
from reflectloop.workspace.folders import Folders, open_project_dirs
from reflectloop.workspace.store import open_store
from support import Repo


def test_gc_keeps_the_newest_logs_of_requests_and_all_of_them_go_when_asked(repo: Repo) -> None:
    open_project_dirs(repo.path).ensure_owned()
    folder = repo.path / ".reflectloop" / "requests" / "logs"
    folder.mkdir(parents=True)
    for number in range(250):
        log = folder / f"RLOP-20260101-000000.{number}.log"
        log.write_text("x" * 10)
        os.utime(log, (number, number))
    assert apply_run.gc(repo.path, everything=False).freed == 500
    assert sorted(int(path.name.split(".")[1]) for path in folder.iterdir()) == list(range(50, 250))
    apply_run.gc(repo.path, everything=True)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("cache", ["checks", "verify"])
def test_gc_keeps_the_newest_remembered_results_within_their_limit(
    repo: Repo, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_project_dirs(repo.path).ensure_owned()
    monkeypatch.setattr(apply_run, "_CACHE_BYTES", 35)
    folder = repo.path / ".reflectloop" / "cache" / cache
    folder.mkdir(parents=True)
    for number in range(10):
        (folder / f"{number}.json").write_text("x" * 10)
        os.utime(folder / f"{number}.json", (number, number))
    assert apply_run.gc(repo.path, everything=False).freed == 70
    assert sorted(path.name for path in folder.iterdir()) == ["7.json", "8.json", "9.json"]


def test_gc_removes_indexes_that_killed_processes_left(repo: Repo) -> None:
    open_project_dirs(repo.path).ensure_owned()
    scratch = Folders(repo.path).scratch
    for name in ("old.index", "old.index.lock", "new.index"):
        (scratch / name).write_text("12345")
        if name.startswith("old"):
            os.utime(scratch / name, (0, 0))
    (scratch / "link.index").symlink_to("nowhere")
    (scratch / "folder.index").mkdir()
    assert apply_run.gc(repo.path, everything=False).freed == 10
    assert sorted(path.name for path in scratch.glob("*.index*")) == ["folder.index", "link.index", "new.index"]


def test_a_snapshot_may_be_taken_while_another_one_is(repo: Repo) -> None:
    repo.write("new.txt", "text\n")
    found = project.open_project(repo.path)
    store = open_store(found, WorkspaceConfig())
    trees: list[str] = []

    def meanwhile(*_: object) -> None:
        trees.append(snapshot.take_snapshot(found, store, Folders(repo.path).scratch).tree)

    taken = snapshot.take_snapshot(found, store, Folders(repo.path).scratch, meanwhile)
    assert trees == [taken.tree]
