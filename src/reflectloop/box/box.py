"""Runs one untrusted command in a workspace, and knows whether it was the command or the box that failed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reflectloop.box import environment
from reflectloop.box.output import Recorder
from reflectloop.errors import SandboxCreateFailed
from reflectloop.terms import Isolation
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.record import changed_since, mark
from reflectloop.world import bubblewrap, process, tools

SHELL = ("bash", "-e", "-o", "pipefail", "-c")
NOT_FOUND = 127
NOT_RUNNABLE = 126


def _ignore(_: bytes) -> None:
    return None


class Order(NamedTuple):
    """One command to run."""

    command: str | tuple[str, ...]
    cwd: Path
    log: Path
    timeout_s: float
    env: Mapping[str, str] = {}
    show: Callable[[bytes], None] = _ignore  # scanned output, as it comes
    look: Callable[[bytes], None] = _ignore  # raw standard output, for checks; never stored
    merge: bool = True
    idle_s: float | None = None


class Done(NamedTuple):
    exit_code: int
    timed_out: bool
    duration_ms: int
    idle: bool = False
    cancelled: bool = False


@dataclass
class Box:
    workspace: Workspace
    caller: Mapping[str, str]
    namespaced: bool = True
    env_allow: tuple[str, ...] = ()
    grace_s: float = 5.0
    log_cap: int = 8 << 20
    idle_s: float | None = None
    cancel: process.Cancel | None = None
    level: Isolation = Isolation.WORKSPACE
    _count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not self.namespaced:
            process.adopt_orphans()

    def run(self, order: Order) -> Done:
        argv = [*SHELL, order.command] if isinstance(order.command, str) else list(order.command)
        env = environment.build(self.workspace, self.caller, also=self.env_allow, added=order.env)
        self._count += 1
        mark = f"{self.workspace.name}.{self._count}"
        env[environment.MARK] = mark
        recorder = Recorder(order.log, self.log_cap, show=order.show, look=order.look)
        try:
            if process.find(argv[0], path=env["PATH"], cwd=order.cwd) is None:
                recorder.take("stderr", f"{argv[0]}: command not found\n".encode())
                return Done(NOT_FOUND, timed_out=False, duration_ms=0)
            try:
                ended = self._watch(argv, order, env, recorder, f"{environment.MARK}={mark}")
            except OSError as fault:
                if fault.errno not in (errno.E2BIG, errno.ENOEXEC, errno.EACCES):
                    raise
                recorder.take("stderr", f"{argv[0][:200]}: {os.strerror(fault.errno)}\n".encode())
                return Done(NOT_RUNNABLE, timed_out=False, duration_ms=0)
        finally:
            recorder.close()
        return Done(ended.code, ended.timed_out, round(ended.duration_s * 1000), ended.idle, ended.cancelled)

    def _patience(self, order: Order) -> process.Patience:
        seen = [self.workspace.mark_ns]

        def stirred() -> bool:
            since, seen[0] = seen[0], mark(self.workspace.folder)
            return changed_since(self.workspace.repo, since)

        return process.Patience(order.timeout_s, self.grace_s, order.idle_s or self.idle_s, stirred)

    def _watch(
        self, argv: list[str], order: Order, env: Mapping[str, str], recorder: Recorder, marker: str
    ) -> process.Ended:
        if not self.namespaced:
            watched = process.Watched(
                process.tie(argv),
                cwd=order.cwd,
                env=env,
                on_output=recorder.take,
                merge=order.merge,
                marker=marker,
                cancel=self.cancel,
            )
            return watched.wait(self._patience(order))
        reader, writer = os.pipe()
        arguments = os.memfd_create("arguments")
        try:
            wrapped = bubblewrap.wrap(
                argv,
                cwd=order.cwd,
                env=env,
                status_fd=writer,
                args_fd=arguments,
                read_only=self.workspace.read_only,
            )
            watched = process.Watched(
                wrapped,
                cwd=order.cwd,
                env={"PATH": tools.search_path()},
                on_output=recorder.take,
                merge=order.merge,
                namespaced=True,
                pass_fds=[writer, arguments],
                cancel=self.cancel,
            )
            os.close(writer)
            writer = -1
            ended = watched.wait(self._patience(order))
            os.set_blocking(reader, False)
            return self._judge(ended, _read(reader), order)
        finally:
            for descriptor in (reader, arguments, writer):
                if descriptor >= 0:
                    os.close(descriptor)

    @staticmethod
    def _judge(ended: process.Ended, status: bytes, order: Order) -> process.Ended:
        """Without the command's own exit code, and not by a signal, it was bubblewrap that failed."""
        code = bubblewrap.exit_code(status)
        if code is not None:
            return ended._replace(code=code)
        if ended.timed_out or ended.idle or ended.cancelled or ended.code > 128:  # noqa: PLR2004 - the shell's mark of a signal
            return ended
        raise SandboxCreateFailed(f"bubblewrap could not start the command; see {order.log}")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


def reach(floor: Isolation) -> Isolation:
    """The level this machine gives; refuses when it is below what was asked for."""
    level = Isolation.WORKSPACE
    if floor.rank > level.rank:
        raise SandboxCreateFailed(
            f"isolation {floor} is required and this machine reaches {level}",
            next_step="reflectloop doctor",
            missing=(f"isolation:{floor}",),
        )
    return level
