"""Copy a package to another folder and repeat recorded calls there, in one bare interpreter for each surrounding.

The project's Python runs this file: standard library of 3.8 only. `python bare.py PLAN`; PLAN is a JSON file:

    {"top": "/the/workspace", "files": ["src/pkg/mod.py", ...], "linked": ["vendor", ...],
     "gone": ["tests", ".git", ...], "into": "/tmp/abc/app", "programs": "/tmp/def", "script": "run.py",
     "limit_s": 30, "job": JOB of replayer.py without top and out,
     "ways": [{"name": "plain", "flags": ["-O"], "env": {"TZ": "..."}, "moved": {...}, "terminal": false}, ...]}

The outcomes of a way are written to NAME.jsonl beside PLAN. `gone` is removed from the workspace first.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from typing import Any

_PROGRAMS = ("content.py", "copies.py", "equality.py", "functions.py", "guard.py", "plain_data.py", "set_up_state.py")


def main(path: str) -> None:
    """Do what a plan says."""
    here = os.path.dirname(os.path.abspath(path))
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    for name in plan["files"]:
        _copy(os.path.join(plan["top"], name), os.path.join(plan["into"], name))
    for name in plan["linked"]:
        _link(os.path.join(plan["top"], name), os.path.join(plan["into"], name))
    for name in plan["gone"]:
        _remove(os.path.join(plan["top"], name))
    script = os.path.join(plan["programs"], plan["script"])
    os.makedirs(plan["programs"], exist_ok=True)
    programs = os.path.dirname(os.path.abspath(__file__))
    shutil.copyfile(os.path.join(programs, "replayer.py"), script)
    for name in _PROGRAMS:
        shutil.copyfile(os.path.join(programs, name), os.path.join(os.path.dirname(script), name))
    for number, way in enumerate(plan["ways"]):
        job = {**plan["job"], "top": plan["into"], "moved": way.get("moved") or {}}
        job["out"] = os.path.join(here, way["name"] + ".jsonl")
        job_path = os.path.join(os.path.dirname(script), "%d.json" % number)
        with open(job_path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        _run(way, [sys.executable, *way.get("flags", ()), script, job_path], plan["into"], plan["limit_s"])


def _copy(source: str, target: str) -> None:
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
    except OSError:
        pass


def _link(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.symlink(source, target)


def _remove(path: str) -> None:
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.remove(path)
    except OSError:
        pass


def _run(way: dict[str, Any], argv: list[str], folder: str, limit_s: float) -> None:
    """Run an interpreter for a limited time, with or without a terminal."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "OLDPWD")}
    env.update(way.get("env") or {})
    leader, follower = os.openpty() if way.get("terminal") else (-1, os.open(os.devnull, os.O_RDWR))
    pid = os.fork()
    if not pid:
        try:
            os.setsid()
            for number in range(3):
                os.dup2(follower, number)
            os.chdir(folder)
            os.execve(argv[0], argv, env)  # noqa: S606 - the interpreter that runs this file
        finally:
            os._exit(127)
    os.close(follower)
    ends = time.monotonic() + limit_s
    while time.monotonic() < ends:
        if leader >= 0:
            _drain(leader)
        if os.waitpid(pid, os.WNOHANG)[0]:
            break
        time.sleep(0.01)
    else:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if leader >= 0:
        os.close(leader)


def _drain(terminal: int) -> None:
    """Read what was printed, so that the program does not wait."""
    os.set_blocking(terminal, False)
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:
        pass


if __name__ == "__main__":
    main(sys.argv[1])
