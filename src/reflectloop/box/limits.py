"""How much a command may use, by what the machine offers: a control group, the kernel's own limits, or our watch."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable
from typing import Literal, NamedTuple

from reflectloop.config import BoxConfig
from reflectloop.world import cgroup, process

Mechanism = Literal["cgroup", "rlimit", "watchdog"]
_SHARE_OF_MEMORY = 0.75
_SIGNALS = {128 + 24: "processor time", 128 + 25: "file size"}  # SIGXCPU, SIGXFSZ


class Limits(NamedTuple):
    memory_bytes: int
    processes: int
    file_bytes: int

    def words(self, what: str) -> str:
        sizes = {"memory": f"{self.memory_bytes >> 20} MB", "processes": str(self.processes)}
        size = sizes.get(what, f"{self.file_bytes >> 20} MB" if what == "file size" else "")
        return f"reached the limit on {what}" + (f" ({size})" if size else "")


def wanted(settings: BoxConfig) -> Limits:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory = settings.memory_mb << 20 if settings.memory_mb else int(machine * _SHARE_OF_MEMORY)
    return Limits(memory, settings.processes, settings.file_mb << 20)


class Limiter:
    """Holds one workspace's commands to their limits, one command at a time."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.limits = limits
        self._group = cgroup.make(name, cgroup.Bounds(limits.memory_bytes, limits.processes))
        self.hit: str | None = None

    @property
    def mechanism(self) -> Mechanism:
        if self._group:
            return "cgroup"
        return "watchdog" if os.geteuid() == 0 else "rlimit"  # the kernel counts no processes of root's

    def start(self, start: process.Start) -> process.Started:
        with self._group.entered() if self._group else contextlib.nullcontext():
            return start()

    def take(self, pid: int, timeout_s: float) -> None:
        """Before the command begins: `pid` is still waiting."""
        self.hit = None
        processors = os.cpu_count() or 1
        _set(pid, resource.RLIMIT_FSIZE, self.limits.file_bytes)
        _set(pid, resource.RLIMIT_CPU, int(timeout_s * processors) + 1)
        _set(pid, resource.RLIMIT_CORE, 0)
        if self._group:
            try:
                self._group.admit(pid)
            except OSError:  # one that may be made and not be entered
                self.close()
            else:
                return
        _set(pid, resource.RLIMIT_DATA, self.limits.memory_bytes)
        _set(pid, resource.RLIMIT_NPROC, self.limits.processes)

    @property
    def watch(self) -> Callable[[int], bool] | None:
        """Whether the tree below a process is over its limits; None where the kernel sees to it."""
        return None if self._group else self._over

    def _over(self, pid: int) -> bool:
        used = process.usage(pid)
        if used.memory_bytes > self.limits.memory_bytes:
            self.hit = "memory"
        elif used.processes > self.limits.processes:
            self.hit = "processes"
        return self.hit is not None

    def reached(self, exit_code: int) -> str | None:
        """Which limit the command that just ended came up against, in words."""
        what = self.hit or (self._group.refused() if self._group and exit_code else None) or _SIGNALS.get(exit_code)
        return self.limits.words(what) if what else None

    def close(self) -> None:
        if self._group:
            self._group.close()
            self._group = None


def _set(pid: int, which: int, value: int) -> None:
    """Never above what the engine itself may have."""
    _, hard = resource.prlimit(pid, which)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with contextlib.suppress(PermissionError, ProcessLookupError):
        resource.prlimit(pid, which, (bound, bound))
