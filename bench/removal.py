"""Measures how long a user waits for a workspace to be gone."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from bench import ours, race
from bench.ground import Ground, git
from bench.race import Contestant, Spent
from bench.table import Measure, Row, Section
from reflectloop.workspace import workspace_registry

_FILES = 7_000
_BAR = 1 / 50
_PATIENCE_S = 120


def measure(ground: Ground) -> Section:
    root = ground.repository(_FILES)
    rounds = 2 if ground.quick else 3
    rows: list[Row] = []
    for place in dict.fromkeys((ground.disk, ground.memory)):
        for kind in ours.kinds():
            field = _Field(root, place / "removal", kind)
            times = race.run(field.contestants(), rounds, settle=True)
            rows += _rows(f"{ours.NAMES[kind]}, {_FILES:,} files on {ground.medium(place)}", times)
    notes = [
        "Wall time, median of 3 rounds. The bar is fifty times faster.",
        (
            "Ours renames the workspace away and leaves the deletion to a process behind; what that process takes is "
            "not in the number, and the next contestant starts when it is done."
        ),
    ]
    return Section("removal: as felt", notes, rows)


def _rows(what: str, times: dict[str, Spent]) -> list[Row]:
    own = Measure("", times.pop("ours").wall_s)
    return [Row(what, own, Measure(name, spent.wall_s), limit=_BAR) for name, spent in times.items()]


class _Field:
    def __init__(self, repository: Path, copies: Path, kind: ours.Kind) -> None:
        self.repository, self.copies, self.kind = repository, copies, kind
        self._entry: workspace_registry.WorkspaceEntry | None = None

    def contestants(self) -> list[Contestant]:
        tree = os.fspath(self.copies / "tree")
        return [
            Contestant("ours", self._remove, before=self._create, after=self._wait),
            Contestant(
                "git worktree remove",
                lambda: git("worktree", "remove", "--force", tree, cwd=self.repository),
                before=self._add,
            ),
            Contestant("rm -rf", lambda: subprocess.run(["rm", "-rf", tree], check=True), before=self._add),
        ]

    def _create(self) -> None:
        space = ours.workspace(self.repository, self.copies, self.kind)
        subprocess.run(["find", space.repo, "-newer", space.repo, "-empty"], check=True)  # as a command that reads all
        space.close()
        self._entry = ours.entry(self.repository, space)

    def _add(self) -> None:
        git("worktree", "prune", cwd=self.repository)
        git("worktree", "add", "--quiet", "--detach", os.fspath(self.copies / "tree"), cwd=self.repository)

    def _remove(self) -> None:
        assert self._entry  # noqa: S101
        workspace_registry.remove(self._entry)

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while any(not path.name.startswith("layers-") for path in self.copies.iterdir()):
            if time.monotonic() > deadline:
                raise TimeoutError("a removed workspace is still there")
            time.sleep(0.05)
