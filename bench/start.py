"""Measures how long the command line takes to start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import race
from bench.ground import Ground
from bench.race import Contestant, Spent
from bench.table import Measure, Row, Section

_BARE = Path(__file__).with_name("bare_click.py")
_OURS = ("--version", "--help", "status", "log", "diff", "verify --help")
_BAR = {"--version": 3.0, "status": 2.0, "log": 2.0, "diff": 2.0, "verify --help": 2.0}  # of the CPU time


def measure(ground: Ground) -> Section:
    project = ground.repository(100)
    program = os.fspath(Path(sys.executable).with_name("reflectloop"))
    orders: dict[str, Sequence[str]] = {words: (program, *words.split()) for words in _OURS}
    orders["bare click"] = (sys.executable, os.fspath(_BARE), "--version")
    orders["git --version"] = ("git", "--version")
    contestants = [Contestant(name, _start(argv, project)) for name, argv in orders.items()]
    times = race.run(contestants, 5 if ground.quick else 40)
    rows = [row for word in _OURS for row in _rows(word, times)]
    notes = ["Median of 40 rounds. CPU is user and system time of the process and its children."]
    return Section("start: of the command line", notes, rows)


def _start(argv: Sequence[str], cwd: Path) -> race.Act:
    # `log` and `diff` fail, since nothing has run there; they load all the same.
    return lambda: subprocess.run(argv, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _rows(word: str, times: dict[str, Spent]) -> list[Row]:
    out = []
    for part, clock in enumerate(("wall", "CPU")):
        taken = {name: Measure(name, spent[part]) for name, spent in times.items()}
        floor = taken["git --version"]
        out.append(
            Row(
                f"reflectloop {word}, {clock}",
                taken[word],
                taken["bare click"],
                floor,
                _BAR.get(word) if clock == "CPU" else None,
            )
        )
    return out
