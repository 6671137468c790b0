"""Measures how long the command line takes to start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import reflectloop
from bench import race
from bench.ground import Ground
from bench.race import Contestant, Spent
from bench.table import Measure, Row, Section

_BARE = Path(__file__).with_name("bare_click.py")
_PACKAGE = Path(reflectloop.__file__).parent
_OURS = ("--version", "--help", "status", "log", "diff", "verify --help")
_BAR = {"--version": 3.0, "status": 2.0, "log": 2.0, "diff": 2.0, "verify --help": 2.0}  # of the CPU time


def measure(ground: Ground) -> Section:
    project = shutil.copytree(ground.repository(100), ground.disk / "started")
    _run_a_plan(project)
    # An installed package has its bytecode; a check-out may have none, or be told to write none.
    subprocess.run([sys.executable, "-m", "compileall", "-q", os.fspath(_PACKAGE)], check=True)
    program = os.fspath(Path(sys.executable).with_name("reflectloop"))
    orders: dict[str, Sequence[str]] = {words: (program, *words.split()) for words in _OURS}
    orders["bare click"] = (sys.executable, os.fspath(_BARE), "--version")
    orders["git --version"] = ("git", "--version")
    contestants = [Contestant(name, _start(argv, project)) for name, argv in orders.items()]
    times = race.run(contestants, 5 if ground.quick else 40)
    rows = [row for word in _OURS for row in _rows(word, times)]
    notes = [
        "Median of 40 rounds. CPU is user and system time of the process and its children.",
        "The project has one finished run of one step, whose journal and change `status`, `log` and `diff` read.",
    ]
    return Section("start: of the command line", notes, rows)


def _run_a_plan(project: Path) -> None:
    plan = project / "plan.yaml"
    plan.write_text("plan:\n  title: One step\n  steps:\n    - id: a\n      commands: ['echo made | tee made.txt']\n")
    argv = [sys.executable, "-m", "reflectloop", "run", os.fspath(plan)]
    subprocess.run(argv, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def _start(argv: Sequence[str], cwd: Path) -> race.Act:
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
