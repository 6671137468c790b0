"""Measures what the box adds to a start of `true` in a pid namespace."""

from __future__ import annotations

import os
import subprocess

from bench import ours, race
from bench.ground import Ground
from bench.race import Contestant
from bench.table import Measure, Row, Section
from reflectloop.box import walls
from reflectloop.box.box import Box, Order
from reflectloop.terms import Isolation
from reflectloop.world import bubblewrap

_BWRAP = ("bwrap", "--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--die-with-parent", "--")


def measure(ground: Ground) -> Section:
    title = "sandbox: start of `true`"
    if refused := bubblewrap.refusal():
        return Section(title, [f"Not measured: {refused}."], [])
    root = ground.repository(100)
    space = ours.workspace(root, ground.disk / "copies")
    order = Order(("true",), space.repo, ground.disk / "true.log", timeout_s=60)
    box = Box(space, dict(os.environ), walls.reach(Isolation.FULL))
    contestants = [
        Contestant("ours", lambda: box.run(order)),
        Contestant("bwrap", lambda: subprocess.run([*_BWRAP, "true"], check=True)),
        Contestant("spawn", lambda: subprocess.run(["true"], check=True)),
    ]
    times = race.run(contestants, 40 if ground.quick else 300)
    ours.dispose(root, space)
    taken = {name: Measure(name, spent.wall_s) for name, spent in times.items()}
    rows = [Row("in a pid namespace", taken["ours"], taken["bwrap"], taken["spawn"], limit=1.5)]
    # Not the CPU: bwrap leaves the namespace's init to ours, and nobody can say what it took.
    notes = ["Wall time, median of 300 starts from Python; ours also logs, scans and times the output."]
    return Section(title, notes, rows)
