"""How much memory, how many processes and how much disk a command holds now, counted from outside."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop.system import process, tree_walk

_BLOCK = 512  # what st_blocks counts in, whatever the file system
_SHARED_MEMORY = "dev/shm"


class ProcessUsage(NamedTuple):
    memory_bytes: int
    processes: int  # with their threads


class Held(NamedTuple):
    """What open files without a name take: memory files, and files that were removed while open."""

    memory_bytes: int = 0
    disk_bytes: int = 0


def family(pids: Iterable[int]) -> list[int]:
    """Return processes with everything below them."""
    return list(dict.fromkeys(below for pid in pids for below in (pid, *process.descendants(pid))))


def resident(pids: Iterable[int]) -> ProcessUsage:
    """Return what processes hold in memory. Pages that several share count for each: never too little."""
    memory = count = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status", "rb") as file:
            numbers = {line.split()[0]: int(line.split()[1]) for line in file if line.startswith((b"Rss", b"Threads:"))}
            memory += (numbers.get(b"RssAnon:", 0) + numbers.get(b"RssShmem:", 0)) * 1024
            count += numbers.get(b"Threads:", 1)
    return ProcessUsage(memory, count)


def proportional(pids: Iterable[int], held_bytes: int) -> int:
    """Return the memory of processes with each shared page counted once; slower, so asked only in doubt."""
    private = shared = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            numbers = {line.split()[0]: int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss_")}
            private += numbers.get(b"Pss_Anon:", 0)
            shared += numbers.get(b"Pss_Shmem:", 0)
    return private + max(shared, held_bytes)


def held(pids: Iterable[int]) -> Held:
    """Return what open files without a name take, each file counted once."""
    seen: dict[tuple[int, int], tuple[int, bool]] = {}
    for pid in pids:
        for path, found in _nameless(pid):
            with contextlib.suppress(OSError):
                in_memory = os.readlink(path).startswith("/memfd:")
                seen[found.st_dev, found.st_ino] = (found.st_blocks * _BLOCK, in_memory)
    memory = sum(size for size, in_memory in seen.values() if in_memory)
    return Held(memory, sum(size for size, _ in seen.values()) - memory)


def _nameless(pid: int) -> Iterator[tuple[str, os.stat_result]]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            with contextlib.suppress(OSError):
                found = os.stat(path)
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                    yield path, found


def shared_memory(pids: Iterable[int]) -> int:
    """Return what lies in the shared memory of a command's own view; 0 where it has none of its own."""
    for pid in reversed(list(pids)):
        with contextlib.suppress(OSError):
            place = f"/proc/{pid}/root/{_SHARED_MEMORY}"
            if os.stat(place).st_dev != os.stat(f"/{_SHARED_MEMORY}").st_dev:
                space = os.statvfs(place)
                return (space.f_blocks - space.f_bfree) * space.f_frsize
    return 0


def free(place: Path) -> int:
    """Return how many bytes this user may still write to the disk that holds `place`."""
    space = os.statvfs(place)
    return space.f_bavail * space.f_frsize


def written(folder: Path, since_ns: int) -> int:
    """Return how many bytes of disk the files below `folder` take that were changed since."""
    total = 0
    for below in tree_walk.walk(folder, passing=(OSError,)):
        for entry in below.entries:
            with contextlib.suppress(OSError):
                found = os.stat(entry.name, dir_fd=below.fd, follow_symlinks=False)
                total += found.st_blocks * _BLOCK if found.st_ctime_ns >= since_ns else 0
    return total
