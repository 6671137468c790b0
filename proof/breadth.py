"""The breadth of `run`: speed of batches, kills at any instant, large files by copy."""

from __future__ import annotations

import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from proof.environment import Stage
from proof.paper import Paper

KILLS = 50
LARGE = 5 << 30
UNIT_S = 1.0


def diamond(count: int, command: str) -> list[dict[str, Any]]:
    middle = [f"m{number}" for number in range(count - 2)]
    steps: list[dict[str, Any]] = [{"id": "top", "commands": [command]}]
    steps += [{"id": name, "commands": [command], "depends_on": ["top"]} for name in middle]
    return [*steps, {"id": "bottom", "commands": [command], "depends_on": middle}]


def prove_speed(stage: Stage, paper: Paper) -> None:
    """Twenty steps, four at a time: one, then eighteen in five rounds, then one."""
    project = stage.small_project("diamond")
    plan = stage.plan(diamond(20, f"sleep {UNIT_S}; echo x > made-$RANDOM$RANDOM"))
    seconds = {}
    for jobs in (1, 4):
        code, told = stage.loop(project, "run", "--new", "--jobs", str(jobs), plan)
        seconds[jobs] = told["envelope"]["duration_ms"] / 1000
        if code:
            paper.claim(f"a diamond of 20 steps with {jobs} job(s)", f"exit {code}", holds=False)
            return
    stage.loop(project, "gc", "--all")
    possible, reached = 20 / 7, seconds[1] / seconds[4]
    paper.claim(
        "a diamond of 20 steps with --jobs 4 reaches 90 % of the possible speed-up",
        f"{seconds[1]:.1f} s alone, {seconds[4]:.1f} s with four: {reached:.2f} of {possible:.2f}",
        holds=reached >= 0.9 * possible,
    )


def prove_kills(stage: Stage, paper: Paper, jobs: int) -> None:
    project = stage.small_project(f"kills-{jobs}")
    chance, left = random.Random(jobs), 0
    for _ in range(KILLS):
        plan = stage.plan([{"id": f"s{n}", "commands": ["echo x >> f$RANDOM; sleep 0.1"]} for n in range(6)])
        engine = stage.start(project, "run", "--new", "--jobs", str(jobs), plan)
        time.sleep(chance.uniform(0.05, 1.5))
        engine.send_signal(signal.SIGKILL)
        engine.communicate()
        time.sleep(0.1)
        left += stage.processes()
    code, _ = stage.loop(project, "gc", "--all")
    after_gc, spaces = stage.processes(), _left_after(stage, 30)
    after, _ = stage.loop(project, "run", "--new", stage.commands("echo x > y"))
    clean = stage.sh(project, "git", "status", "--porcelain").strip() == ""
    stage.loop(project, "gc", "--all")
    paper.claim(
        f"kill -9 at {KILLS} random instants, {jobs} job(s): gc leaves nothing and the next run works",
        f"{left} commands seen 0.1 s after a kill, {after_gc} after gc; {spaces} workspaces; gc exit {code}, "
        f"next run exit {after}; the tree is {'clean' if clean else 'CHANGED'}",
        holds=not after_gc and not code and not spaces and not after and clean,
    )


def _left_after(stage: Stage, seconds: float) -> int:
    """Folders still there once the deletion behind the user's back had its time."""
    deadline = time.monotonic() + seconds
    while stage.workspaces() and time.monotonic() < deadline:
        time.sleep(0.2)
    return len(stage.workspaces())


def prove_large(stage: Stage, paper: Paper) -> None:
    folder = stage.folder / "plain"
    folder.mkdir()
    (folder / "small.txt").write_text("small\n")
    with (folder / "large.bin").open("wb") as file:
        block = random.Random(1).randbytes(1 << 20)
        for _ in range(LARGE >> 20):
            file.write(block)
    began = time.monotonic()
    code, told = stage.loop(folder, "run", stage.commands("stat -c %s large.bin; echo more >> small.txt"))
    first = time.monotonic() - began
    touched = [change["path"] for change in told["data"]["touched_files"]]
    began = time.monotonic()
    again, _ = stage.loop(folder, "run", stage.commands("echo other >> small.txt"))
    second = time.monotonic() - began
    paper.claim(
        "a folder without git that holds a 5 GiB file is taken by copy, and the patch has only what changed",
        f"exit {code} after {first:.0f} s, then {again} after {second:.1f} s; changed: {', '.join(touched)}",
        holds=(code, again) == (0, 0) and touched == ["small.txt"],
    )
    stage.loop(folder, "gc", "--all")


def main() -> None:
    paper = Paper("breadth", "Batches, kills and large files.")
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-", dir="/var/tmp") as name:
        stage = Stage(Path(name).resolve())
        prove_speed(stage, paper)
        for jobs in (1, 3):
            prove_kills(stage, paper, jobs)
        prove_large(stage, paper)
    paper.write()


if __name__ == "__main__":
    main()
