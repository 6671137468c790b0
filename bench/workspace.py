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
_LABELS = {
    "clean": "clean",
    "dirty": "dirty",
    "next": "next step",
    "create": "clean, from a snapshot",
    "create dirty": "dirty, from a snapshot",
}
_BARS_S = {7_000: 0.04, 100_000: 0.06}  # for a workspace on a base that was laid out before


def measure(ground: Ground) -> Section:
    rows: list[Row] = []
    taken: dict[tuple[ours.Kind, str, int], Measure] = {}
    for files, rounds in ((7_000, 7), (100_000, 3)):
        if ground.quick and files > 7_000:
            continue
        for kind in ours.kinds():
            field = _Field(ground.repository(files), ground.memory / "copies", files, kind)
            times = race.run(field.contestants(), 2 if ground.quick else rounds, settle=True)
            rows += _rows(files, kind, times)
            for name in ("clean", "create"):
                taken[kind, name, files] = Measure("at 7,000", times[name].wall_s)
            field.close()
    rows += [
        Row(f"{ours.NAMES[kind]}, {_LABELS[name]}: growth from 7,000", own, taken[kind, name, 7_000], limit=1.3)
        for (kind, name, files), own in taken.items()
        if files > 7_000
    ]
    notes = [
        "Wall time, median of 7 rounds (7,000 files) and of 3 (100,000), contestants in turn.",
        (
            "Ours is the whole of `open_project`, `open_store`, `take_snapshot` and `create`: find the repository, "
            "open the store, take the tree as it stands, lay it out with a `.git` of its own. From a snapshot is "
            "`create` alone."
        ),
        (
            "Overlay: mounted over the base tree, which an earlier workspace laid out; copy: all files are written, "
            "as where the kernel allows no overlay. The floor is one `mount -t overlay` by a process with mounts of "
            "its own, and one command in it."
        ),
        (
            "First use makes the store and lays the base out; later use finds both; warm re-use takes over the copy "
            "of an earlier run. Next step: a workspace with a changed, a new and a deleted file gets the tree of "
            "its beginning again, as between two steps. Dirty: 1 % of the files modified, otherwise in every round, "
            "and 20 untracked. `git worktree add` cannot take a dirty tree; its time is that of a clean one."
        ),
        (
            f"The repository lies on {ground.medium(ground.disk)}, the copies are made on "
            f"{ground.medium(ground.memory)}; `cp --reflink` has a row where the file system can."
        ),
    ]
    return Section("workspace: creation", notes, rows)


def _rows(files: int, kind: ours.Kind, times: dict[str, Spent]) -> list[Row]:
    def taken(name: str, label: str | None = None) -> Measure:
        return Measure(name if label is None else label, times[name].wall_s)

    worktree, bar = taken("git worktree add"), Measure("bar", _BARS_S[files])
    what = f"{ours.NAMES[kind]}, {files:,} files"
    rows = [
        *(Row(f"{what}, {label}", taken(name), None, bar, 1.0) for name, label in _LABELS.items()),
        Row(f"{what}, clean", taken("clean"), worktree, limit=1.0),
        Row(f"{what}, clean", taken("clean"), taken("cp -a")),
        *(Row(f"{what}, clean", taken("clean"), taken(name)) for name in ("cp --reflink",) if name in times),
        Row(f"{what}, clean", taken("clean"), taken("shutil.copytree")),
        Row(f"{what}, clean, first use", taken("first"), worktree, limit=1.0),
        Row(f"{what}, dirty", taken("dirty"), worktree, limit=1.0),
        Row(f"{what}, dirty against clean", taken("dirty"), taken("clean", "ours, clean"), limit=1.3),
    ]
    if kind == "off":
        return [*rows, Row(f"{what}, warm re-use", taken("warm"), taken("clean", "ours, clean"), limit=0.2)]
    floor = taken("mount", "mount -t overlay")
    return [*rows, *(Row(f"{what}, {label}", taken(name), None, floor, 2.0) for name, label in _LABELS.items())]


