"""What an outcome depends on besides the tree and the command, as one hash: change any of it, and it runs again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from reflectloop.box import environment, toolchains
from reflectloop.world import process, tools, trees

_LISTS = ("site-packages", "dist-packages", "node_modules")  # folders whose time says what is installed


def hashed(said: Iterable[str], caller: Mapping[str, str], carried: Iterable[Path], programs: Iterable[str]) -> str:
    """`said` is what the engine decides (level, network, set-up); the rest is looked at here."""
    whole = hashlib.sha256()
    for line in _lines(said, caller, carried, programs):
        whole.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return whole.hexdigest()


def _lines(
    said: Iterable[str], caller: Mapping[str, str], carried: Iterable[Path], programs: Iterable[str]
) -> Iterator[str]:
    yield from said
    yield from sorted(f"{key}={value}" for key, value in caller.items() if key in environment.ALLOWED)
    for name in sorted(set(programs)):
        yield from _program(name, caller.get("PATH", tools.search_path()))
    for folder in sorted(carried):
        yield from _content(folder)


def _program(name: str, path: str) -> Iterator[str]:
    """Which file it is, and the folders beside it that say what is installed for it."""
    found = process.find(name, path=path, cwd=Path())
    if found is None:
        yield f"{name} is not there"
        return
    real = Path(found).resolve()
    yield f"{name} {real} {_stamp(real)}"
    for prefix in dict.fromkeys((Path(found).parent.parent, real.parent.parent)):
        for folder in sorted(prefix.glob("lib/python3*/*-packages")) + sorted(
            prefix.glob("local/lib/python3*/*-packages")
        ):
            if folder.name in _LISTS:
                yield f"{folder} {_stamp(folder)}"


def _content(folder: Path) -> Iterator[str]:
    """Every file of what is carried, by name, size and time."""
    if not toolchains.is_there(folder):
        return
    if not folder.is_dir():
        yield f"{folder} {_stamp(folder)}"
        return
    out = []
    for inside in trees.walk(folder, passing=(PermissionError,)):
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
