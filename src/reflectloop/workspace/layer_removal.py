"""Find the layers of a project on the machine, and remove those that nobody uses."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import uuid
from pathlib import Path

from reflectloop.system import files
from reflectloop.workspace import workspace_registry
from reflectloop.workspace.project import Project

HOME = "layers-"  # in the folder for workspaces, with a hash of the project's path
RECORD = "layer.json"  # in a layer; its time: the last use
_ROOTS = "layer-roots.json"  # in the engine's cache: where this project has layers
REMOVED = ".removed-"


def last_used(folder: Path) -> int:
    try:
        return (folder / RECORD).stat().st_mtime_ns
    except OSError:
        return 0


def remember_root(project: Project, root: Path) -> None:
    """Note where this project has layers, so that `roots` finds them."""
    places = {*map(os.fspath, roots(project.folder)), os.fspath(root)}
    files.write_atomic(project.folder / "cache" / _ROOTS, json.dumps(sorted(places)))


def roots(own_folder: Path) -> list[Path]:
    """Return the folders for workspaces in which a project has layers."""
    try:
        places = json.loads((own_folder / "cache" / _ROOTS).read_bytes())
        named = (Path(place) for place in places if isinstance(place, str) and Path(place).is_absolute())
        return [place for place in named if workspace_registry.is_safe_root(place)]
    except (OSError, ValueError, TypeError):
        return []


def remove_unused(own_folder: Path, project_root: Path, most: int) -> int:
    """Remove what is half made or damaged, and the least recently used layers above `most` bytes; return the bytes.

    A layer stays while a workspace stands on it.
    """
    hashed = hashlib.sha256(os.fsencode(project_root)).hexdigest()[:12]
    needed = {_stands_on(entry.engine_dir) for entry in workspace_registry.entries(own_folder)}
    freed = 0
    for root in roots(own_folder):
        home = root / f"{HOME}{hashed}"
        if home.is_symlink() or not home.is_dir():
            continue
        total = 0
        for folder in sorted(home.iterdir(), key=last_used, reverse=True):
            size = _size(folder)
            total += size
            complete = size > 0
            if not (complete and (total <= most or folder.name in needed)) and _remove(folder):
                freed += size
                total -= size
        with contextlib.suppress(OSError):
            home.rmdir()
    return freed


def _stands_on(engine_dir: Path) -> str:
    try:
        return str(json.loads((engine_dir / workspace_registry.ON_LAYER).read_bytes())["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _size(folder: Path) -> int:
    """Return the bytes of a layer as its record says; 0 if it has none."""
    try:
        return max(1, int(json.loads((folder / RECORD).read_bytes())["bytes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _remove(folder: Path) -> bool:
    """Rename a layer and delete it in the background, unless somebody uses it."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        renamed = folder.parent.with_name(f"{REMOVED}{uuid.uuid4().hex}")  # else the folder of layers is never empty
        folder.rename(renamed)
        workspace_registry.delete_in_background(renamed)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
