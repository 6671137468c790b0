"""bubblewrap: namespaces around a command, so that ending it ends all it started, or it can write one place only."""

from __future__ import annotations

import functools
import json
import os
import shutil
from pathlib import Path

from reflectloop.world import process

_PROBE_TIMEOUT_S = 10


def wrap(argv: list[str], *, cwd: Path, status_fd: int) -> list[str]:
    return [
        "bwrap",
        *("--dev-bind", "/", "/"),
        *("--proc", "/proc"),
        "--unshare-pid",
        "--die-with-parent",
        *("--json-status-fd", str(status_fd)),
        *("--chdir", os.fspath(cwd)),
        "--",
        *argv,
    ]


def shield(argv: list[str], *, writable: Path) -> list[str]:
    """The same command with everything read-only but one folder; as it is where bubblewrap does not work."""
    if refusal() is not None:
        return argv
    return [
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--dev-bind",
        "/dev",
        "/dev",
        "--bind",
        *[os.fspath(writable)] * 2,
        "--",
        *argv,
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
