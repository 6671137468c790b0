"""Measures the memory, processes and disk space of a command from outside."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop.system import process, tree_walk

_BLOCK = 512  # bytes per unit of st_blocks on every file system
_SHARED_MEMORY = "dev/shm"


class ProcessUsage(NamedTuple):
    memory_bytes: int
    processes: int  # with their threads


class UnnamedFiles(NamedTuple):
    """The space of open files without a name: memory files, and files deleted while open."""

    memory_bytes: int = 0
    disk_bytes: int = 0


def family(pids: Iterable[int]) -> list[int]:
    """Return processes with their descendants."""
    return list(dict.fromkeys(below for pid in pids for below in (pid, *process.descendants(pid))))


def resident(pids: Iterable[int]) -> ProcessUsage:
    """Return the memory of processes, counting shared pages for each: an upper bound."""
    memory = count = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status", "rb") as file:
            numbers = {line.split()[0]: int(line.split()[1]) for line in file if line.startswith((b"Rss", b"Threads:"))}
            memory += (numbers.get(b"RssAnon:", 0) + numbers.get(b"RssShmem:", 0)) * 1024
            count += numbers.get(b"Threads:", 1)
    return ProcessUsage(memory, count)


def proportional(pids: Iterable[int], held_bytes: int) -> int:
    """Return the memory of processes with shared pages counted once; slower, so used only in doubt."""
    private = shared = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            numbers = {line.split()[0]: int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss_")}
            private += numbers.get(b"Pss_Anon:", 0)
            shared += numbers.get(b"Pss_Shmem:", 0)
    return private + max(shared, held_bytes)


def unnamed_files(pids: Iterable[int]) -> UnnamedFiles:
    """Return the space of open files without a name, each file counted once."""
    sizes: dict[tuple[int, int], tuple[int, bool]] = {}
    for pid in pids:
        for path, status in _nameless(pid):
            with contextlib.suppress(OSError):
                in_memory = os.readlink(path).startswith("/memfd:")
                sizes[status.st_dev, status.st_ino] = (status.st_blocks * _BLOCK, in_memory)
    memory = sum(size for size, in_memory in sizes.values() if in_memory)
    return UnnamedFiles(memory, sum(size for size, _ in sizes.values()) - memory)


def _nameless(pid: int) -> Iterator[tuple[str, os.stat_result]]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            with contextlib.suppress(OSError):
                status = os.stat(path)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                    yield path, status


def shared_memory(pids: Iterable[int]) -> int:
    """Return the used bytes of a command's own /dev/shm, or 0 if it has none."""
    for pid in reversed(list(pids)):
        with contextlib.suppress(OSError):
            place = f"/proc/{pid}/root/{_SHARED_MEMORY}"
            if os.stat(place).st_dev != os.stat(f"/{_SHARED_MEMORY}").st_dev:
                space = os.statvfs(place)
                return (space.f_blocks - space.f_bfree) * space.f_frsize
    return 0


def free(place: Path) -> int:
    """Return the free bytes for this user on the disk of `place`."""
    space = os.statvfs(place)
    return space.f_bavail * space.f_frsize


def written(folder: Path, since_ns: int) -> int:
    """Return the disk space of the files below `folder` that were changed since a time.

    Mounts in it are not entered: what is written to an overlay lies in its upper layer.
    """
    total = device = 0
    for below in tree_walk.walk(folder, passing=(OSError,)):
        device = os.fstat(below.fd).st_dev if below.is_top else device
        entries, below.entries = below.entries, []
        for entry in entries:
            with contextlib.suppress(OSError):
                status = os.stat(entry.name, dir_fd=below.fd, follow_symlinks=False)
                if status.st_dev == device:
                    below.entries.append(entry)
                    total += status.st_blocks * _BLOCK if status.st_ctime_ns >= since_ns else 0
    return total
