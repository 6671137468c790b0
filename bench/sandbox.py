"""Measures what the box adds to a start of `true`: at `full`, and against bubblewrap called by hand."""

from __future__ import annotations

import os
import subprocess

from bench import ours, race
from bench.ground import Ground
from bench.race import Contestant
from bench.table import Measure, Row, Section
from reflectloop.config import BoxConfig
from reflectloop.sandbox import isolation, limits
from reflectloop.sandbox.limits import Limiter
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.terms import Isolation

_PLAIN = ("--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--die-with-parent")
_APART = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent")


def measure(ground: Ground) -> Section:
    title = "sandbox: start of `true`"
    wall = isolation.supported_levels()[0]
    if wall.level is not Isolation.FULL:
        return Section(title, [f"Not measured: this machine reaches {wall.level}."], [])
    root = ground.repository(100)
    space = ours.workspace(root, ground.disk / "copies")
    order = SandboxCommand(("true",), space.repo, ground.disk / "true.log", timeout_s=60)
    limiter = Limiter(space.name, limits.limits_from(BoxConfig()))
    box = Box(space, dict(os.environ), wall, limiter=limiter)
    weak = Box(space, dict(os.environ), isolation.choose_level(Isolation.NONE, Isolation.WORKSPACE))
    assert box.view  # noqa: S101
    mounts = tuple(box.view.words())
    contestants = [
        Contestant("full", lambda: box.run(order)),
        Contestant("workspace", lambda: weak.run(order)),
        Contestant("bwrap, same mounts", lambda: _by_hand(*mounts, *_APART)),
        Contestant("bwrap, pid only", lambda: _by_hand(*_PLAIN)),
        Contestant("spawn", lambda: subprocess.run(["true"], check=True)),
    ]
    times = race.run(contestants, 40 if ground.quick else 300)
    limiter.close()
    ours.dispose(root, space)
    taken = {name: Measure(name, spent.wall_s) for name, spent in times.items()}
    spawn = taken["spawn"]
    rows = [
        Row("level full", taken["full"], taken["bwrap, same mounts"], spawn, limit=1.5),
        Row("level workspace", taken["workspace"], taken["bwrap, pid only"], spawn, limit=1.5),
        Row("level full against the least bwrap does", taken["full"], taken["bwrap, pid only"], spawn),
    ]
    # Not the CPU: bwrap leaves the namespace's init to ours, and nobody can say what it took.
    notes = ["Wall time, median of 300 starts from Python; ours also sets limits, logs, scans and times the output."]
    return Section(title, notes, rows)


def _by_hand(*words: str) -> None:
    subprocess.run(["bwrap", *words, "--", "true"], check=True)
