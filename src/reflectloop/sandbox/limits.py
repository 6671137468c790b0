"""How much a command may use, by what the machine offers: a control group, the kernel's own limits, or our watch."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from reflectloop.config import BoxConfig
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.system import cgroup, process, usage
from reflectloop.terms import Isolation

Mechanism = Literal["cgroup", "rlimit", "watchdog"]
_SHARE = 0.75  # of the machine's memory, and of the disk space that is free
_SIGNALS = {128 + 24: "processor time", 128 + 25: "file size"}  # SIGXCPU, SIGXFSZ
_EASE = 20  # looking at files may take one part in so many of the engine's time
_MEMORY_LOOK_S = 0.5  # and memory files are looked for at least so often
_DISK_LOOK_S = 0.2  # between two counts of what was written


class ResourceLimits(NamedTuple):
    memory_bytes: int
    processes: int
    file_bytes: int
    disk_bytes: int | None = None  # None: three quarters of what is free when the first command starts

    def words(self, what: str) -> str:
        sizes = {
            "memory": f"{self.memory_bytes >> 20} MB",
            "processes": str(self.processes),
            "file size": f"{self.file_bytes >> 20} MB",
            "disk space": f"{(self.disk_bytes or 0) >> 20} MB",
        }
        return f"reached the limit on {what}" + (f" ({sizes[what]})" if what in sizes else "")


def wanted(settings: BoxConfig) -> ResourceLimits:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory = settings.memory_mb << 20 if settings.memory_mb else int(machine * _SHARE)
    disk = settings.disk_mb << 20 if settings.disk_mb else None
    return ResourceLimits(memory, settings.processes, settings.file_mb << 20, disk)


def behind(wall: IsolationLevel, name: str, settings: BoxConfig) -> Limiter | None:
    """Return what limits the commands of one workspace; None at the levels that promise no limits."""
    return Limiter(name, wanted(settings)) if wall.level.rank >= Isolation.FS.rank else None


class _Disk:
    """Watches how much of a disk the commands of one workspace fill."""

    def __init__(self, folder: Path, limit_bytes: int | None) -> None:
        free = usage.free(folder)
        self.limit_bytes = int(free * _SHARE) if limit_bytes is None else limit_bytes
        # A share of what is free is only in danger when the rest is all there is; others free space and fill it too.
        self._worry_below = free - self.limit_bytes if limit_bytes is None else None
        self._folder = folder
        self._since_ns = time.time_ns()
        self._look_again = 0.0

    def over(self, pids: Sequence[int]) -> bool:
        """Whether too much was written. Counting goes through all files, so it is done the less often the longer."""
        if time.monotonic() < self._look_again or (
            self._worry_below is not None and usage.free(self._folder) > self._worry_below
        ):
            return False
        busy = time.thread_time()
        written = usage.written(self._folder, self._since_ns) + usage.held(usage.family(pids)).disk_bytes
        self._look_again = time.monotonic() + max(_DISK_LOOK_S, _EASE * (time.thread_time() - busy))
        return written > self.limit_bytes


class Limiter:
    """Holds one workspace's commands to their limits, one command at a time."""

    def __init__(self, name: str, limits: ResourceLimits) -> None:
        self.limits = limits
        self._group = cgroup.make(name, cgroup.CgroupLimits(limits.memory_bytes, limits.processes))
        self._disk: _Disk | None = None
        self._held = usage.Held()
        self._look_again = 0.0
        self.hit: str | None = None

    @property
    def mechanism(self) -> Mechanism:
        if self._group:
            return "cgroup"
        return "watchdog" if os.geteuid() == 0 else "rlimit"  # the kernel counts no processes of root's

    def start(self, start: process.Start) -> process.Started:
        with self._group.entered() if self._group else contextlib.nullcontext():
            return start()

    def take(self, pid: int, timeout_s: float, folder: Path, *, own_user: bool) -> None:
        """Set the limits before the command begins: `pid` is still waiting, and will write below `folder`.

        Without a user namespace of its own the kernel counts all processes of this user.
        """
        self.hit = None
        if self._disk is None:
            self._disk = _Disk(folder, self.limits.disk_bytes)
            self.limits = self.limits._replace(disk_bytes=self._disk.limit_bytes)
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
        _set(pid, resource.RLIMIT_NPROC, self.limits.processes + (0 if own_user else _tasks()))

    def over(self, pids: Sequence[int]) -> bool:
        """Whether processes and all below them use more than they may, of what the kernel does not see to."""
        if self._disk and self._disk.over(pids):
            self.hit = "disk space"
        elif not self._group:
            self.hit = self._over_memory(usage.family(pids))
        return self.hit is not None

    def _over_memory(self, pids: Sequence[int]) -> str | None:
        used = usage.resident(pids)
        if used.processes > self.limits.processes:
            return "processes"
        if time.monotonic() >= self._look_again:
            busy = time.thread_time()
            self._held = usage.held(pids)
            self._look_again = time.monotonic() + min(_MEMORY_LOOK_S, _EASE * (time.thread_time() - busy))
        held = self._held.memory_bytes + usage.shared_memory(pids)
        if used.memory_bytes + held <= self.limits.memory_bytes:
            return None
        return "memory" if usage.proportional(pids, held) > self.limits.memory_bytes else None

    def reached(self, exit_code: int) -> str | None:
        """Which limit the command that just ended came up against, in words."""
        what = self.hit or (self._group.refused() if self._group and exit_code else None) or _SIGNALS.get(exit_code)
        return self.limits.words(what) if what else None

    def close(self) -> None:
        if self._group:
            self._group.close()
            self._group = None


def _tasks() -> int:
    """Return how many tasks there are on the machine: never fewer than this user's."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])


def _set(pid: int, which: int, value: int) -> None:
    """Never above what the engine itself may have."""
    with contextlib.suppress(PermissionError, ProcessLookupError):
        _, hard = resource.prlimit(pid, which)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.prlimit(pid, which, (bound, bound))