class _Field:
    """Where the contestants of one repository run."""

    def __init__(self, root: Path, copies: Path, files: int, kind: ours.Kind) -> None:
        self.repository, self.copies, self.files, self.kind = root, copies, files, kind
        self._aside, self._layers = root.with_name(root.name + "-own"), copies.with_name("layers-aside")
        self._edition = 0
        self._made: list[Workspace] = []
        self._taken: ours.Taken | None = None
        self._ours()
        self._clear()

    def contestants(self) -> list[Contestant]:
        contestants = [
            Contestant("clean", self._ours, after=self._clear),
            Contestant("create", self._create, before=self._take, after=self._clear),
            Contestant("create dirty", self._create, before=self._soil_and_take, after=self._clean),
            Contestant("next", self._reset, before=self._half_a_step, after=self._clear),
            Contestant("git worktree add", self._worktree, after=self._clear),
            Contestant("dirty", self._ours, before=self._soil, after=self._clean),
            Contestant("cp -a", self._cp, before=self._put_aside, after=self._put_back),
            Contestant("first", self._ours, before=self._put_aside, after=self._put_back),
            Contestant("shutil.copytree", self._copytree, before=self._put_aside, after=self._put_back),
        ]
        if self._has_reflinks():
            contestants.append(Contestant("cp --reflink", self._reflink, before=self._put_aside, after=self._put_back))
        if self.kind == "off":
            return [*contestants, Contestant("warm", self._ours, before=self._warm, after=self._clear)]
        return [*contestants, Contestant("mount", self._mount, before=self._make_folders, after=self._clear)]

    def close(self) -> None:
        """Leave the repository as it was."""
        self._clear()
        shutil.rmtree(self.copies)
        shutil.rmtree(self.repository / OWN_FOLDER)
        git("worktree", "prune", cwd=self.repository)

    def _ours(self) -> None:
        self._made.append(ours.workspace(self.repository, self.copies, self.kind))

    def _take(self) -> None:
        self._taken = ours.take(self.repository)

    def _create(self) -> None:
        assert self._taken  # noqa: S101
        self._made.append(ours.create(self._taken, self.copies, self.kind))

    def _half_a_step(self) -> None:
        self._ours()
        ours.half_a_step(self._made[-1], self.files)

    def _reset(self) -> None:
        self._made[-1].reset_to(self._made[-1].base_tree)

    def _soil_and_take(self) -> None:
        self._soil()
        self._take()

    def _make_folders(self) -> None:
        for name in ("upper", "work", "mounted"):
            (self.copies / name).mkdir()

    def _mount(self) -> None:
        (lower,) = self.copies.glob("layers-*/*/files")
        parts = f"lowerdir={lower},upperdir={self.copies}/upper,workdir={self.copies}/work"
        command = f"mount -t overlay overlay -o {parts} {self.copies}/mounted && /bin/true"
        subprocess.run(["unshare", "--mount", "sh", "-c", command], check=True)

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

    def _has_reflinks(self) -> bool:
        source, probe = self.repository / repository.names(1)[0], self.copies / "probe"
        done = subprocess.run(["cp", "--reflink=always", source, probe], check=False, capture_output=True)
        probe.unlink(missing_ok=True)
        return done.returncode == 0

    def _reflink(self) -> None:
        subprocess.run(["cp", "-a", "--reflink=always", self.repository, self.copies / "tree"], check=True)

    def _copytree(self) -> None:
        shutil.copytree(self.repository, self.copies / "tree", symlinks=True)

    def _clear(self) -> None:
        """Remove all but the layers, which an earlier run leaves."""
        while self._made:
            ours.dispose(self.repository, self._made.pop())
        for path in self.copies.iterdir():
            if not path.name.startswith("layers-"):
                shutil.rmtree(path)
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
        """The engine's folder is no part of what a peer copies, and first use has no layer."""
        (self.repository / OWN_FOLDER).rename(self._aside)
        self.copies.rename(self._layers)
        self.copies.mkdir(mode=0o700)

    def _put_back(self) -> None:
        self._clear()
        for folder, aside in ((self.repository / OWN_FOLDER, self._aside), (self.copies, self._layers)):
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
