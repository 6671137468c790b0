"""Knows every workspace there is, and takes them away."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from pathlib import Path
from typing import Literal, NamedTuple

from reflectloop.system import executables, files, process

# Commands may leave folders that even their owner cannot enter.
_BURY = 'rm -rf -- "$1" 2>/dev/null || { chmod -R u+rwX -- "$1"; rm -rf -- "$1"; }'
_GRAVE = ".removed-"

_NAME = re.compile(r"RLOP-\d{8}-[0-9a-f]{6}(?:\.\d+)?")

Fate = Literal["at work", "kept", "warm"]


class WorkspaceEntry(NamedTuple):
    name: str
    folder: Path
    engine_dir: Path
    pid: int
    born: int  # when that process began, since pids come round again
    fate: Fate
    mark_ns: int = 0
    identity: tuple[int, ...] = ()

    @property
    def alive(self) -> bool:
        return self.born != 0 and process.born(self.pid) == self.born


def _home(own: Path) -> Path:
    return own / "workspaces"


def enter(own: Path, name: str, folder: Path) -> Path:
    """Write a workspace down before it exists, so that a crash cannot leave one nobody knows of."""
    engine_dir = _home(own) / name
    with files.room_for("the ledger of workspaces", engine_dir):
        engine_dir.mkdir(parents=True)
    _write(engine_dir, folder, "at work")
    return engine_dir


def set_fate(entry: WorkspaceEntry, fate: Fate, mark_ns: int = 0, same: tuple[int, ...] = ()) -> None:
    _write(entry.engine_dir, entry.folder, fate, mark_ns, same)


def _write(engine_dir: Path, folder: Path, fate: Fate, mark_ns: int = 0, same: tuple[int, ...] = ()) -> None:
    pid = os.getpid()
    entry: dict[str, object] = {
        "name": engine_dir.name,
        "folder": os.fspath(folder),
        "pid": pid,
        "born": process.born(pid),
        "fate": fate,
    }
    entry |= {"mark_ns": mark_ns, "identity": same}
    files.write_atomic(engine_dir / "workspace.json", json.dumps(entry) + "\n")


def entries(own: Path) -> list[WorkspaceEntry]:
    """Every workspace written down. A record that cannot be read is given its engine_dir's name and no folder."""
    return [_read(engine_dir) for engine_dir in sorted(_home(own).glob("*")) if engine_dir.is_dir()]


def _read(engine_dir: Path) -> WorkspaceEntry:
    try:
        said = json.loads((engine_dir / "workspace.json").read_text())
        folder = Path(said["folder"])
        known = _NAME.fullmatch(engine_dir.name) and said["fate"] in ("at work", "kept", "warm")
        if known and folder.name == engine_dir.name and _is_private(folder.parent):
            mark_ns = int(said.get("mark_ns", 0))
            same = tuple(int(number) for number in said.get("identity", ()))
            return WorkspaceEntry(
                engine_dir.name, folder, engine_dir, int(said["pid"]), int(said["born"]), said["fate"], mark_ns, same
            )
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return WorkspaceEntry(engine_dir.name, engine_dir / "no-folder-known", engine_dir, 0, 0, "at work")


def _is_private(root: Path) -> bool:
    """Whether a folder can be one that workspaces are made in: ours alone, and reached through no link of its own."""
    try:
        status = root.lstat()
    except OSError:
        return False
    return (
        root.is_absolute()
        and stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & 0o077
    )


def identity(folder: Path) -> tuple[int, ...]:
    """Which folder this really is, and which `repo` lies in it; a link or another folder has another identity."""
    found: tuple[int, ...] = ()
    for path in (folder, folder / "repo"):
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(path)
        found += (status.st_dev, status.st_ino)
    return found


def find(own: Path, name: str) -> WorkspaceEntry | None:
    return next((entry for entry in entries(own) if entry.name == name), None)


def _is_the_same(entry: WorkspaceEntry) -> bool:
    try:
        return identity(entry.folder) == entry.identity
    except OSError:
        return False


class WarmWorkspace(NamedTuple):
    engine_dir: Path
    mark_ns: int  # when its files were last known to be as its index says


def take_warm(own: Path, name: str, folder: Path) -> WarmWorkspace | None:
    """Rename a warm workspace to serve as `name`; None where none fits."""
    for entry in entries(own):
        if entry.fate == "warm" and entry.folder.parent == folder.parent and _is_the_same(entry):
            engine_dir = _home(own) / name
            with contextlib.suppress(OSError):
                # The record first: wherever this is cut short, one of the two names is in the ledger.
                entry.engine_dir.rename(engine_dir)
                entry.folder.rename(folder)
                _write(engine_dir, folder, "at work")
                return WarmWorkspace(engine_dir, entry.mark_ns)
    return None


def remove(entry: WorkspaceEntry) -> None:
    """Out of sight at once by rename, deleted behind the user's back."""
    grave = entry.folder.with_name(f"{_GRAVE}{entry.name}-{os.getpid()}")
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        entry.folder.rename(grave)
        bury(grave)
    files.remove_tree(entry.engine_dir)


def destroy(entry: WorkspaceEntry) -> list[Path]:
    """Deleted here and now: what leaked is gone when this returns, but for what it returns."""
    return [path for path in (entry.folder, entry.engine_dir) if not _destroyed(path)]


def _destroyed(path: Path) -> bool:
    try:
        files.remove_tree(path)
    except Exception:  # noqa: BLE001 - whatever stopped us, another tool may not be stopped by it
        with contextlib.suppress(OSError):
            process.capture([*_bury_words(), os.fspath(path)])
    return not os.path.lexists(path)


def stale(own: Path, keep_failed: int) -> list[WorkspaceEntry]:
    """What a crash left, and failed workspaces older than the newest few."""
    known = entries(own)
    kept = sorted(
        (entry for entry in known if entry.fate == "kept"), key=lambda entry: entry.engine_dir.stat().st_mtime_ns
    )
    crashed = [entry for entry in known if entry.fate == "at work" and not entry.alive]
    return kept[: max(0, len(kept) - keep_failed)] + crashed


def unwritten(own: Path, root: Path) -> list[Path]:
    """Graves whose digger was killed, and folders of ours that no ledger entry names any more."""
    graves = list(root.glob(f"{_GRAVE}*")) if root.is_dir() else []
    known = {entry.name for entry in entries(own)}
    runs = {path.name for path in (*(own / "runs").glob("RLOP-*"), *(own / "verifications").glob("RLOP-*"))}
    lost = [path for path in root.glob("RLOP-*") if path.name not in known and path.name.split(".")[0] in runs]
    return graves + lost


def bury(path: Path) -> None:
    process.detach([*_bury_words(), os.fspath(path)])


def _bury_words() -> list[str]:
    return [executables.need("sh"), "-c", _BURY, "sh"]
