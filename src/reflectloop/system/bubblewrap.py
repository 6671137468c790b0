"""Wraps commands with bubblewrap: namespaces limit what they see, and ending one ends all its children."""

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
    """The namespaces that a command gets in addition to the one for processes."""

    network: bool = False
    own_user: bool = False  # without any capability


_PROCESSES_ONLY = Namespaces()


class StartGate:
    """The descriptors that start, block and report a wrapped command."""

    def __init__(self, stdin: int = process.NOTHING) -> None:
        self._status, self.status = os.pipe()
        self.hold, self._go = os.pipe()
        self.arguments = os.memfd_create("arguments")
        self.filter = os.memfd_create("filter")
        # bubblewrap treats a closed pipe as permission to continue, so the door blocks the command instead.
        self.door = Door(stdin)
        self._status_text = b""

    @property
    def inherited(self) -> list[int]:
        return [self.status, self.hold, self.arguments, self.filter, *self.door.inherited]

    def started(self) -> None:
        """Close the other ends, which the command has inherited."""
        for name in ("status", "hold"):
            os.close(getattr(self, name))
            setattr(self, name, -1)
        self.door.started()

    def child(self) -> int | None:
        """Return the pid of the process that becomes the command, or None if bubblewrap failed."""
        while b"\n" not in self._status_text and (more := os.read(self._status, 1 << 12)):
            self._status_text += more
        return _number(self._status_text, "child-pid")

    def reach(self, child: int, timeout_s: float) -> bool:
        """Let bubblewrap continue, and return True if the command waits at the door and will die with the engine.

        bubblewrap itself dies with the engine before it reports the child. The child sets this up after it has
        created the process that waits at the door, and installs its filter right after that, which /proc shows.
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
        """Return the command's exit code, or None if it never ran."""
        os.set_blocking(self._status, False)
        with contextlib.suppress(BlockingIOError):
            self._status_text += os.read(self._status, 1 << 16)
        return _number(self._status_text, "exit-code")

    def close(self) -> None:
        self.door.close()
        for descriptor in (self._status, self.status, self.hold, self._go, self.arguments, self.filter):
            if descriptor >= 0:
                os.close(descriptor)


def _has_filter(pid: int) -> bool:
    """Return True if a process has a seccomp filter, or has ended."""
    try:
        return b"\nSeccomp:\t2\n" in Path("/proc", str(pid), "status").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True


def _number(status: bytes, name: str) -> int | None:
    for line in status.splitlines():
        with contextlib.suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict) and isinstance(record.get(name), int):
                return int(record[name])
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
    """Return the command behind `gate`, in separate namespaces, under the filter that `openings` describes.

    With `limited`, bubblewrap waits before it creates the process that becomes the command.

    bubblewrap runs with the engine's environment and PATH; the command's environment is passed by a descriptor,
    invisible to the process list and the loader.
    """
    arguments = [*mounts, "--clearenv"]
    for name, value in env.items():
        arguments += ["--setenv", name, value]
    _fill(gate.arguments, os.fsencode("\0".join(arguments) + "\0"))
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
    """Return the prefix that makes a command a group leader; bubblewrap's option would put it into init's group."""
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
    """Return the prefix for a command that may write to one folder only."""
    place = os.fspath(writable)
    binds = ("--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--bind", place, place)
    return [executables.need("bwrap"), *binds, "--die-with-parent", "--"]


def with_die_with_parent(argv: list[str]) -> list[str]:
    """Return the command so that it ends when the engine ends."""
    if refusal() is not None:
        return argv
    return [executables.need("bwrap"), "--dev-bind", "/", "/", "--die-with-parent", "--", *argv]


@functools.cache
def refusal(apart: Namespaces = _PROCESSES_ONLY) -> str | None:
    """Try to create these namespaces; return None on success, else the reason."""
    return None if apart.own_user and _works_scoped(apart) else _refusal(apart)


@functools.cache
def sizes() -> bool:
    """Return True if bubblewrap can limit a tmpfs's size, which it can since 0.7."""
    bwrap = executables.find("bwrap")
    return bwrap is not None and b"--size" in process.capture([bwrap, "--help"]).stdout


@functools.cache
def scopes() -> bool:
    """Return True if bubblewrap works under Landlock scopes; a setuid bubblewrap does not."""
    return _works_scoped(Namespaces(own_user=True))


@functools.cache
def _works_scoped(apart: Namespaces) -> bool:
    if not landlock.scopes():
        return False
    with landlock.scoped_thread() as thread:
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
