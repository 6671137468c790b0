"""Measures how long the command line takes to start."""

from __future__ import annotations

import json
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
_HOOK = "hook PreToolUse"
_OURS = ("--version", "--help", "status", "log", "diff", "verify --help", _HOOK)
_BAR = {"--version": 3.0, "status": 2.0, "log": 2.0, "diff": 2.0, "verify --help": 2.0, _HOOK: 1.5}
_TOOL_CALL = {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "git status | head -5"}}


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
    question = json.dumps({**_TOOL_CALL, "cwd": os.fspath(cwd)}).encode() if "hook" in argv else None
    return lambda: subprocess.run(
        argv, cwd=cwd, input=question, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )


def _rows(word: str, times: dict[str, Spent]) -> list[Row]:
    out = []
    for part, clock in enumerate(("wall", "CPU")):
        taken = {name: Measure(name, spent[part]) for name, spent in times.items()}
        floor = taken["git --version"]
        out.append(Row(f"reflectloop {word}, {clock}", taken[word], taken["bare click"], floor, _BAR.get(word)))
    return out
