"""What commands of requests printed is cleared away in time."""

from __future__ import annotations

import os

from reflectloop.commands import apply_run
from reflectloop.workspace.folders import open_project_dirs
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
