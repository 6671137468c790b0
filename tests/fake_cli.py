"""A program that stands for an agent's CLI: it says what the real one said when it was recorded, and what it was told.

What lies in `recorded/` was printed by Claude Code 2.1.325 and Codex CLI 0.163.0 for the model of `model.py`; fields that
nobody reads were left out, and paths replaced.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded"
_PLAYER = """#!{python}
import json, os, sys, time
if sys.argv[1:] == ["--version"]:
    print({version!r})
    sys.exit(0)
told = {{"argv": sys.argv[1:], "env": dict(os.environ), "stdin": sys.stdin.read(), "cwd": os.getcwd()}}
with open(os.path.join(os.environ["HOME"], "told.json"), "w") as file:
    json.dump(told, file)
sys.stdout.write({text!r})
sys.stdout.flush()
time.sleep({sleep_s})
sys.exit({code})
"""


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.jsonl").read_text()


def player(
    folder: Path, name: str, text: str, *, code: int = 0, version: str = "9.9.9", sleep_s: float = 0
) -> tuple[str, ...]:
    """The words it is started with."""
    path = folder / "programs" / name
    path.parent.mkdir(exist_ok=True)
    python = os.path.realpath(sys.executable)
    path.write_text(_PLAYER.format(python=python, version=version, text=text, code=code, sleep_s=sleep_s))
    path.chmod(0o755)
    return (str(path),)


def told(folder: Path) -> dict[str, Any]:
    """What it was started with, told by itself in its HOME."""
    found: dict[str, Any] = json.loads((folder / "agent" / "told.json").read_text())
    return found
