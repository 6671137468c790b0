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
from reflectloop.system import beneath, clock, process
from reflectloop.system.git import Git

_NAME = ".git"
_FOLDERS = ("objects", "refs", "info")  # of the repository itself; a link could point to another project's
_ANSWER_S = 20.0  # time limit for a short answer of git
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


def refuse_elsewhere(repository: Repository) -> None:
    """Raise unless git reports this working tree and this git folder."""
    options = ("--show-toplevel", "--absolute-git-dir", "--path-format=absolute", "--git-common-dir")
    answer = ask(repository.root, "rev-parse", *options)
    if answer.code:
        return  # git refuses it; the caller reports why
    top, git_dir, common = (Path(line) for line in os.fsdecode(answer.stdout).removesuffix("\n").split("\n"))
    if top.resolve() != repository.root.resolve():
        raise _refusal(
            repository.root, f"its settings name {top} as the working tree", "git config --unset core.worktree"
        )
    if git_dir.resolve() != repository.git_dir.resolve():
        raise _refusal(repository.root, f"git reads {git_dir} instead of {repository.git_dir}")
    shared = repository.git_dir.parent.parent if (repository.git_dir / "gitdir").exists() else repository.git_dir
    if common.resolve() != shared.resolve():
        raise _refusal(repository.root, f"it takes its history from {common}")


def refuse_named_pipes(repository: Repository) -> None:
    """Raise if a pattern file in the settings is not a regular file: git opens it when it lists files."""
    query = ("config", "-z", "--type=path", "--get-regexp", r"^core\.(excludesfile|attributesfile)$")
    for setting in ask(repository.root, *query).stdout.split(b"\0")[:-1]:
        name = os.fsdecode(setting.partition(b"\n")[2])
        _refuse_pipe(repository.root, repository.root / name)


def ask(folder: Path, *arguments: str, seconds: float = _ANSWER_S) -> process.CapturedOutput:
    """Run git in a folder; raise if it does not answer, because it may be blocked by a pipe."""
    try:
        return Git(cwd=folder, until=clock.monotonic() + seconds).attempt(*arguments)
    except TimeoutError as fault:
        raise UnsupportedRepository(
            f"git does not answer in {folder}: a file that its settings name may be a pipe",
            next_step="look at .git/config, and at the files that it includes",
        ) from fault


def _git_dir(folder: Path, status: os.stat_result) -> Path | None:
    """Return the git folder of a working tree, or None if `.git` is not a repository."""
    place = folder / _NAME
    if stat.S_ISDIR(status.st_mode):
        return place if (place / "HEAD").is_symlink() or (place / "HEAD").exists() else None
    if stat.S_ISLNK(status.st_mode):
        raise _refusal(folder, f"{place} is a link, which may point to another project's files")
    if not stat.S_ISREG(status.st_mode):
        raise _refusal(folder, f"{place} is {beneath.kind_of(status)}")
    return _pointed_to(folder, place)


def _pointed_to(folder: Path, place: Path) -> Path:
    """Return the git folder that a `.git` file names; raise unless that folder names this working tree."""
    try:
        text = os.fsdecode(beneath.read_path(place, _LARGEST_POINTER))
    except OSError as fault:
        raise _refusal(folder, f"{place} cannot be read: {fault.strerror}") from fault
    if not text.startswith("gitdir: "):
        raise _refusal(folder, f"{place} is a file that names no git folder")
    git_dir = Path(os.path.normpath(folder / text.removeprefix("gitdir: ").rstrip("\n")))
    if not any(back.resolve() == folder.resolve() for back in _back_pointers(git_dir)):
        raise _refusal(
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
    if config.is_file() and not config.is_symlink():
        named = Git(cwd=git_dir.parent).attempt("config", "--file", os.fspath(config), "--get", "core.worktree")
        if named.code == 0:
            pointers.append(Path(os.path.normpath(git_dir / os.fsdecode(named.stdout).rstrip("\n"))))
    return pointers


def _refuse_links(git_dir: Path) -> None:
    for name in _FOLDERS:
        if (git_dir / name).is_symlink():
            raise _refusal(git_dir.parent, f"{git_dir / name} is a link, which may point to another project's files")


def _refuse_pipes(git_dir: Path) -> None:
    """Raise if a file that git opens is not a regular file: git would block or read forever."""
    for name in (*_OPENED, *_current_branch(git_dir)):
        _refuse_pipe(git_dir.parent, git_dir / name)


def _refuse_pipe(folder: Path, path: Path) -> None:
    try:
        status = path.stat()
    except OSError:
        return
    is_null = stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or is_null):
        raise _refusal(folder, f"{path} is {beneath.kind_of(status)}, not a file")


def _current_branch(git_dir: Path) -> tuple[str, ...]:
    """Return the file of the branch in HEAD, if HEAD can be read."""
    try:
        text = os.fsdecode(beneath.read_path(git_dir / "HEAD", _LARGEST_POINTER))
    except OSError:
        return ()
    name = text.removeprefix("ref: ").strip()
    return (name,) if name.startswith("refs/") and ".." not in name else ()


def _refusal(
    folder: Path, why: str, next_step: str = "git clone it again, and work in the clone"
) -> UnsupportedRepository:
    return UnsupportedRepository(f"the repository at {folder} refers to another place: {why}", next_step=next_step)
