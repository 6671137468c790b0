"""Measures how near steps side by side come to the critical path."""

from __future__ import annotations

import json
import time
from typing import Any

from bench import ours
from bench.ground import Ground
from bench.table import Measure, Row, Section
from reflectloop.engine import pipeline as flow
from reflectloop.engine.run.request import RunRequest

_STEPS, _JOBS, _UNIT_S = 20, 4, 1.0
_ROUNDS_BETWEEN = -(-(_STEPS - 2) // _JOBS)  # of the steps between the first and the last
_BAR = 1.05
_FILES = 200


def measure(ground: Ground) -> Section:
    root = ground.repository(_FILES)
    plan = root.parent / "diamond.json"
    plan.write_text(json.dumps({"plan": {"title": "Diamond", "track": "direct", "steps": _diamond()}}))
    path = Measure("critical path", (2 + _ROUNDS_BETWEEN) * _UNIT_S)
    rows = []
    for kind in ours.kinds():
        ours.choose(kind)
        request = RunRequest(root, plan, jobs=_JOBS, new_task=True, sandbox_root=ground.disk / "parallel")
        fastest = min(_run(request) for _ in range(1 if ground.quick else 3))
        rows.append(Row(f"{ours.NAMES[kind]}, a diamond of 20 steps", Measure("", fastest), path, limit=_BAR))
    notes = [
        f"{_STEPS} steps in a diamond, each `sleep {_UNIT_S}` and one new file, {_JOBS} at a time; the fastest run.",
        "Ours is the whole run, from plan to patch.",
    ]
    return Section("parallel: batches", notes, rows)


def _run(request: RunRequest) -> float:
    began = time.monotonic()
    outcome = flow.run(request)
    if outcome.error:
        raise outcome.error
    return time.monotonic() - began


def _diamond() -> list[dict[str, Any]]:
    command = f"sleep {_UNIT_S}; echo x > $RANDOM-$RANDOM.txt"
    middle = [f"m{number}" for number in range(_STEPS - 2)]
    steps: list[dict[str, Any]] = [{"id": "top", "commands": [command]}]
    steps += [{"id": name, "commands": [command], "depends_on": ["top"]} for name in middle]
    return [*steps, {"id": "bottom", "commands": [command], "depends_on": middle}]
