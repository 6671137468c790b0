"""Measures what sealed verification adds to a project's own tests."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import race
from bench.ground import Ground
from bench.race import Contestant
from bench.table import Measure, Row, Section

_PROGRAM = [sys.executable, "-m", "reflectloop", "verify", "--json"]
_SUITE = """\
import time

import pytest

from product import one


@pytest.mark.parametrize("number", range({count}))
def test_one(number):
    time.sleep({each_s})
    assert one(number) == number
"""


def measure(ground: Ground) -> Section:
    seconds = 2.0 if ground.quick else 12.0
    root = _project(ground.disk / "verified", seconds)
    numbers = itertools.count()
    _change(root, numbers)
    _verify(root)  # the base run is in memory from here on
    contestants = [
        Contestant("verify", lambda: _verify(root), before=lambda: _change(root, numbers)),
        Contestant("pytest", lambda: _plain(root)),
        Contestant("verify again", lambda: _verify(root)),
        Contestant("version", lambda: subprocess.run([*_PROGRAM[:3], "--version"], check=True, capture_output=True)),
    ]
    times = {name: Measure(name, spent.wall_s) for name, spent in race.run(contestants, 3).items()}
    rows = [
        Row("a patch that touches no tests, base run in memory", times["verify"], times["pytest"], limit=1.15),
        Row("the same tree again", times["verify again"], floor=times["version"]),
    ]
    notes = [f"A suite of {seconds:g} s: 200 tests that mostly wait. Again: the verdict is read, nothing runs."]
    return Section("verify: against the project's own tests", notes, rows)


def _project(root: Path, seconds: float) -> Path:
    count = 200
    (root / "tests").mkdir(parents=True)
    (root / "product.py").write_text("def one(number):\n    return number\n")
    (root / "tests" / "test_product.py").write_text(_SUITE.format(count=count, each_s=seconds / count))
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A suite that takes its time"]):
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        subprocess.run(["git", *identity, *words], cwd=root, check=True)
    return root


def _change(root: Path, numbers: Iterator[int]) -> None:
    (root / "product.py").write_text(f"def one(number):\n    return number + {next(numbers)} * 0\n")


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def _verify(root: Path) -> None:
    subprocess.run(_PROGRAM, cwd=root, check=True, capture_output=True, env=_environment())


def _plain(root: Path) -> None:
    subprocess.run(["pytest", "-q"], cwd=root, check=True, capture_output=True, env=_environment())
