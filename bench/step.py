"""Measures what the engine adds to each step, and whether that grows with the number of steps."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import NamedTuple
from unittest import mock

from bench import ours, race
from bench.ground import Ground, git
from bench.race import Spent
from bench.table import Measure, Row, Section
from reflectloop.engine import pipeline as flow
from reflectloop.engine.run.request import NullObserver, RunRequest
from reflectloop.sandbox import isolation
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.state import events
from reflectloop.state.journal import JournalEntry
from reflectloop.system import bubblewrap
from reflectloop.terms import Isolation
from reflectloop.workspace.project import OWN_FOLDER

_SMALL, _LARGE = 200, 7_000  # files in the tree
_COMPARED = 100  # steps of the run that is held against the floor
_FLOORS = 200  # how often the floor is measured within one run, at most
_IDLE_BAR, _CHANGE_BAR, _GROWTH_BAR = 1.5, 1.3, 1.3
_PR_SET_CHILD_SUBREAPER = 36
_LINE = b"x" * 200 + b"\n"  # about as long as a line of the journal
_BWRAP = ("bwrap", "--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--die-with-parent", "--")

Command = Callable[[int], list[str]]


class Kind(NamedTuple):
    """What the steps of a run do, and in what."""

    change: bool
    namespaced: bool
    files: int = _SMALL
    kind: ours.Kind = "off"

    def __str__(self) -> str:
        does = "changes one file" if self.change else "changes nothing"
        where = "pid namespace" if self.namespaced else "no namespace"
        size = f", {self.files:,}-file tree" if self.files != _SMALL else ""
        return f"{does}, {where}{size}, {ours.NAMES[self.kind]}"

    def command(self, number: int) -> list[str]:
        return ["sh", "-c", f"echo {number} > changed.txt"] if self.change else ["true"]


class Took(NamedTuple):
    """One run: each step, the floor beside it, and what was spent outside the steps."""

    steps: list[Spent]
    floors: list[Spent]
    outside: Spent


def measure(ground: Ground) -> Section:
    kinds = [Kind(change, namespaced) for namespaced in _isolations() for change in (False, True)]
    rows: list[Row] = []
    for kind in kinds:
        rows += _rows(kind, _runs(ground, kind, _counts(ground, kind)))
    for files, change, of_workspace in itertools.product((_SMALL, _LARGE), (False, True), ours.kinds()):
        kind = Kind(change, namespaced=False, files=files, kind=of_workspace)
        if kind not in kinds:
            rows += _against_floor(kind, _runs(ground, kind, [_COMPARED] * 3)[_COMPARED])
    notes = [
        (
            "A generated plan through `engine.run`, in process; the floor is taken between its steps, so both see "
            "the same noise. Median over the steps of all runs of a length; short runs stand around each long one."
        ),
        (
            "The floor is a spawn of the same command (in plain bwrap where the steps have a pid namespace), two "
            "appends with fsync, and for a step that changes a file `git add -A; git write-tree` of the same tree."
        ),
        (
            f"The tree has {_SMALL} files where nothing else is said. Growth compares the last tenth of a long run "
            "with the cheaper of the runs of 10 and 100 steps; the whole run adds everything else (plan, workspace, "
            "patch, reports), shared out over the steps that were more than 10. Beside growth stands the floor as it "
            "was during that last tenth: where it rose as well, the machine was slower then, not the engine."
        ),
        (
            "Without a namespace the engine's own git calls are not shielded either. With one, CPU is not given: most "
            "of it is spent by processes that are not ours to wait for."
        ),
        f"Everything lies on {ground.medium(ground.disk)}.",
    ]
    return Section("step: the engine's cost", notes, rows)


def _isolations() -> tuple[bool, ...]:
    return (False,) if bubblewrap.refusal() else (False, True)


def _counts(ground: Ground, kind: Kind) -> list[int]:
    """How many steps each run has; short runs stand around every long one, so that both meet the same noise."""
    short = [10, 10, 10, _COMPARED]
    if ground.quick:
        return [*short, 1_000]
    long = [1_000, 1_000] if kind.namespaced else [1_000, 1_000, 10_000]
    return short + [steps for one in long for steps in (one, *short)]


def _rows(kind: Kind, runs: dict[int, list[Took]]) -> list[Row]:
    rows = _against_floor(kind, runs[_COMPARED])
    # The cheaper of the short runs: in the first second of a run git reads young files twice, which flatters growth.
    shortest = min((10, _COMPARED), key=lambda steps: race.median(_steps(runs[steps])).wall_s)
    base = race.median(_steps(runs[shortest]))
    fixed = race.median(took.outside for took in runs[10])
    for steps in [steps for steps in runs if steps > _COMPARED]:
        last = race.median(one for took in runs[steps] for one in took.steps[-steps // 10 :])
        floor = race.median(one for took in runs[steps] for one in took.floors[-len(took.floors) // 10 :])
        beside = Measure("then", floor.wall_s)
        more = race.median(took.outside for took in runs[steps]) - fixed
        share = last.wall_s + more.wall_s / (steps - 10)
        start = Measure(f"ours at {shortest}", base.wall_s)
        rows += [
            Row(f"{kind}: growth to {steps:,} steps", Measure("", last.wall_s), start, beside, _GROWTH_BAR),
            Row(f"{kind}: growth to {steps:,}, whole run", Measure("", share), start, beside, _GROWTH_BAR),
        ]
    return [*rows, Row(f"{kind}: fixed cost of a run", Measure("", fixed.wall_s))]


def _against_floor(kind: Kind, runs: list[Took]) -> list[Row]:
    own, floor = race.median(_steps(runs)), race.median(one for took in runs for one in took.floors)
    # Behind bwrap git and the commands are children of processes nobody waits for until the run ends: no CPU to read.
    clocks = ("wall",) if kind.namespaced else ("wall", "CPU")
    bar = _CHANGE_BAR if kind.change else _IDLE_BAR
    return [
        Row(f"{kind}: {clock}", Measure("", own[part]), None, Measure("", floor[part]), bar)
        for part, clock in enumerate(clocks)
    ]


def _steps(runs: list[Took]) -> list[Spent]:
    return [one for took in runs for one in took.steps]


def _runs(ground: Ground, kind: Kind, counts: list[int]) -> dict[int, list[Took]]:
    runs: dict[int, list[Took]] = {steps: [] for steps in sorted(counts)}
    for steps in counts:
        runs[steps].append(_run(ground, kind, steps))
    return runs


def _run(ground: Ground, kind: Kind, steps: int) -> Took:
    project = ground.repository(kind.files)
    plan = ground.disk / "plan.yaml"
    # JSON is YAML, and quick to write.
    listed = [{"id": f"S-{number}", "commands": [kind.command(number)]} for number in range(steps)]
    plan.write_text(json.dumps({"plan": {"title": "bench", "steps": listed}}))
    ours.choose(kind.kind)
    request = RunRequest(project, plan, sandbox_root=ground.disk / "copies", jobs=1)
    with _floor(ground, kind) as floor, _isolated(kind):
        watch = _Watch(floor, every=max(1, steps // _FLOORS))
        start = race.reading()
        outcome = flow.run(request, watch)
        whole = race.reading() - start
    if outcome.error:
        raise outcome.error
    for left in (project / OWN_FOLDER, ground.disk / "copies"):
        shutil.rmtree(left)
    return Took(watch.steps, watch.floors, whole - watch.inside)


@contextlib.contextmanager
def _isolated(kind: Kind) -> Iterator[None]:
    """The flow takes the strongest level it can have; to do with less, it must be told there is no more."""
    wall = IsolationLevel(Isolation.WORKSPACE, "bubblewrap" if kind.namespaced else "nothing")
    with mock.patch.object(isolation, "levels", return_value=(wall,)):
        if kind.namespaced:
            yield
            return
        with mock.patch.object(bubblewrap, "refusal", return_value="the bench wants none"):
            yield
    # The engine adopts orphans where it has no namespace; those of a bwrap in a later run would stay as zombies.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class _Watch(NullObserver):
    """Reads the clock when the journal says that a step is finished, then has the floor do the same."""

    def __init__(self, floor: Callable[[int], None], every: int) -> None:
        self._floor, self._every = floor, every
        self._begin = self._since = race.reading()
        self.steps: list[Spent] = []
        self.floors: list[Spent] = []
        self.inside = Spent(0, 0)

    def happened(self, entry: JournalEntry) -> None:
        now = race.reading()
        if isinstance(entry.event, events.RunStarted):
            self._begin = self._since = race.reading()
        if isinstance(entry.event, events.StepFinished):
            self.steps.append(now - self._since)
            if len(self.steps) % self._every == 0:
                self._floor(len(self.steps))
                self.floors.append(race.reading() - now)
            self._since = race.reading()
            self.inside = self._since - self._begin


@contextlib.contextmanager
def _floor(ground: Ground, kind: Kind) -> Iterator[Callable[[int], None]]:
    """The least that a durable step can be, in a tree of its own."""
    tree = ground.disk / "floor"
    git(
        "clone", "--quiet", "--no-hardlinks", os.fspath(ground.repository(kind.files)), os.fspath(tree), cwd=ground.disk
    )
    journal = os.open(ground.disk / "floor.journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    prefix = _BWRAP if kind.namespaced else ()

    def step(number: int) -> None:
        _append(journal)
        subprocess.run([*prefix, *kind.command(number)], cwd=tree, check=True)
        if kind.change:
            git("add", "--all", cwd=tree)
            git("write-tree", cwd=tree)
        _append(journal)

    try:
        yield step
    finally:
        os.close(journal)
        shutil.rmtree(tree)


def _append(journal: int) -> None:
    os.write(journal, _LINE)
    os.fsync(journal)
