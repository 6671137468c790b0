"""Hands for the stories: a repository to work in and the program as a user starts it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import warm

PROGRAM = [sys.executable, "-m", "reflectloop"]
_OWN = Path(sys.executable).parent
# What projects of the tests find: a pytest without plugins, whatever the machine has (`make setup`), then our own tools.
TOOLS = os.pathsep.join((str(_OWN.parent / "sample" / "bin"), str(_OWN), os.environ["PATH"]))


class Answer(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stdout)
        return found

    @property
    def envelope(self) -> dict[str, Any]:
        found: dict[str, Any] = self.json["envelope"]
        return found


def start(cwd: Path, *words: str) -> warm.Engine:
    return warm.start(cwd, words, os.environ)


def reflectloop(cwd: Path, *words: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Answer:
    done = warm.start(cwd, words, {**os.environ, **(env or {})}, stdin.encode()).ended()
    return Answer(done.code, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


class Gate(NamedTuple):
    """Where a command waits until a test lets it go on: on a busy machine no length of sleep is long enough."""

    path: Path

    @property
    def wait(self) -> str:
        return f"while [ ! -e {self.path} ]; do sleep 0.02; done"

    def open(self) -> None:
        self.path.touch()


class Repo:
    def __init__(self, path: Path) -> None:
        self.path = path

    def git(self, *words: str, cwd: Path | None = None) -> str:
        env = {**os.environ, "GIT_AUTHOR_NAME": "Test", "GIT_AUTHOR_EMAIL": "test@localhost"}
        env |= {"GIT_COMMITTER_NAME": "Test", "GIT_COMMITTER_EMAIL": "test@localhost"}
        done = subprocess.run(
            ["git", "-c", "maintenance.auto=false", *words],
            env=env,
            cwd=cwd or self.path,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode("utf-8", "surrogateescape")

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def plan(self, text: str, name: str = "plan.yaml") -> Path:
        """A plan beside the project, so that it is no part of it."""
        path = self.path.parent / name
        path.write_text(textwrap.dedent(text))
        return path

    def steps(self, *commands: str | list[str], **more: Any) -> Path:
        """A plan of one step a command."""
        steps = [{"id": f"P-{number}", "commands": [command], **more} for number, command in enumerate(commands, 1)]
        return self.plan(json.dumps({"plan": {"title": "Test", "track": "direct", "steps": steps}}))

    def weaken(self) -> Path:
        """As on a machine that can do no better than a folder and an environment of its own."""
        settings = self.path / "reflectloop.toml"
        settings.write_text((settings.read_text() if settings.exists() else "") + '[box]\nstrongest = "workspace"\n')
        return settings

    def gate(self) -> Gate:
        """Not in a box, where a command would not see it open."""
        self.weaken()
        self.commit("settings")
        return Gate(self.path.parent / "gate")

    def run(self, *words: str | Path, env: Mapping[str, str] | None = None) -> Answer:
        return reflectloop(self.path, *(str(word) for word in words), env=env)

    def state(self) -> dict[str, Any]:
        """Everything of the user's that a run must leave alone."""
        times = {}
        for folder, folders, names in os.walk(self.path):
            if ".reflectloop" in folders:
                folders.remove(".reflectloop")
            for name in names:
                path = Path(folder) / name
                status = path.lstat()
                times[str(path)] = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)
        return {
            "index": (self.path / ".git" / "index").read_bytes(),
            "refs": self.git("for-each-ref"),
            "head": (self.path / ".git" / "HEAD").read_text(),
            "stash": self.git("stash", "list"),
            "config": (self.path / ".git" / "config").read_text(),
            "times": times,
        }

    def latest(self) -> Path:
        own = self.path / ".reflectloop"
        return own / "runs" / (own / "latest").read_text().strip()

    def workspaces(self) -> list[Path]:
        """Those on disk, but for the one kept warm for the next run, and layers."""
        roots = [Path(os.environ["TMPDIR"]) / name for name in ("reflectloop", f"build-{os.geteuid()}")]
        records = (self.path / ".reflectloop" / "workspaces").glob("*/workspace.json")
        warm = {record.parent.name for record in records if json.loads(record.read_text())["fate"] == "warm"}
        found = sorted(
            path for root in roots for path in root.glob("*") if not path.name.startswith((".removed", "layers-"))
        )
        return [path for path in found if path.name not in warm]

    def no_process_left(self) -> None:
        mark = os.fsencode(Path(os.environ["TMPDIR"]).parent)
        assert wait_until(lambda: not _processes_naming(mark)), f"left running: {_processes_naming(mark)}"


def _processes_naming(mark: bytes) -> list[str]:
    """Return the commands of ours that still run: their HOME lies under this test's folder."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, PermissionError, ProcessLookupError):
            environ = _read(f"/proc/{name}/environ")
            if (
                b"HOME=" + mark in environ
                and b"GIT_TERMINAL_PROMPT=" in environ
                and (words := _read(f"/proc/{name}/cmdline"))
            ):
                found.append(words.replace(b"\0", b" ").decode("utf-8", "replace"))
    return found


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def wait_until(condition: Any, timeout_s: float = 60.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def noise(seed: int, size: int) -> str:
    """Return a command that prints bytes without meaning, the same ones every time."""
    return f"python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random({seed}).randbytes({size}))'"


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions a piece of work calls: what it costs, whatever else the machine does meanwhile."""
    count = 0

    def tally(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tally)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
