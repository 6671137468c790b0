"""Limits the processes and the memory of a command and its children by a control group, if this user may create one."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/sys/fs/cgroup")
_NEEDED = ("memory", "pids")
_PREFIX = "run-"  # commands can see it, so it does not name the engine
_OWN = re.compile(rf"{_PREFIX}(?P<engine>\d+)-")
_REMOVE_TIMEOUT_S = 1.0


class CgroupLimits(NamedTuple):
    memory_bytes: int
    processes: int


class Group:
    """One control group, in one hierarchy or in one per controller."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders
        self._above = [folder.parent for folder in folders.values()]
        self._before = (0, 0)
        self._takes_threads = False
        self._born_inside = False

    def take_threads(self) -> None:
        """Enable moving single threads, if the kernel lets this thread move back."""
        with contextlib.suppress(OSError):
            _move_this_thread(self._above)
            self._takes_threads = True

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Start processes in the group by moving this thread into it meanwhile, if that is possible.

        Moving a running process makes the kernel wait for all forks and exits on the machine, up to 10 ms. A thread
        that moves itself does not wait.
        """
        self._born_inside = False
        try:
            if self._takes_threads:
                with contextlib.suppress(OSError):
                    _move_this_thread(self._folders.values())
                    self._born_inside = True
            yield
        finally:
            if self._takes_threads:
                _move_this_thread(self._above)

    def admit(self, pid: int) -> None:
        self._before = self._counts()
        if not self._born_inside:
            for folder in dict.fromkeys(self._folders.values()):
                (folder / "cgroup.procs").write_text(str(pid))

    def refused(self) -> str | None:
        """Return the limit that was reached since the last process was admitted, or None."""
        memory, processes = self._counts()
        if memory > self._before[0]:
            return "memory"
        return "processes" if processes > self._before[1] else None

    def _counts(self) -> tuple[int, int]:
        memory, pids = self._folders["memory"], self._folders["pids"]
        killed = _count(memory / "memory.events", "oom_kill") + _count(memory / "memory.oom_control", "oom_kill")
        return killed, _count(pids / "pids.events", "max")

    def close(self) -> None:
        """Remove the group; retry for a moment, because it may still be busy after its last process ended."""
        deadline = time.monotonic() + _REMOVE_TIMEOUT_S
        for folder in dict.fromkeys(self._folders.values()):
            while not _remove(folder) and time.monotonic() < deadline:
                time.sleep(0.01)


def _move_this_thread(folders: Iterable[Path]) -> None:
    for folder in folders:
        with open(folder / "tasks", "r+b", buffering=0) as file:
            file.write(b"0")


def _count(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)


def _remove(folder: Path) -> bool:
    """Remove a group with its subgroups; return False if it is busy."""
    try:
        for below, _, _ in os.walk(folder, topdown=False):
            os.rmdir(below)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def make(
    name: str, bounds: CgroupLimits, *, root: Path = _ROOT, own_groups: Path = Path("/proc/thread-self/cgroup")
) -> Group | None:
    """Create a group with these limits, or return None if that is impossible."""
    try:
        parents = _parents(root, own_groups.read_text())
    except OSError:
        return None
    for parent in parents:
        folders = {controller: parent[controller] / f"{_PREFIX}{os.getpid()}-{name}" for controller in _NEEDED}
        group = Group(folders)
        try:
            for folder in dict.fromkeys(folders.values()):
                folder.mkdir()
            _set(folders["memory"], ("memory.max", "memory.limit_in_bytes"), bounds.memory_bytes)
            _set(folders["pids"], ("pids.max",), bounds.processes)
        except OSError:
            group.close()
            continue
        with contextlib.suppress(OSError):  # without swap accounting there is no such file
            _set(folders["memory"], ("memory.swap.max",), 0)
        group.take_threads()
        return group
    return None


def _set(folder: Path, names: tuple[str, ...], value: int) -> None:
    for name in names:
        if (folder / name).exists():
            (folder / name).write_text(str(value))
            return
    raise FileNotFoundError(names[0])


def _parents(root: Path, text: str) -> list[dict[str, Path]]:
    """Return the possible parent groups, nearest first: our ancestors in the unified hierarchy, else our own groups.

    In the unified hierarchy a group with processes cannot delegate controllers, so our own group cannot be a parent.
    """
    places: dict[str, str] = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        places |= dict.fromkeys(names.split(","), path)
    if all(name in places for name in _NEEDED):
        return [{name: root / name / places[name].lstrip("/") for name in _NEEDED}]
    if "" not in places:
        return []
    above = (root / places[""].lstrip("/")).parents
    return [dict.fromkeys(_NEEDED, folder) for folder in above if folder.is_relative_to(root)]


def sweep(*, root: Path = _ROOT, own_groups: Path = Path("/proc/self/cgroup")) -> None:
    """Remove empty groups that killed engines left behind."""
    with contextlib.suppress(OSError):
        for parent in _parents(root, own_groups.read_text()):
            for folder in {left for place in parent.values() for left in place.glob(f"{_PREFIX}*")}:
                own = _OWN.match(folder.name)
                if own and not Path("/proc", own["engine"]).exists():
                    _remove(folder)
