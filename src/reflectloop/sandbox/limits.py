"""Limits the resources of a command by a control group, by rlimits, or by a watchdog."""

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
_EASE = 20  # counting files may take 1/20 of the engine's time
_MEMORY_LOOK_S = 0.5  # maximum seconds between two counts of memory files
_DISK_LOOK_S = 0.2  # minimum seconds between two counts of written files


class ResourceLimits(NamedTuple):
    memory_bytes: int
    processes: int
    file_bytes: int
    disk_bytes: int | None = None  # None: three quarters of the free space when the first command starts

    def words(self, what: str) -> str:
        sizes = {
            "memory": f"{self.memory_bytes >> 20} MB",
            "processes": str(self.processes),
            "file size": f"{self.file_bytes >> 20} MB",
            "disk space": f"{(self.disk_bytes or 0) >> 20} MB",
        }
        return f"reached the limit on {what}" + (f" ({sizes[what]})" if what in sizes else "")


def limits_from(settings: BoxConfig) -> ResourceLimits:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory = settings.memory_mb << 20 if settings.memory_mb else int(machine * _SHARE)
    disk = settings.disk_mb << 20 if settings.disk_mb else None
    return ResourceLimits(memory, settings.processes, settings.file_mb << 20, disk)


def limiter_for(wall: IsolationLevel, name: str, settings: BoxConfig) -> Limiter | None:
    """Return the limiter for the commands of one workspace, or None at levels without limits."""
    return Limiter(name, limits_from(settings)) if wall.level.rank >= Isolation.FS.rank else None


class _Disk:
    """Measures how much disk space the commands of one workspace use."""

    def __init__(self, folder: Path, limit_bytes: int | None) -> None:
        free = usage.free(folder)
        self.limit_bytes = int(free * _SHARE) if limit_bytes is None else limit_bytes
        # Count files only if free space fell by that share: other programs use and free space too.
        self._worry_below = free - self.limit_bytes if limit_bytes is None else None
        self._folder = folder
        self._since_ns = time.time_ns()
        self._look_again = 0.0

    def over(self, pids: Sequence[int]) -> bool:
        """Return True if too much was written. The slower counting is, the less often it is done."""
        if time.monotonic() < self._look_again or (
            self._worry_below is not None and usage.free(self._folder) > self._worry_below
        ):
            return False
        busy = time.thread_time()
        written = usage.written(self._folder, self._since_ns) + usage.unnamed_files(usage.family(pids)).disk_bytes
        self._look_again = time.monotonic() + max(_DISK_LOOK_S, _EASE * (time.thread_time() - busy))
        return written > self.limit_bytes


class Limiter:
    """Enforces the limits on one workspace's commands, one command at a time."""

    def __init__(self, name: str, limits: ResourceLimits) -> None:
        self.limits = limits
        self._group = cgroup.make(name, cgroup.CgroupLimits(limits.memory_bytes, limits.processes))
        self._disk: _Disk | None = None
        self._memory_files = usage.UnnamedFiles()
        self._look_again = 0.0
        self.hit: str | None = None

    @property
    def mechanism(self) -> Mechanism:
        if self._group:
            return "cgroup"
        return "watchdog" if os.geteuid() == 0 else "rlimit"  # the kernel does not limit root's processes

    def start(self, start: process.Start) -> process.Started:
        with self._group.entered() if self._group else contextlib.nullcontext():
            return start()

    def take(self, pid: int, timeout_s: float, folder: Path, *, own_user: bool) -> None:
        """Set the limits of the waiting process `pid`, which will write below `folder`.

        Without a separate user namespace the kernel counts all processes of this user.
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
            except OSError:  # the group can be created but not entered
                self.close()
            else:
                return
        _set(pid, resource.RLIMIT_DATA, self.limits.memory_bytes)
        _set(pid, resource.RLIMIT_NPROC, self.limits.processes + (0 if own_user else _tasks()))

    def over(self, pids: Sequence[int]) -> bool:
        """Return True if processes and their descendants exceed a limit that the kernel does not enforce."""
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
            self._memory_files = usage.unnamed_files(pids)
            self._look_again = time.monotonic() + min(_MEMORY_LOOK_S, _EASE * (time.thread_time() - busy))
        files_bytes = self._memory_files.memory_bytes + usage.shared_memory(pids)
        if used.memory_bytes + files_bytes <= self.limits.memory_bytes:
            return None
        return "memory" if usage.proportional(pids, files_bytes) > self.limits.memory_bytes else None

    def reached(self, exit_code: int) -> str | None:
        """Return the limit that the last command reached, as text, or None."""
        what = self.hit or (self._group.refused() if self._group and exit_code else None) or _SIGNALS.get(exit_code)
        return self.limits.words(what) if what else None

    def close(self) -> None:
        if self._group:
            self._group.close()
            self._group = None


def _tasks() -> int:
    """Return the number of tasks on the machine, an upper bound for this user's."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])


def _set(pid: int, which: int, value: int) -> None:
    """Set a resource limit, at most to the engine's own hard limit."""
    with contextlib.suppress(PermissionError, ProcessLookupError):
        _, hard = resource.prlimit(pid, which)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.prlimit(pid, which, (bound, bound))
