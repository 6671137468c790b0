"""bubblewrap: namespaces around a command, so that ending it ends all it started, or it can write one place only."""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from reflectloop.world import process

_PROBE_TIMEOUT_S = 10


def wrap(argv: list[str], *, cwd: Path, status_fd: int, read_only: Sequence[tuple[Path, Path]]) -> list[str]:
    """`read_only` are folders and where they are to be seen."""
    fixed = [word for seen in read_only for word in ("--ro-bind", *map(os.fspath, seen))]
    return [
        "bwrap",
        *("--dev-bind", "/", "/"),
        *fixed,
        *("--proc", "/proc"),
        "--unshare-pid",
        "--die-with-parent",
        *("--json-status-fd", str(status_fd)),
        *("--chdir", os.fspath(cwd)),
        "--",
        *argv,
    ]


def read_only_but(writable: Path) -> list[str]:
    """What to put before a command that may write to one folder and nowhere else."""
    place = os.fspath(writable)
    return [
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--dev-bind",
        "/dev",
        "/dev",
        "--bind",
        place,
        place,
        "--die-with-parent",
        "--",
    ]


def exit_code(status: bytes) -> int | None:
    """What the command itself exited with, or None where it never came to run."""
    for line in status.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and isinstance(said.get("exit-code"), int):
            return int(said["exit-code"])
    return None


@functools.cache
def refusal() -> str | None:
    """None where a pid namespace can really be made, else the reason. Found out by trying."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    argv = [
        "bwrap",
        "--dev-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--unshare-pid",
        "--die-with-parent",
        "--",
        "true",
    ]
    try:
        done = process.capture(argv, timeout_s=_PROBE_TIMEOUT_S)
    except (OSError, TimeoutError) as fault:
        return f"bubblewrap does not start: {fault}"
    return None if done.code == 0 else done.stderr.decode("utf-8", "replace").strip() or f"bwrap exited {done.code}"
