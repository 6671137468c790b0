"""Hash everything besides tree and command that an outcome depends on; if it changes, the check runs again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from reflectloop.sandbox import environment, toolchains
from reflectloop.system import executables, process, tree_walk

_LISTS = (
    "site-packages",
    "dist-packages",
    "node_modules",
)  # folders whose modification time changes with an installation


def hashed(settings: Iterable[str], caller: Mapping[str, str], carried: Iterable[Path], programs: Iterable[str]) -> str:
    """Return the hash of the engine's settings (level, network, set-up) and of the environment."""
    hasher = hashlib.sha256()
    for line in _lines(settings, caller, carried, programs):
        hasher.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return hasher.hexdigest()


def _lines(
    settings: Iterable[str], caller: Mapping[str, str], carried: Iterable[Path], programs: Iterable[str]
) -> Iterator[str]:
    yield from settings
    yield from sorted(f"{key}={value}" for key, value in caller.items() if key in environment.ALLOWED)
    for name in sorted(set(programs)):
        yield from _program(name, caller.get("PATH", executables.search_path()))
    for folder in sorted(carried):
        yield from _content(folder)


def _program(name: str, path: str) -> Iterator[str]:
    """Yield the program's file, and the folders next to it that show what is installed for it."""
    program = process.find(name, path=path, cwd=Path())
    if program is None:
        yield f"{name} is not there"
        return
    real = Path(program).resolve()
    yield f"{name} {real} {_stamp(real)}"
    for prefix in dict.fromkeys((Path(program).parent.parent, real.parent.parent)):
        for folder in sorted(prefix.glob("lib/python3*/*-packages")) + sorted(
            prefix.glob("local/lib/python3*/*-packages")
        ):
            if folder.name in _LISTS:
                yield f"{folder} {_stamp(folder)}"


def _content(folder: Path) -> Iterator[str]:
    """Yield every carried file with its size and time."""
    if not toolchains.is_there(folder):
        return
    if not folder.is_dir():
        yield f"{folder} {_stamp(folder)}"
        return
    out = []
    for inside in tree_walk.walk(folder, passing=(PermissionError,)):
        inside.entries = [entry for entry in inside.entries if entry.name != "__pycache__"]
        for entry in inside.entries:
            if not entry.is_dir(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                out.append(f"{inside.within(entry.name)!r} {status.st_size} {status.st_mtime_ns}")
    yield from sorted(out)


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return "unreadable"
    return f"{status.st_size if not os.path.isdir(path) else 0} {status.st_mtime_ns}"  # noqa: PTH112
