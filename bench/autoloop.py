"""Measures `autoloop`: what its daemon costs while nothing happens, how soon it reacts, and a long queue."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.ground import Ground
from bench.table import Measure, Row, Section
from reflectloop.autoloop.decision import Clocks, decide
from reflectloop.autoloop.loop import Autoloop, open_project
from reflectloop.autoloop.submissions import NewSubmission, SubmissionQueue
from reflectloop.autoloop.task_view import Limits
from reflectloop.system import clock
from reflectloop.workspace.folders import open_project_dirs

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_HOUR_S = 3600
_IDLE_S = 36.0  # of processor time in an hour: one percent of a core
_REACTION_S = 0.5
_LOOK_S = 0.05
_PLAN = '{"plan": {"title": "Nothing", "track": "direct", "steps": [{"id": "a", "commands": ["true"]}]}}'


def measure(ground: Ground) -> Section:
    root = _project(ground.disk / "unattended")
    plan = ground.disk / "nothing.json"
    plan.write_text(_PLAN)
    daemon = subprocess.Popen(
        [sys.executable, "-m", "reflectloop", "autoloop", "start", "--foreground", "--project", str(root)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        reactions = [_reaction(root, plan) for _ in range(2 if ground.quick else 10)]
        seconds, cpu_s, wakes = _idle(daemon.pid, 10 if ground.quick else 120)
    finally:
        daemon.terminate()
        daemon.wait()
    per_hour = _HOUR_S / seconds
    look_s, first_s, last_s = _long_queue(_project(ground.disk / "queued"), plan, 1000)
    rows = [
        Row("idle for an hour, CPU", Measure("", cpu_s * per_hour), Measure("1 % of a core", _IDLE_S), limit=1.0),
        Row("idle for an hour, wake-ups", Measure("", wakes * per_hour, "times")),
        Row(
            "from a submission to its session",
            Measure("", statistics.median(reactions)),
            Measure("", _REACTION_S),
            limit=1.0,
        ),
        Row("a look at 1,000 queued tasks", Measure("", look_s), Measure("", _LOOK_S), limit=1.0),
        Row("to submit the 1,000th task", Measure("", last_s), Measure("the first", first_s), limit=2.0),
    ]
    notes = [
        f"Idle: {seconds:.0f} s of a daemon that waits by inotify, scaled to an hour; wake-ups are voluntary switches.",
        "From a submission: its line in the queue to the start in the daemon's log, in the same project.",
        "A look reads the queue, the journals and the clock, and decides; nothing changed since the look before.",
    ]
    return Section("autoloop: what waiting costs", notes, rows)


def _project(root: Path) -> Path:
    root.mkdir(parents=True)
    (root / "README").write_text("a project\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        subprocess.run(["git", *identity, *words], cwd=root, check=True)
    open_project_dirs(root).ensure_owned()
    return root


def _reaction(root: Path, plan: Path) -> float:
    """Return the seconds between the time of a submission and the time of its session's start."""
    queue = SubmissionQueue(open_project_dirs(root))
    _wait((root / ".reflectloop" / "autoloop" / "daemon" / "log.jsonl").exists)
    entry = queue.submit(NewSubmission(plan=plan))
    _wait(lambda: any(line["action"] == "end" and line.get("entry") == entry.id for line in _log(root)))
    start = next(line for line in _log(root) if line["action"] == "start" and line["entry"] == entry.id)
    return (datetime.fromisoformat(start["at"]) - datetime.fromisoformat(entry.at)).total_seconds()


def _log(root: Path) -> list[dict[str, Any]]:
    path = root / ".reflectloop" / "autoloop" / "daemon" / "log.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def _wait(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        if time.monotonic() > until:
            sys.exit("autoloop did not answer within a minute")
        time.sleep(0.05)


def _idle(pid: int, seconds: float) -> tuple[float, float, int]:
    """Return the time that passed, the processor time and the wake-ups of a daemon that has nothing to do."""
    time.sleep(2)
    before, began = _spent(pid), time.monotonic()
    time.sleep(seconds)
    after = _spent(pid)
    return time.monotonic() - began, after[0] - before[0], after[1] - before[1]


def _spent(pid: int) -> tuple[float, int]:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    status = Path(f"/proc/{pid}/status").read_text()
    switches = status.split("\nvoluntary_ctxt_switches:")[1].split()[0]
    return (int(fields[11]) + int(fields[12])) * _TICK, int(switches)


def _long_queue(root: Path, plan: Path, count: int) -> tuple[float, float, float]:
    """Return the time of a look at a queue of this length, and of its first and last submissions."""
    queue = SubmissionQueue(open_project_dirs(root))
    times = []
    for _ in range(count):
        began = time.perf_counter()
        queue.submit(NewSubmission(plan=plan))
        times.append(time.perf_counter() - began)
    loop = Autoloop([open_project(root)], Limits())
    looks = []
    for _ in range(10):
        began = time.perf_counter()
        decide(loop._situation(), Clocks(clock.monotonic(), clock.now()))  # noqa: SLF001 - a look that starts nothing
        looks.append(time.perf_counter() - began)
    return statistics.median(looks), statistics.median(times[:20]), statistics.median(times[-20:])
