"""Runs attempts in the box, or outside of it as control. It stands alone: no import of ours, only the system's Python.

Reads `attempts.json` beside it; prints a JSON line for each attempt. It judges nothing: that is done outside.
"""

# ruff: noqa: BLE001, PTH100, PTH118, PTH120, PTH123, PTH208, S102, S606
from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
SECONDS = 6.0
LONGEST = 1500


def call(number: int, *arguments: int | bytes | Any) -> int:  # noqa: ANN401
    """Make a system call; raise OSError where it fails."""
    given = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = int(LIBC.syscall(ctypes.c_long(number), *given))
    if result < 0:
        raise OSError(ctypes.get_errno(), "call")
    return result


def read(path: str, size: int = 4096) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(descriptor, size).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def write(path: str, text: str, flags: int = os.O_WRONLY | os.O_CREAT) -> None:
    descriptor = os.open(path, flags, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def stream(family: int, address: Any, text: str) -> None:  # noqa: ANN401
    with socket.socket(family, socket.SOCK_STREAM) as link:
        link.settimeout(3)
        link.connect(address)
        link.sendall(text.encode())
        print(link.recv(64).decode("utf-8", "replace"))


def processes() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def child(attempt: dict[str, Any], place: dict[str, Any], out: int) -> None:
    """Play one attempt, its output going into a pipe."""
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.setpgid(0, 0)
    mark = attempt["mark"]
    names: dict[str, Any] = {**globals(), **place, "mark": mark, "victim": attempt["victim"], "keep": attempt["keep"]}
    try:
        if "sh" in attempt:
            strings = {
                key: str(value) for key, value in {**place, "mark": mark}.items() if isinstance(value, str | int)
            }
            more = {"victim": str(attempt["victim"]), "keep": attempt["keep"]}
            os.execve("/bin/bash", ["bash", "-c", attempt["sh"]], {**os.environ, **strings, **more})
        exec(compile(attempt["py"], "attempt", "exec"), names)
    except OSError as fault:
        print(f"refused {errno.errorcode.get(fault.errno or 0, fault)}")
    except BaseException as fault:
        print(f"refused {fault!r}")
    sys.stdout.flush()
    os._exit(0)


def play(attempt: dict[str, Any], place: dict[str, Any]) -> str:
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        child(attempt, place, writer)
    os.close(writer)
    said, end = b"", time.monotonic() + (1.0 if "alive" in attempt["judge"] else SECONDS)
    while time.monotonic() < end:
        ready, _, _ = select.select([reader], [], [], max(0.0, end - time.monotonic()))
        part = os.read(reader, 4096) if ready else b""
        said += part
        if not part:
            break
    os.close(reader)
    if "alive" not in attempt["judge"]:
        with contextlib.suppress(OSError):
            os.killpg(process, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.kill(process, signal.SIGKILL if "alive" not in attempt["judge"] else 0)
    end = time.monotonic() + 2
    while time.monotonic() < end and os.waitpid(process, os.WNOHANG)[0] == 0:
        time.sleep(0.01)
    return said.decode("utf-8", "replace")[:LONGEST]


def main() -> None:
    with open(os.path.join(HERE, "attempts.json")) as file:
        given = json.load(file)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    for attempt in given["attempts"]:
        said = play(attempt, given["place"])
        print("@@" + json.dumps({"id": attempt["id"], "said": said}), flush=True)
    print("@@" + json.dumps({"id": "end", "said": str(subprocess.call(["/bin/true"]))}), flush=True)


if __name__ == "__main__":
    main()
