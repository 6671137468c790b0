"""The user's files as they were before an apply touched them: copied first, put back by rename, found after a crash."""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
from pathlib import Path
from typing import Self

from reflectloop.errors import ApplyConflict, StateDamaged
from reflectloop.system import files, tree_walk
from reflectloop.system.git import Git

_MANIFEST = "manifest"


class ApplyBackup:
    """Copies in a folder on the project's own file system, so that putting them back needs no space."""

    def __init__(self, root: Path, folder: Path, names: list[bytes], result: str) -> None:
        self._root, self._folder, self._names, self._result = root, folder, names, result

    def __enter__(self) -> Self:
        with files.room_for("copies of the files to be changed", self._folder):
            self._folder.mkdir()
            for number, name in enumerate(self._names):
                source = self._place(name)
                if source.is_symlink() or source.is_file():
                    shutil.copy2(source, self._copy(number), follow_symlinks=False)
        # From here on, a crash is one that may have touched something.
        files.write_atomic(self._folder / _MANIFEST, b"\0".join([self._result.encode(), *self._names]))
        return self

    def __exit__(self, *_: object) -> None:
        files.remove_tree(self._folder)

    def _place(self, name: bytes) -> Path:
        return Path(os.fsdecode(os.fsencode(self._root) + b"/" + name))

    def _copy(self, number: int) -> Path:
        return self._folder / str(number)

    def put_back(self) -> None:
        """What the apply added goes first: a new folder may stand where a file was."""
        for number, name in enumerate(self._names):
            if not os.path.lexists(self._copy(number)):
                with contextlib.suppress(OSError):
                    self._place(name).unlink()
        for number, name in enumerate(self._names):
            place, copy = self._place(name), self._copy(number)
            if os.path.lexists(copy) and not _same(place, copy):
                _remove_empty(place)
                place.parent.mkdir(parents=True, exist_ok=True)
                copy.replace(place)

    def strange(self, target: Git) -> list[str]:
        """Files that are neither as they were nor as the apply was making them: somebody else's work."""
        out = []
        for number, name in enumerate(self._names):
            place, copy = self._place(name), self._copy(number)
            if os.path.lexists(place) and not _same(place, copy) and not self._half_made(target, name, place):
                out.append(files.display(name))
        return out

    def _half_made(self, target: Git, name: bytes, place: Path) -> bool:
        made = target.attempt("cat-file", "--filters", f"{self._result}:{os.fsdecode(name)}")
        if made.code or place.is_dir():
            return False
        now = os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes()
        return made.stdout.startswith(now)


def _remove_empty(folder: Path) -> None:
    """Take away a folder that holds nothing but folders; one that holds a file stays, and is somebody's."""
    if folder.is_dir() and not folder.is_symlink():
        for _ in tree_walk.walk(folder, passing=(OSError,), leave=_remove_if_empty):
            pass
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove_if_empty(above: int, name: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=above)


def _same(one: Path, other: Path) -> bool:
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and one.readlink() == other.readlink()
    if not (one.is_file() and other.is_file()):
        return False
    return one.stat().st_mode == other.stat().st_mode and filecmp.cmp(one, other, shallow=False)


def _refuse_astray(root: Path, names: list[bytes]) -> None:
    """Only what an apply can have touched is put back: plain paths inside the project, through no link."""
    for name in names:
        parts = name.split(b"/")
        parents = [os.fsencode(root) + b"/" + b"/".join(parts[:depth]) for depth in range(1, len(parts))]
        linked = any(os.path.islink(parent) for parent in parents)  # noqa: PTH114 - bytes names
        if linked or any(part in (b"", b".", b"..") or part.lower() == b".git" for part in parts):
            raise StateDamaged(
                f"the record of an unfinished apply names {files.display(name)!r}, which no apply touches",
                next_step="remove .reflectloop/tmp/apply.saved after looking at it",
            )


def recover(root: Path, folder: Path, target: Git) -> bool:
    """Undo an apply that was killed half way. Whether there was one."""
    if not folder.exists():
        return False
    manifest = folder / _MANIFEST
    if manifest.exists():
        result, *names = manifest.read_bytes().split(b"\0")
        _refuse_astray(root, names)
        saved = ApplyBackup(root, folder, names, result.decode())
        strange = saved.strange(target)
        if strange:
            raise ApplyConflict(
                f"an earlier apply was killed, and files have changed since: {', '.join(strange[:10])}",
                next_step=f"look at the copies in {folder}, then remove that folder",
                missing=tuple(strange),
            )
        saved.put_back()
    files.remove_tree(folder)
    return True
