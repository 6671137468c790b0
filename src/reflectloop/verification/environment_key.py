"""Hash everything besides tree and command that an outcome depends on; if it changes, the check runs again."""

from __future__ import annotations

import contextlib
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


def hashed(
    settings: Iterable[str], caller: Mapping[str, str], carried: Iterable[Path], installed: Mapping[Path, Path]
) -> str:
    """Return the hash of the engine's settings (level, network, set-up) and of the environment.

    `carried` are the user's files that checks see, `installed` those that a set-up made.
    """
    hasher = hashlib.sha256()
    for line in _lines(settings, caller, carried, installed):
        hasher.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return hasher.hexdigest()


def _lines(
    settings: Iterable[str], caller: Mapping[str, str], carried: Iterable[Path], installed: Mapping[Path, Path]
) -> Iterator[str]:
    yield from settings
    variables = environment.ALLOWED - {"PATH"}
    yield from sorted(f"{key}={value}" for key, value in caller.items() if key in variables)
    yield from _programs(caller)
    for folder in sorted(carried):
        yield from _content(folder)
    for path, source in sorted(installed.items()):
        status = source.lstat()
        yield f"{path} {source} {status.st_ino} {status.st_ctime_ns}"  # installed again, it may be other versions


def _programs(caller: Mapping[str, str]) -> Iterator[str]:
    """Yield which file each command name stands for: all that matters of PATH.

    Folders that no sandboxed command sees, such as /tmp, are left out.
    """
    names: dict[str, str] = {}
    home = Path(caller.get("HOME") or "/")
    folders = dict.fromkeys(caller.get("PATH", executables.search_path()).split(os.pathsep))
    for folder in (folder for folder in folders if not toolchains.too_wide(Path(folder), home)):
        with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name not in names and entry.is_file() and os.access(entry.path, os.X_OK):
                    names[entry.name] = entry.path
    yield from (f"{name}={place}" for name, place in sorted(names.items()))


def program(name: str, path: str) -> list[str]:
    """Return the program's file, and the folders next to it that show what is installed for it."""
    place = process.find(name, path=path, cwd=Path())
    if place is None:
        return [f"{name} is not there"]
    real = Path(place).resolve()
    prefixes = dict.fromkeys((Path(place).parent.parent, real.parent.parent))
    patterns = ("lib/python3*/*-packages", "local/lib/python3*/*-packages")
    folders = [folder for prefix in prefixes for pattern in patterns for folder in sorted(prefix.glob(pattern))]
    return [
        f"{name} {real} {_stamp(real)}",
        *(f"{folder} {_stamp(folder)}" for folder in folders if folder.name in _LISTS),
    ]


def _content(folder: Path) -> Iterator[str]:
    """Yield every carried file with its size and time; `folder` may be a link to a folder, or a file."""
    folder = folder.resolve()
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
    return f"{status.st_size if not path.is_dir() else 0} {status.st_mtime_ns}"
