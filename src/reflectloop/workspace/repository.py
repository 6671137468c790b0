"""Finds the git repository of a folder without git, and refuses one that refers to another place.

A clone or an unpacked archive may contain a `.git`, or a folder that looks like one, whose settings name another
working tree or another project's history. git would follow them; here the project is the folder with `.git`.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import UnsupportedRepository
from reflectloop.system import beneath

OWN_FOLDER = ".reflectloop"
_NAME = ".git"
_FOLDERS = ("objects", "refs", "info")  # of the repository itself; a link could point to another project's
_LARGEST_POINTER = 1 << 16  # bytes of a `.git` file and of its back pointer
# Files that git opens in every repository: opening a pipe would block forever.
_OPENED = (
    "HEAD",
    "config",
    "config.worktree",
    "commondir",
    "index",
    "packed-refs",
    "shallow",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "info/sparse-checkout",
    "objects/info/alternates",
)


class Repository(NamedTuple):
    """A working tree and its git folder."""

    root: Path
    git_dir: Path


def find(start: Path) -> Repository | None:
    """Return the repository whose working tree contains `start`, or None; raise if it refers to another place."""
    for folder in (start, *start.parents):
        try:
            status = os.lstat(folder / _NAME)
        except OSError:
            continue
        git_dir = _git_dir(folder, status)
        if git_dir is None:
            continue
        _refuse_links(git_dir)
        _refuse_pipes(git_dir)
        return Repository(folder, git_dir)
    return None


def _git_dir(folder: Path, status: os.stat_result) -> Path | None:
    """Return the git folder of a working tree, or None if `.git` is not a repository."""
    place = folder / _NAME
    if stat.S_ISDIR(status.st_mode):
        return place if (place / "HEAD").is_symlink() or (place / "HEAD").exists() else None
    if stat.S_ISLNK(status.st_mode):
        raise refusal(folder, f"{place} is a link, which may point to another project's files")
    if not stat.S_ISREG(status.st_mode):
        raise refusal(folder, f"{place} is {beneath.kind_of(status)}")
    return _pointed_to(folder, place)


def _pointed_to(folder: Path, place: Path) -> Path:
    """Return the git folder that a `.git` file names; raise unless that folder names this working tree."""
    try:
        text = os.fsdecode(beneath.read_path(place, _LARGEST_POINTER))
    except OSError as fault:
        raise refusal(folder, f"{place} cannot be read: {fault.strerror}") from fault
    if not text.startswith("gitdir: "):
        raise refusal(folder, f"{place} is a file that names no git folder")
    git_dir = Path(os.path.normpath(folder / text.removeprefix("gitdir: ").rstrip("\n")))
    if not any(back.resolve() == folder.resolve() for back in _back_pointers(git_dir)):
        raise refusal(
            folder, f"{place} names {git_dir}, which is not this working tree's", "git worktree repair, or git clone"
        )
    return git_dir


def _back_pointers(git_dir: Path) -> list[Path]:
    """Return the working trees that a git folder names: of a linked worktree, or of a submodule."""
    pointers = []
    try:
        text = os.fsdecode(beneath.read_path(git_dir / "gitdir", _LARGEST_POINTER))
        pointers.append(Path(os.path.normpath(git_dir / text.rstrip("\n"))).parent)
    except OSError:
        pass  # no linked worktree
    config = git_dir / "config"
    from reflectloop.system.git import Git  # noqa: PLC0415 - loads the sandbox, and few projects are linked worktrees

    if config.is_file() and not config.is_symlink():
        named = Git(cwd=git_dir.parent).attempt("config", "--file", os.fspath(config), "--get", "core.worktree")
        if named.code == 0:
            pointers.append(Path(os.path.normpath(git_dir / os.fsdecode(named.stdout).rstrip("\n"))))
    return pointers


def _refuse_links(git_dir: Path) -> None:
    for name in _FOLDERS:
        if (git_dir / name).is_symlink():
            raise refusal(git_dir.parent, f"{git_dir / name} is a link, which may point to another project's files")


def _refuse_pipes(git_dir: Path) -> None:
    """Raise if a file that git opens is not a regular file: git would block or read forever."""
    for name in (*_OPENED, *_current_branch(git_dir)):
        refuse_pipe(git_dir.parent, git_dir / name)


def refuse_pipe(folder: Path, path: Path) -> None:
    """Raise if a file that git opens is a pipe, a socket or a device."""
    try:
        status = path.stat()
    except OSError:
        return
    is_null = stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or is_null):
        raise refusal(folder, f"{path} is {beneath.kind_of(status)}, not a file")


def _current_branch(git_dir: Path) -> tuple[str, ...]:
    """Return the file of the branch in HEAD, if HEAD can be read."""
    try:
        text = os.fsdecode(beneath.read_path(git_dir / "HEAD", _LARGEST_POINTER))
    except OSError:
        return ()
    name = text.removeprefix("ref: ").strip()
    return (name,) if name.startswith("refs/") and ".." not in name else ()


def refusal(
    folder: Path, why: str, next_step: str = "git clone it again, and work in the clone"
) -> UnsupportedRepository:
    """Return the error for a repository that refers to another place."""
    return UnsupportedRepository(f"the repository at {folder} refers to another place: {why}", next_step=next_step)
