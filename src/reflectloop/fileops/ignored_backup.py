"""Keeps a copy of what git does not record, so that a failed request can give it back: ignored files and `.git`.

A tree holds what is recorded, and laying it out again removes the rest. Copies are made anew only for files whose
change time moved, which no command can put back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

from reflectloop.fileops import safe_files
from reflectloop.fileops.paths import parts_of
from reflectloop.system import beneath, files, git, tree_walk
from reflectloop.workspace.checkout import Workspace

_MOST = 4 << 30  # bytes put aside
_PASSING = (PermissionError, FileNotFoundError, NotADirectoryError)
_REPLACED = {errno.EINVAL, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO}  # another kind of file than listed
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Kept(NamedTuple):
    stamp: tuple[int, ...]
    link: str | None  # where a link leads
    copy: Path | None


class IgnoredBackup:
    def __init__(self, workspace: Workspace) -> None:
        self._space = workspace
        self._folder = workspace.desk / "shelf"
        self._kept: dict[str, _Kept] = {}
        self._folders: tuple[str, ...] = ()
        self._count = 0
        self.left_out: tuple[str, ...] = ()  # too large, or replaced while it was copied

    def put_aside(self) -> None:
        """Copy what has changed since the last time. The tree must have been recorded before."""
        known = self._kept
        self._kept, self.left_out = {}, ()
        recorded = set(git.paths(self._space.git().run("ls-files", "-z", "--cached")))
        folders, room = [], _MOST
        with files.room_for("a copy of ignored files", self._folder):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for folder in tree_walk.walk(self._space.repo, passing=_PASSING):
                folders += [folder.within(entry.name) for entry in folder.entries if _is_folder(entry)]
                for entry in folder.entries:
                    path = folder.within(entry.name)
                    if not _is_folder(entry) and os.fsencode(path) not in recorded:
                        room -= self._keep(path, entry, folder.fd, known.pop(path, None), room)
        self._folders = tuple(folders)
        for gone in known.values():
            if gone.copy:
                gone.copy.unlink(missing_ok=True)

    def _keep(self, path: str, entry: os.DirEntry[str], fd: int, before: _Kept | None, room: int) -> int:
        """Copy one file, or leave it out if it is replaced meanwhile. Return how many bytes the copy takes."""
        try:
            return self._copy(path, entry, fd, before, room)
        except FileNotFoundError:
            return 0
        except OSError as fault:
            if fault.errno not in _REPLACED:
                raise
            self.left_out = (*self.left_out, files.display(path))
            return 0

    def _copy(self, path: str, entry: os.DirEntry[str], fd: int, before: _Kept | None, room: int) -> int:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            self._kept[path] = _Kept((), os.readlink(entry.name, dir_fd=fd), None)
        elif stat.S_ISREG(status.st_mode) and status.st_size <= room and os.access(entry.name, os.R_OK, dir_fd=fd):
            if before and before.copy and before.stamp == _stamp(status):
                self._kept[path] = before
            else:
                copy = before.copy if before and before.copy else self._new_name()
                self._kept[path] = _copied(entry.name, fd, copy)
            return status.st_size
        else:
            self.left_out = (*self.left_out, files.display(path))
        return 0

    def _new_name(self) -> Path:
        self._count += 1
        return self._folder / str(self._count)

    def give_back(self, tree: str) -> None:
        """Make the workspace what it was when things were put aside and `tree` was recorded."""
        self._space.refuse_swapped()
        self._space.repo.chmod(0o700)  # a command may have shut it against us
        with safe_files.opened(self._space.repo, self._space.identity[2:]) as top:
            for path in (".git", *self._space.copied):  # resetting leaves these as they are
                _remove(top, path)
        self._space.reset_to(tree)
        with safe_files.opened(self._space.repo, self._space.identity[2:]) as top:
            for path in self._folders:
                with contextlib.suppress(safe_files.AccessBarred), top.folder(parts_of(path), make=True):
                    pass
            for path, kept in self._kept.items():
                with contextlib.suppress(safe_files.AccessBarred):
                    self._kept[path] = _restored(top, path, kept)

    def close(self) -> None:
        if self._folder.exists():
            files.remove_tree(self._folder)
        self._kept, self._folders = {}, ()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, stat.S_IMODE(status.st_mode))


def _copied(name: str, fd: int, copy: Path) -> _Kept:
    with beneath.open_file(fd, name) as source, copy.open("wb") as target:
        stamp = _stamp(os.fstat(source.fileno()))
        shutil.copyfileobj(source, target, 1 << 20)
    return _Kept(stamp, None, copy)


def _restored(top: safe_files.SafeFiles, path: str, kept: _Kept) -> _Kept:
    *above, name = parts_of(path)
    with top.folder(tuple(above), make=True) as fd:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=fd)
        if kept.link is not None:
            os.symlink(kept.link, name, dir_fd=fd)
        if kept.copy is None:
            return kept
        _, _, modified, _, mode = kept.stamp
        with kept.copy.open("rb") as source, open(os.open(name, _CREATE, 0o600, dir_fd=fd), "wb") as target:  # noqa: PTH123
            shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
            os.fchmod(target.fileno(), mode)
            os.utime(target.fileno(), ns=(modified, modified))
            return kept._replace(stamp=_stamp(os.fstat(target.fileno())))


def _remove(top: safe_files.SafeFiles, path: str) -> None:
    """A file, link or folder with all in it, found without following a link."""
    *above, name = parts_of(path)
    # A link in the way is not ours to follow; resetting removes it.
    with contextlib.suppress(safe_files.AccessBarred), top.folder(tuple(above)) as fd:
        files.remove_tree(Path(f"/proc/self/fd/{fd}", name))
