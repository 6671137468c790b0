"""Measures how long it takes from a repository to a workspace, clean and dirty, small and large."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from bench import ours, race, repository
from bench.ground import Ground, git
from bench.race import Contestant, Spent
from bench.table import Measure, Row, Section
from reflectloop.workspace import workspace_registry
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.project import OWN_FOLDER

_DIRTY_SHARE = 100  # one file in so many is modified
_UNTRACKED = 20


def measure(ground: Ground) -> Section:
    rows: list[Row] = []
    for files, rounds in ((7_000, 7), (100_000, 3)):
        if ground.quick and files > 7_000:
            continue
        field = _Field(ground.repository(files), ground.memory / "copies", files)
        rows += _rows(files, race.run(field.contestants(), 2 if ground.quick else rounds, settle=True))
        git("worktree", "prune", cwd=field.repository)
    notes = [
        "Wall time, median of 7 rounds (7,000 files) and of 3 (100,000), contestants in turn.",
        (
            "Ours is the whole of `open_at`, `open_for`, `take` and `create`: find the repository, open the store, "
            "take the tree as it stands, lay it out with a `.git` of its own."
        ),
        (
            "First use makes the store; later use finds it; warm re-use takes over the workspace of an earlier run. "
            "Dirty: 1 % of the files modified, otherwise in every round, and 20 untracked. `git worktree add` cannot "
            "take a dirty tree; its time is that of a clean one."
        ),
        f"The repository lies on {ground.medium(ground.disk)}, the copies are made on {ground.medium(ground.memory)}.",
    ]
    return Section("workspace: creation", notes, rows)


def _rows(files: int, times: dict[str, Spent]) -> list[Row]:
    def taken(name: str, label: str | None = None) -> Measure:
        return Measure(name if label is None else label, times[name].wall_s)

    worktree = taken("git worktree add")
    size = f"{files:,} files"
    return [
        Row(f"{size}, clean", taken("clean"), worktree, limit=1.0),
        Row(f"{size}, clean", taken("clean"), taken("cp -a")),
        Row(f"{size}, clean", taken("clean"), taken("shutil.copytree")),
        Row(f"{size}, clean, first use", taken("first"), worktree, limit=1.0),
        Row(f"{size}, warm re-use", taken("warm"), taken("clean", "ours, clean"), limit=0.2),
        Row(f"{size}, dirty", taken("dirty"), worktree, limit=1.0),
        Row(f"{size}, dirty against clean", taken("dirty"), taken("clean", "ours, clean"), limit=1.3),
    ]


class _Field:
    """Where the contestants of one repository run."""

    def __init__(self, root: Path, copies: Path, files: int) -> None:
        self.repository, self.copies, self.files = root, copies, files
        self._aside = root.with_name(root.name + "-own")
        self._edition = 0
        self._made: list[Workspace] = []
        self._ours()
        self._clear()

    def contestants(self) -> list[Contestant]:
        return [
            Contestant("clean", self._ours, after=self._clear),
            Contestant("git worktree add", self._worktree, after=self._clear),
            Contestant("dirty", self._ours, before=self._soil, after=self._clean),
            Contestant("warm", self._ours, before=self._warm, after=self._clear),
            Contestant("cp -a", self._cp, before=self._put_aside, after=self._put_back),
            Contestant("first", self._ours, before=self._put_aside, after=self._put_back),
            Contestant("shutil.copytree", self._copytree, before=self._put_aside, after=self._put_back),
        ]

    def _ours(self) -> None:
        self._made.append(ours.workspace(self.repository, self.copies))

    def _warm(self) -> None:
        """What a good run leaves: a workspace of the same tree, for the next run to take over."""
        self._ours()
        space = self._made.pop()
        space.record(thorough=True)  # as a run does at its end
        space.close()
        workspace_registry.set_status(ours.entry(self.repository, space), "warm", space.mark_ns, space.identity)
        time.sleep(1.1)  # an earlier run is not of the same second, in which git would trust nothing

    def _worktree(self) -> None:
        git("worktree", "add", "--quiet", "--detach", os.fspath(self.copies / "tree"), cwd=self.repository)

    def _cp(self) -> None:
        subprocess.run(["cp", "-a", self.repository, self.copies / "tree"], check=True)

    def _copytree(self) -> None:
        shutil.copytree(self.repository, self.copies / "tree", symlinks=True)

    def _clear(self) -> None:
        while self._made:
            self._made.pop().close()
        shutil.rmtree(self.copies)
        self.copies.mkdir(mode=0o700)
        shutil.rmtree(self.repository / OWN_FOLDER / "workspaces", ignore_errors=True)
        git("worktree", "prune", cwd=self.repository)

    def _soil(self) -> None:
        # Other content each time: what the store already holds would be free.
        self._edition += 1
        for number, name in enumerate(repository.names(self.files)):
            if number % _DIRTY_SHARE == 0:
                (self.repository / name).write_bytes(repository.content(number, self._edition))
        for number in range(_UNTRACKED):
            text = repository.content(self.files + number, self._edition)
            (self.repository / f"untracked_{number}.py").write_bytes(text)

    def _clean(self) -> None:
        self._clear()
        git("reset", "--quiet", "--hard", cwd=self.repository)
        git("clean", "--quiet", "--force", cwd=self.repository)

    def _put_aside(self) -> None:
        """The engine's folder is no part of what a peer copies."""
        (self.repository / OWN_FOLDER).rename(self._aside)

    def _put_back(self) -> None:
        self._clear()
        shutil.rmtree(self.repository / OWN_FOLDER, ignore_errors=True)
        self._aside.rename(self.repository / OWN_FOLDER)
