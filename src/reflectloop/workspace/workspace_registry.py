"""The registry of all workspaces, by which they are found and removed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Literal, NamedTuple

from reflectloop.system import executables, files, overlay, process
from reflectloop.system.patterns import lazy

# Commands may leave folders that their owner cannot enter.
_CLOSE_INPUT = "exec </dev/null; "
_DELETE_SCRIPT = 'rm -rf -- "$1" 2>/dev/null || { chmod -R u+rwX -- "$1"; rm -rf -- "$1"; }'
_REMOVED = ".removed-"
ON_LAYER = "layer"  # the file in an engine_dir that names the layer on which the workspace stands

_NAME = lazy(r"RLOP-\d{8}-[0-9a-f]{6}(?:\.\d+)?")


def plain_name(name: str) -> str:
    """Return the name of a folder whose commands must not see which program runs them."""
    run, dot, number = name.partition(".")
    return f"{hashlib.sha256(run.encode()).hexdigest()[:8]}{dot}{number}"


Fate = Literal["at work", "kept", "warm"]


class WorkspaceEntry(NamedTuple):
    name: str
    folder: Path
    engine_dir: Path
    pid: int
    born: int  # start time of that process, because pids are reused
    fate: Fate
    mark_ns: int = 0
    identity: tuple[int, ...] = ()

    @property
    def alive(self) -> bool:
        return self.born != 0 and process.start_time(self.pid) == self.born


def _home(records: Path) -> Path:
    return records / "workspaces"


def register(records: Path, name: str, folder: Path) -> Path:
    """Register a workspace before it is created, so that a crash cannot leave an unknown one."""
    engine_dir = _home(records) / name
    with files.room_for("the registry of workspaces", engine_dir):
        engine_dir.mkdir(parents=True)
    _write(engine_dir, folder, "at work")
    return engine_dir


def note_created(engine_dir: Path, folder: Path, same: tuple[int, ...]) -> None:
    """Register the identity of a workspace at work, by which it is known again after its engine was killed."""
    _write(engine_dir, folder, "at work", same=same)


def set_status(entry: WorkspaceEntry, fate: Fate, mark_ns: int = 0, same: tuple[int, ...] = ()) -> None:
    _write(entry.engine_dir, entry.folder, fate, mark_ns, same)


def _write(engine_dir: Path, folder: Path, fate: Fate, mark_ns: int = 0, same: tuple[int, ...] = ()) -> None:
    pid = os.getpid()
    entry: dict[str, object] = {
        "name": engine_dir.name,
        "folder": os.fspath(folder),
        "pid": pid,
        "born": process.start_time(pid),
        "fate": fate,
    }
    entry |= {"mark_ns": mark_ns, "identity": same}
    files.write_atomic(engine_dir / "workspace.json", json.dumps(entry) + "\n")


def entries(records: Path) -> list[WorkspaceEntry]:
    """Return all registered workspaces. An unreadable record gets the name of its engine_dir and no folder."""
    return [_read(engine_dir) for engine_dir in sorted(_home(records).glob("*")) if engine_dir.is_dir()]


def _read(engine_dir: Path) -> WorkspaceEntry:
    try:
        record = json.loads((engine_dir / "workspace.json").read_text())
        folder = Path(record["folder"])
        known = _NAME.fullmatch(engine_dir.name) and record["fate"] in ("at work", "kept", "warm")
        if known and folder.name in (engine_dir.name, plain_name(engine_dir.name)) and is_safe_root(folder.parent):
            mark_ns = int(record.get("mark_ns", 0))
            same = tuple(int(number) for number in record.get("identity", ()))
            pid, born = int(record["pid"]), int(record["born"])
            return WorkspaceEntry(engine_dir.name, folder, engine_dir, pid, born, record["fate"], mark_ns, same)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return WorkspaceEntry(engine_dir.name, engine_dir / "no-folder-known", engine_dir, 0, 0, "at work")


def is_safe_root(root: Path) -> bool:
    """Return True if a folder can contain workspaces: a real folder in which only this user can write."""
    try:
        status = root.lstat()
    except OSError:
        return False
    return (
        root.is_absolute()
        and stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & 0o022
    )


def identity(folder: Path) -> tuple[int, ...]:
    """Return the identity of a folder and its `repo`; raise NotADirectoryError for a link."""
    numbers: tuple[int, ...] = ()
    for path in (folder, folder / "repo"):
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(path)
        numbers += (status.st_dev, status.st_ino)
    return numbers


def find(records: Path, name: str) -> WorkspaceEntry | None:
    return next((entry for entry in entries(records) if entry.name == name), None)


def _is_the_same(entry: WorkspaceEntry) -> bool:
    try:
        return identity(entry.folder) == entry.identity
    except OSError:
        return False


class WarmWorkspace(NamedTuple):
    engine_dir: Path
    mark_ns: int  # time at which its files matched its index


def take_warm(records: Path, name: str, folder: Path) -> WarmWorkspace | None:
    """Rename a warm workspace to `name` and return it, or None if there is none."""
    for entry in entries(records):
        if entry.fate == "warm" and entry.folder.parent == folder.parent and _is_the_same(entry):
            engine_dir = _home(records) / name
            with contextlib.suppress(OSError):
                # The record first: after a crash, one of the two names is in the registry.
                entry.engine_dir.rename(engine_dir)
                entry.folder.rename(folder)
                _write(engine_dir, folder, "at work")
                return WarmWorkspace(engine_dir, entry.mark_ns)
    return None


def keep_warm(records: Path, entry: WorkspaceEntry, mark_ns: int, same: tuple[int, ...]) -> None:
    """Keep a workspace for the next run, and no other; one on a layer is removed, since another is as quickly made."""
    for other in entries(records):
        if other.fate == "warm":
            remove(other)
    if (entry.engine_dir / ON_LAYER).exists():
        remove(entry)
    else:
        set_status(entry, "warm", mark_ns, same)


def keep_of_dead_engine(records: Path, entry: WorkspaceEntry) -> None:
    """Keep the workspace of a killed engine for the run that continues, if its folders are those it was made with."""
    if entry.fate == "at work" and _is_the_same(entry):
        keep_warm(records, entry, 0, entry.identity)
    else:
        remove(entry)


def remove(entry: WorkspaceEntry) -> None:
    """Rename a workspace at once and delete it in the background."""
    renamed = entry.folder.with_name(f"{_REMOVED}{entry.folder.name}-{os.getpid()}")
    with overlay.alone():
        mounted = overlay.detach(entry.folder / "repo")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            entry.folder.rename(renamed)
    delete_in_background(renamed, mounted)
    files.remove_tree(entry.engine_dir)


def destroy(entry: WorkspaceEntry) -> list[Path]:
    """Delete a workspace at once; return the paths that could not be deleted."""
    with overlay.alone():
        overlay.unmount(entry.folder / "repo")
    return [path for path in (entry.folder, entry.engine_dir) if not _destroyed(path)]


def _destroyed(path: Path) -> bool:
    try:
        files.remove_tree(path)
    except Exception:  # noqa: BLE001 - whatever the error, try again with rm
        with contextlib.suppress(OSError):
            process.capture([*_delete_command(), os.fspath(path)])
    return not os.path.lexists(path)


def stale(records: Path, keep_failed: int) -> list[WorkspaceEntry]:
    """Return the workspaces to remove: left by a crash, or failed and older than the newest `keep_failed`."""
    known = entries(records)
    failed = sorted(
        (entry for entry in known if entry.fate == "kept"), key=lambda entry: entry.engine_dir.stat().st_mtime_ns
    )
    crashed = [entry for entry in known if entry.fate == "at work" and not entry.alive]
    return failed[: max(0, len(failed) - keep_failed)] + crashed


def unregistered_folders(records: Path, root: Path) -> list[Path]:
    """Return folders to delete: renamed ones whose deletion was killed, and ones without a registry entry."""
    renamed = list(root.glob(f"{_REMOVED}*")) if root.is_dir() else []
    known = {entry.folder.name for entry in entries(records)}
    runs = {path.name for path in (*(records / "runs").glob("RLOP-*"), *(records / "verifications").glob("RLOP-*"))}
    runs |= {plain_name(run) for run in runs}
    lost = [path for path in root.glob("*") if path.name not in known and path.name.split(".")[0] in runs]
    return renamed + lost


def delete_in_background(path: Path, mounted: int | None = None) -> None:
    """Delete a folder; `mounted`, the files of a mount that was detached, are closed first, which takes a while."""
    process.detach([*_delete_command(_CLOSE_INPUT), os.fspath(path)], given=mounted)


def _delete_command(before: str = "") -> list[str]:
    return [executables.need("sh"), "-c", before + _DELETE_SCRIPT, "sh"]
