"""Backs up files that git does not record (ignored files and `.git`), so that a failed request can restore them.

Checking out a recorded tree removes all other files. A file is copied again only if its change time differs, which
no command can set back.
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

_MOST = 4 << 30  # bytes of all copies
_PASSING = (PermissionError, FileNotFoundError, NotADirectoryError)
_REPLACED = {errno.EINVAL, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO}  # another kind of file than listed
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _BackedUp(NamedTuple):
    stamp: tuple[int, ...]
    link: str | None  # the target of a symbolic link
    copy: Path | None


class IgnoredBackup:
    def __init__(self, workspace: Workspace) -> None:
        self._space = workspace
        self._folder = workspace.engine_dir / "shelf"
        self._copies: dict[str, _BackedUp] = {}
        self._folders: tuple[str, ...] = ()
        self._count = 0
        self.left_out: tuple[str, ...] = ()  # too large, or replaced while being copied

    def save(self) -> None:
        """Copy the files that changed since the last call. The tree must have been recorded before."""
        known = self._copies
        self._copies, self.left_out = {}, ()
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
        for old in known.values():
            if old.copy:
                old.copy.unlink(missing_ok=True)

    def _keep(self, path: str, entry: os.DirEntry[str], fd: int, before: _BackedUp | None, room: int) -> int:
        """Copy one file, or skip it if it is replaced meanwhile. Return the size of the copy."""
        try:
            return self._copy(path, entry, fd, before, room)
        except FileNotFoundError:
            return 0
        except OSError as fault:
            if fault.errno not in _REPLACED:
                raise
            self.left_out = (*self.left_out, files.display(path))
            return 0

    def _copy(self, path: str, entry: os.DirEntry[str], fd: int, before: _BackedUp | None, room: int) -> int:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            self._copies[path] = _BackedUp((), os.readlink(entry.name, dir_fd=fd), None)
        elif stat.S_ISREG(status.st_mode) and status.st_size <= room and os.access(entry.name, os.R_OK, dir_fd=fd):
            if before and before.copy and before.stamp == _stamp(status):
                self._copies[path] = before
            else:
                copy = before.copy if before and before.copy else self._new_name()
                self._copies[path] = _copied(entry.name, fd, copy)
            return status.st_size
        else:
            self.left_out = (*self.left_out, files.display(path))
        return 0

    def _new_name(self) -> Path:
        self._count += 1
        return self._folder / str(self._count)

    def restore(self, tree: str) -> None:
        """Restore the workspace to the last backup and the recorded `tree`."""
        self._space.refuse_swapped()
        self._space.repo.chmod(0o700)  # a command may have removed our permissions
        with safe_files.open_folder(self._space.repo, self._space.identity[2:]) as top:
            for path in (".git", *self._space.copied):  # a reset does not touch these
                _remove(top, path)
        self._space.reset_to(tree)
        with safe_files.open_folder(self._space.repo, self._space.identity[2:]) as top:
            for path in self._folders:
                with contextlib.suppress(safe_files.AccessBarred), top.folder(parts_of(path), make=True):
                    pass
            for path, copy in self._copies.items():
                with contextlib.suppress(safe_files.AccessBarred):
                    self._copies[path] = _restored(top, path, copy)

    def close(self) -> None:
        if self._folder.exists():
            files.remove_tree(self._folder)
        self._copies, self._folders = {}, ()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, stat.S_IMODE(status.st_mode))


def _copied(name: str, fd: int, copy: Path) -> _BackedUp:
    with beneath.open_file(fd, name) as source, copy.open("wb") as target:
        stamp = _stamp(os.fstat(source.fileno()))
        shutil.copyfileobj(source, target, 1 << 20)
    return _BackedUp(stamp, None, copy)


def _restored(top: safe_files.SafeFiles, path: str, copy: _BackedUp) -> _BackedUp:
    *above, name = parts_of(path)
    with top.folder(tuple(above), make=True) as fd:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=fd)
        if copy.link is not None:
            os.symlink(copy.link, name, dir_fd=fd)
        if copy.copy is None:
            return copy
        _, _, modified, _, mode = copy.stamp
        with copy.copy.open("rb") as source, open(os.open(name, _CREATE, 0o600, dir_fd=fd), "wb") as target:  # noqa: PTH123
            shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
            os.fchmod(target.fileno(), mode)
            os.utime(target.fileno(), ns=(modified, modified))
            return copy._replace(stamp=_stamp(os.fstat(target.fileno())))


def _remove(top: safe_files.SafeFiles, path: str) -> None:
    """Remove a file, a link or a folder with its content, without following links."""
    *above, name = parts_of(path)
    # Links on the path are not followed; the reset removes them.
    with contextlib.suppress(safe_files.AccessBarred), top.folder(tuple(above)) as fd:
        files.remove_tree(Path(f"/proc/self/fd/{fd}", name))
