"""bubblewrap: namespaces around a command, so that it sees what it is shown and ending it ends all it started."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from reflectloop.system import executables, landlock, process, seccomp
from reflectloop.system.seccomp import Openings
from reflectloop.system.start_gate import Door

_PROBE_TIMEOUT_S = 10
WHOLE_MACHINE = ("--dev-bind", "/", "/", "--proc", "/proc")
_GO = b"."
_TIE_POLL_S = 0.0005


class Namespaces(NamedTuple):
    """What of the machine a command gets a copy of, besides processes."""

    network: bool = False
    own_user: bool = False  # and no capability in it


_PROCESSES_ONLY = Namespaces()


class StartGate:
    """The descriptors a wrapped command is started, held and asked through."""

    def __init__(self, stdin: int = process.NOTHING) -> None:
        self._status, self.status = os.pipe()
        self.hold, self._go = os.pipe()
        self.arguments = os.memfd_create("arguments")
        self.filter = os.memfd_create("filter")
        # bubblewrap itself takes a closed pipe for leave to go on, so it is not what holds the command.
        self.door = Door(stdin)
        self._said = b""

    @property
    def inherited(self) -> list[int]:
        return [self.status, self.hold, self.arguments, self.filter, *self.door.inherited]

    def started(self) -> None:
        """The other ends belong to the command now."""
        for name in ("status", "hold"):
            os.close(getattr(self, name))
            setattr(self, name, -1)
        self.door.started()

    def child(self) -> int | None:
        """The process that waits to become the command; None where bubblewrap failed before."""
        while b"\n" not in self._said and (more := os.read(self._status, 1 << 12)):
            self._said += more
        return _number(self._said, "child-pid")

    def reach(self, child: int, timeout_s: float) -> bool:
        """Let bubblewrap go on, and return whether the command stands at the door, tied to the engine.

        bubblewrap itself was tied before it named the child. The child ties itself to bubblewrap after it has made the
        process that waits at the door, and puts its filter on right after that, which can be seen from here.
        """
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, _GO)
        deadline = time.monotonic() + timeout_s
        if not self.door.wait(timeout_s):
            return False
        while seccomp.known() and not _has_filter(child):
            if time.monotonic() > deadline:
                return False
            time.sleep(_TIE_POLL_S)
        return True

    def exit_code(self) -> int | None:
        """What the command itself exited with, or None where it never came to run."""
        os.set_blocking(self._status, False)
        with contextlib.suppress(BlockingIOError):
            self._said += os.read(self._status, 1 << 16)
        return _number(self._said, "exit-code")

    def close(self) -> None:
        self.door.close()
        for descriptor in (self._status, self.status, self.hold, self._go, self.arguments, self.filter):
            if descriptor >= 0:
                os.close(descriptor)


def _has_filter(pid: int) -> bool:
    """Whether a process runs under a filter of system calls, or has ended."""
    try:
        return b"\nSeccomp:\t2\n" in Path("/proc", str(pid), "status").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True


def _number(status: bytes, name: str) -> int | None:
    for line in status.splitlines():
        with contextlib.suppress(ValueError):
            said = json.loads(line)
            if isinstance(said, dict) and isinstance(said.get(name), int):
                return int(said[name])
    return None


def wrap(
    argv: list[str],
    gate: StartGate,
    *,
    cwd: Path,
    env: Mapping[str, str],
    mounts: Iterable[str],
    apart: Namespaces,
    openings: Openings,
    limited: bool,
    terminal: bool = False,
) -> list[str]:
    """The command behind `gate`, in namespaces of its own, under the filter that `openings` describe.

    Where it is to be `limited`, bubblewrap waits before it makes the process that becomes the command.

    bubblewrap itself runs with the engine's environment and is found by the engine's path; the command's
    environment goes through a descriptor, where neither the process list nor the loader sees it.
    """
    words = [*mounts, "--clearenv"]
    for name, value in env.items():
        words += ["--setenv", name, value]
    _fill(gate.arguments, os.fsencode("\0".join(words) + "\0"))
    if seccomp.known():
        _fill(gate.filter, seccomp.program(openings))
    return [
        executables.need("bwrap"),
        *("--args", str(gate.arguments)),
        *_separations(apart),
        *(("--seccomp", str(gate.filter)) if seccomp.known() else ()),
        *("--json-status-fd", str(gate.status)),
        *(("--block-fd", str(gate.hold)) if limited else ()),
        *("--chdir", os.fspath(cwd)),
        "--",
        *gate.door.before([*(() if terminal else leading()), *argv]),
    ]


def leading() -> tuple[str, ...]:
    """What makes a command the leader of a group: by bubblewrap's own option its group would be init's, number 1."""
    setsid = executables.find("setsid")
    return (setsid,) if setsid else ()


def _fill(descriptor: int, data: bytes) -> None:
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)


def _separations(apart: Namespaces) -> Iterator[str]:
    yield from ("--unshare-pid", "--die-with-parent")
    if apart.own_user:
        yield from ("--unshare-user", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL")
    if apart.network:
        yield "--unshare-net"


def read_only_but(writable: Path) -> list[str]:
    """What to put before a command that may write to one folder and nowhere else."""
    place = os.fspath(writable)
    return [
        executables.need("bwrap"),
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
    return [executables.need("bwrap"), "--dev-bind", "/", "/", "--die-with-parent", "--", *argv]


@functools.cache
def refusal(apart: Namespaces = _PROCESSES_ONLY) -> str | None:
    """None where these namespaces can really be made, else the reason. Found out by trying."""
    return None if apart.own_user and _works_scoped(apart) else _refusal(apart)


@functools.cache
def sizes() -> bool:
    """Whether a memory file system can be given a size: bubblewrap can since 0.7."""
    bwrap = executables.find("bwrap")
    return bwrap is not None and b"--size" in process.capture([bwrap, "--help"]).stdout


@functools.cache
def scopes() -> bool:
    """Whether bubblewrap works behind Landlock's scopes: one that needs its setuid bit does not."""
    return _works_scoped(Namespaces(own_user=True))


@functools.cache
def _works_scoped(apart: Namespaces) -> bool:
    if not landlock.scopes():
        return False
    with landlock.scoped() as thread:
        return thread.call(lambda: _refusal(apart)) is None


def _refusal(apart: Namespaces) -> str | None:
    bwrap = executables.find("bwrap")
    if bwrap is None:
        return "bubblewrap is not installed"
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc") if apart.own_user else WHOLE_MACHINE
    try:
        done = process.capture([bwrap, *mounts, *_separations(apart), "--", "true"], timeout_s=_PROBE_TIMEOUT_S)
    except (OSError, TimeoutError) as fault:
        return f"bubblewrap does not start: {fault}"
    return None if done.code == 0 else done.stderr.decode("utf-8", "replace").strip() or f"bwrap exited {done.code}"
