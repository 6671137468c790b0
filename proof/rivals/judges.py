"""Four judges of the same work tree: each says whether the work is accepted, and how long that took."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from proof.cheats.judge import verify
from proof.environment import Stage
from proof.rivals.programs import Yard

LIMIT_S = 300
RIVALS = ("agent-countercheck==0.14.0", "checkwash==0.9.0")
Judge = Callable[[Yard], tuple[bool, float]]


def install(stage: Stage, kept: Path) -> Path:
    """An environment of their own for the programs of others."""
    place = kept / "rivals"
    if not (place / "bin/countercheck").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin/pip", "install", "-q", *RIVALS], check=True)
    (stage.folder / "their-home").mkdir(exist_ok=True)
    return place


def _timed(argv: list[str | Path], cwd: Path, env: Mapping[str, str]) -> tuple[bool, float]:
    began = time.monotonic()
    try:
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return False, float(LIMIT_S)
    return done.returncode == 0, time.monotonic() - began


def judges(stage: Stage, place: Path) -> dict[str, Judge]:
    theirs = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(stage.folder / "their-home"), "LANG": "C.UTF-8"}
    theirs |= {"TMPDIR": str(stage.folder / "temp")}
    plain = theirs | {"PYTHONDONTWRITEBYTECODE": "1"}

    def ours(yard: Yard) -> tuple[bool, float]:
        verdict = verify(stage, yard.root, "--track", "fix")
        return verdict.accepted, verdict.seconds

    return {
        "exit code of pytest": lambda yard: _timed([yard.python, "-m", "pytest", "-q"], yard.root, plain),
        "agent-countercheck": lambda yard: _timed([place / "bin/countercheck", "verify"], yard.root, theirs),
        "checkwash": lambda yard: _timed([place / "bin/checkwash", "check"], yard.root, theirs),
        "reflectloop": ours,
    }
