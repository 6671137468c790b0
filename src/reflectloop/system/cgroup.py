"""Control groups: a bound on processes and memory of everything a command starts, where this user may set one."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/sys/fs/cgroup")
_NEEDED = ("memory", "pids")
_OWN = "reflectloop-"
_PATIENCE_S = 1.0


class CgroupLimits(NamedTuple):
    memory_bytes: int
    processes: int


class Group:
    """One group, in one hierarchy or in one for each controller."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders
        self._above = [folder.parent for folder in folders.values()]
        self._before = (0, 0)
        self._takes_threads = False
        self._born_inside = False

    def take_threads(self) -> None:
        """Where the kernel moves threads one by one, and ours may come back."""
        with contextlib.suppress(OSError):
            _move_this_thread(self._above)
            self._takes_threads = True

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """What this thread starts meanwhile is born in the group, if threads are taken.

        To move a process that runs, the kernel waits until none on the machine is being born or ends: up to 10 ms.
        A thread that moves itself waits for nobody.
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
        """Which bound was hit since the last process was admitted."""
        memory, processes = self._counts()
        if memory > self._before[0]:
            return "memory"
        return "processes" if processes > self._before[1] else None

    def _counts(self) -> tuple[int, int]:
        memory, pids = self._folders["memory"], self._folders["pids"]
        killed = _count(memory / "memory.events", "oom_kill") + _count(memory / "memory.oom_control", "oom_kill")
        return killed, _count(pids / "pids.events", "max")

    def close(self) -> None:
        """A group whose last process just ended may be busy for a moment yet."""
        deadline = time.monotonic() + _PATIENCE_S
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
    """With groups made below it."""
    try:
        for below, _, _ in os.walk(folder, topdown=False):
            os.rmdir(below)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def make(
    name: str, bounds: CgroupLimits, *, root: Path = _ROOT, own: Path = Path("/proc/thread-self/cgroup")
) -> Group | None:
    """A group with these bounds; None where none can be made."""
    try:
        parents = _parents(root, own.read_text())
    except OSError:
        return None
    for parent in parents:
        folders = {controller: parent[controller] / f"{_OWN}{os.getpid()}-{name}" for controller in _NEEDED}
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
    """Where a group could be made, nearest first: beside us and above in one hierarchy, below us in several.

    In the unified hierarchy a group with processes of its own cannot hand controllers down, so our own is no parent.
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


def sweep(*, root: Path = _ROOT, own: Path = Path("/proc/self/cgroup")) -> None:
    """Remove empty groups that killed engines left."""
    with contextlib.suppress(OSError):
        for parent in _parents(root, own.read_text()):
            for folder in {left for place in parent.values() for left in place.glob(f"{_OWN}*")}:
                engine = folder.name.removeprefix(_OWN).partition("-")[0]
                if not Path("/proc", engine).exists():
                    _remove(folder)
