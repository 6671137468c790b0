"""Run two versions of a function on inputs near those of tests, as a verification does."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reflectloop.verification.probing import inside, judging, observations
from reflectloop.verification.probing.neighbours import CallInput
from reflectloop.verification.probing.observations import FunctionInputs, Job, Observation, Side

RUNNER = Path(inside.__file__).with_name("run_inputs.py")


def side(folder: Path) -> Side:
    def run(job: Job) -> Sequence[Mapping[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-B", str(RUNNER)],
            input=json.dumps({"now": 1_790_000_000, **job, "roots": [str(folder)]}),
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def spans(source: str) -> list[tuple[int, int]]:
    found = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return [(node.lineno, node.end_lineno or node.lineno) for node in found]


def observe(tmp_path: Path, base: str | None, patch: str, name: str, *inputs: tuple[Any, ...]) -> Observation:
    for folder, source in (("base", base), ("patch", patch)):
        (tmp_path / folder).mkdir()
        if source is not None:
            (tmp_path / folder / "program.py").write_text(source)
    function = FunctionInputs("program.py", "program", name, tuple(CallInput(args, {}) for args in inputs))
    sides = side(tmp_path / "base"), side(tmp_path / "patch")
    return observations.observe([function], *sides, {"program.py": spans(patch)}, "seed", seconds=60)[0]


def rules(seen: Observation, *, grows_table: bool = False) -> list[str]:
    return [suspicion.rule for suspicion in judging.judge(seen, grows_table=grows_table)]
