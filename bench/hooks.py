"""Measures the hooks of an agent: before a tool, and a stop whose answer is known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench import race
from bench.ground import Ground
from bench.race import Contestant
from bench.table import Measure, Row, Section

_BARE = Path(__file__).with_name("bare_click.py")
_TEST = "import product\n\n\ndef test_one():\n    assert product.one() == 1\n"
_STOP_S = 0.3  # the bar of a stop on a tree that is verified already
_TOOL_S = 0.06  # of processor time, before a tool
_COMMAND = {"command": "cd src && git status | head -5; python -m pytest -q 2>&1 | tail -3"}


def measure(ground: Ground) -> Section:
    root = _project(ground.disk / "hooked")
    _send(root, "SessionStart", {})
    (root / "product.py").write_text("def one():\n    return 3 - 2\n")
    _send(root, "Stop", {})
    edited = os.fspath(root / "product.py")
    contestants = [
        Contestant("a command", lambda: _send(root, "PreToolUse", {"tool_name": "Bash", "tool_input": _COMMAND})),
        Contestant(
            "an edit", lambda: _send(root, "PreToolUse", {"tool_name": "Edit", "tool_input": {"file_path": edited}})
        ),
        Contestant("a stop", lambda: _send(root, "Stop", {})),
        Contestant(
            "bare click", lambda: subprocess.run([sys.executable, _BARE, "--version"], capture_output=True, check=True)
        ),
    ]
    times = race.run(contestants, 5 if ground.quick else 40)
    bare = Measure("bare click", times["bare click"].cpu_s)
    rows = []
    for name in ("a command", "an edit"):
        ours = Measure(name, times[name].cpu_s)
        rows.append(Row(f"before {name}, CPU", ours, bare, limit=1.5))
        rows.append(Row(f"before {name}, CPU", ours, Measure("60 ms", _TOOL_S), limit=1.0))
    for clock, spent in (("wall", times["a stop"].wall_s), ("CPU", times["a stop"].cpu_s)):
        rows.append(
            Row(f"a stop whose tree is verified, {clock}", Measure("a stop", spent), Measure("", _STOP_S), limit=1.0)
        )
    notes = ["Each hook is a process of its own, as a client starts it. CPU is that of the process and its children."]
    return Section("hooks: what an agent waits for", notes, rows)


def _project(root: Path) -> Path:
    root.mkdir(parents=True)
    (root / "product.py").write_text("def one():\n    return 1\n")
    (root / "test_product.py").write_text(_TEST)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A product"]):
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        subprocess.run(["git", *identity, *words], cwd=root, check=True)
    return root


def _send(root: Path, event: str, fields: Mapping[str, object]) -> None:
    program = os.fspath(Path(sys.executable).with_name("reflectloop"))
    document = {"session_id": "bench", "cwd": os.fspath(root), "stop_hook_active": False, **fields}
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(
        [program, "hook", event], input=json.dumps(document).encode(), check=True, capture_output=True, env=env
    )
