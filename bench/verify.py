"""Measures what sealed verification adds to a project's own tests."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench import ours, race, repository
from bench.ground import Ground, git
from bench.race import Contestant
from bench.table import Measure, Row, Section

_PROGRAM = [sys.executable, "-m", "reflectloop", "verify", "--json"]
_AGAIN_S = 0.3
_SUITE = """\
import time

import pytest

from product import one


@pytest.mark.parametrize("number", range({count}))
def test_one(number):
    time.sleep({each_s})
    assert one(number) == number
"""


class _Case(NamedTuple):
    seconds: float  # of the suite
    files: int  # of the repository besides the suite
    limit: float

    def __str__(self) -> str:
        return f"suite of {self.seconds:g} s" + (f", {self.files:,} files" if self.files else "")


def measure(ground: Ground) -> Section:
    cases = [_Case(2, 0, 1.15), _Case(12, 0, 1.15), _Case(2, 100_000, 1.5)]
    rows = [
        row
        for number, case in enumerate(cases[:1] if ground.quick else cases)
        for row in _rows(case, _project(ground.disk / f"verified-{number}", case))
    ]
    notes = [
        "Wall time, median of 3 rounds. A suite has 200 tests that mostly wait.",
        "The patch changes one line of a function, touches no tests, and the base run is in memory.",
        "Again: the verdict is read, nothing runs.",
        "What is verified lies in a workspace that is mounted over the base tree (overlay) or has all files (copy).",
    ]
    return Section("verify: against the project's own tests", notes, rows)


def _rows(case: _Case, root: Path) -> list[Row]:
    rows: list[Row] = []
    numbers = itertools.count()
    version = [*_PROGRAM[:3], "--version"]
    for kind in ours.kinds():
        ours.choose(kind)
        _change(root, numbers)
        _verify(root)  # the base run is in memory from here on
        contestants = [
            Contestant("verify", lambda: _verify(root), before=lambda: _change(root, numbers)),
            Contestant("pytest", lambda: _plain(root)),
            Contestant("again", lambda: _verify(root), before=lambda: _verify(root)),
            Contestant("version", lambda: subprocess.run(version, check=True, capture_output=True)),
        ]
        times = {name: Measure(name, spent.wall_s) for name, spent in race.run(contestants, 3).items()}
        what = f"{ours.NAMES[kind]}, {case}"
        rows += [
            Row(f"{what}: a changed line", times["verify"], times["pytest"], times["version"], case.limit),
            Row(f"{what}: the same tree again", times["again"], None, Measure("bar", _AGAIN_S), 1.0),
        ]
    return rows


def _project(root: Path, case: _Case) -> Path:
    count = 200
    if case.files:
        repository.make(root, case.files)
    (root / "tests").mkdir(parents=True)
    (root / "product.py").write_text("def one(number):\n    return number\n")
    (root / "tests" / "test_product.py").write_text(_SUITE.format(count=count, each_s=case.seconds / count))
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\ntestpaths = ["tests"]\n')
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A suite that takes its time"]):
        git(*words, cwd=root)
    return root


def _change(root: Path, numbers: Iterator[int]) -> None:
    (root / "product.py").write_text(f"def one(number):\n    return number + {next(numbers)} * 0\n")


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def _verify(root: Path) -> None:
    subprocess.run(_PROGRAM, cwd=root, check=True, capture_output=True, env=_environment())


def _plain(root: Path) -> None:
    subprocess.run(["pytest", "-q"], cwd=root, check=True, capture_output=True, env=_environment())
