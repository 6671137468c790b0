"""Knows every workspace there is, and takes them away."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import NamedTuple

from reflectloop.workspace.project import Project
from reflectloop.world import files, process

# Commands may leave folders that even their owner cannot enter.
_BURY = 'rm -rf -- "$1" 2>/dev/null || { chmod -R u+rwX -- "$1"; rm -rf -- "$1"; }'


class Entry(NamedTuple):
    run_id: str
    folder: Path
    desk: Path
    pid: int
    kept: bool

    @property
    def alive(self) -> bool:
        return process.exists(self.pid)


def _home(own: Path) -> Path:
    return own / "workspaces"


def enter(project: Project, run_id: str, folder: Path) -> Path:
    """Write a workspace down before it exists, so that a crash cannot leave one nobody knows of."""
    desk = _home(project.folder) / run_id
    with files.room_for("the ledger of workspaces", desk):
        desk.mkdir(parents=True)
    _write(desk, {"run_id": run_id, "folder": os.fspath(folder), "pid": os.getpid(), "kept": False})
    return desk


def keep(project: Project, run_id: str) -> None:
    desk = _home(project.folder) / run_id
    entry = json.loads((desk / "workspace.json").read_text())
    _write(desk, entry | {"kept": True})


def _write(desk: Path, entry: dict[str, object]) -> None:
    files.write_atomic(desk / "workspace.json", json.dumps(entry) + "\n")


def entries(project: Project) -> list[Entry]:
    return entries_under(project.folder)


def alive(own: Path, run_id: str) -> bool:
    return any(entry.run_id == run_id and entry.alive for entry in entries_under(own))


def entries_under(own: Path) -> list[Entry]:
    found = []
    for desk in sorted(_home(own).glob("*")):
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            entry = json.loads((desk / "workspace.json").read_text())
            folder = Path(entry["folder"])
            if folder.name == desk.name == entry["run_id"]:
                found.append(Entry(desk.name, folder, desk, int(entry["pid"]), bool(entry["kept"])))
    return found


def remove(entry: Entry) -> None:
    """Out of sight at once by rename, deleted behind the user's back."""
    grave = entry.folder.with_name(f".removed-{entry.run_id}-{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        entry.folder.rename(grave)
        process.detach(["sh", "-c", _BURY, "sh", os.fspath(grave)])
    files.remove_tree(entry.desk)


def destroy(entry: Entry) -> None:
    """Deleted here and now: what leaked is gone when this returns."""
    if entry.folder.exists():
        files.remove_tree(entry.folder)
    files.remove_tree(entry.desk)


def stale(own: Path, keep_failed: int) -> list[Entry]:
    """What a crash left, and failed workspaces older than the newest few."""
    known = entries_under(own)
    kept = sorted((entry for entry in known if entry.kept), key=lambda entry: entry.desk.stat().st_mtime_ns)
    return kept[: max(0, len(kept) - keep_failed)] + [entry for entry in known if not (entry.kept or entry.alive)]
