"""bubblewrap: namespaces around a command, so that ending it ends all it started, or it can write one place only."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from reflectloop.world import process, tools

_PROBE_TIMEOUT_S = 10


def wrap(
    argv: list[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    status_fd: int,
    args_fd: int,
    read_only: Sequence[tuple[Path, Path]],
) -> list[str]:
    """The command in a pid namespace. `read_only` are folders and where they are to be seen.

    bubblewrap itself runs with the engine's environment and is found by the engine's path; the command's
    environment goes through `args_fd`, where neither the process list nor the loader sees it.
    """
    words = ["--clearenv"]
    for name, value in env.items():
        words += ["--setenv", name, value]
    for seen in read_only:
        words += ["--ro-bind", *map(os.fspath, seen)]
    os.write(args_fd, b"\0".join(os.fsencode(word) for word in words) + b"\0")
    os.lseek(args_fd, 0, os.SEEK_SET)
    return [
        tools.need("bwrap"),
        *("--dev-bind", "/", "/"),
        *("--args", str(args_fd)),
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
        tools.need("bwrap"),
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


def tied(argv: list[str]) -> list[str]:
    """The same command, ended when the engine is."""
    if refusal() is not None:
        return argv
    return [tools.need("bwrap"), "--dev-bind", "/", "/", "--die-with-parent", "--", *argv]


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
    if tools.find("bwrap") is None:
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
