"""Finds the user's repository and says where its parts lie; reads only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from reflectloop.errors import InvalidInput, UnsupportedRepository
from reflectloop.world.git import Git, GitFailed

OWN_FOLDER = ".reflectloop"
# Never taken into a workspace, never part of a patch, whatever git tracks.
KEPT_OUT = (OWN_FOLDER, ".claude/state", ".claude/sandbox", ".claude/private")


@dataclass(frozen=True)
class Project:
    """A git working tree with at least one commit."""

    root: Path
    head: str
    branch: str | None
    object_format: str
    objects: Path
    index: Path
    exclude: Path
    shallow: Path

    @property
    def folder(self) -> Path:
        return self.root / OWN_FOLDER

    def git(self) -> Git:
        return Git(cwd=self.root)


def locate(start: Path) -> Path:
    """The top folder of the repository around `start`."""
    if not start.is_dir():
        raise InvalidInput(f"{start} is not a folder", next_step="reflectloop --project DIR …")
    git = Git(cwd=start)
    found = git.attempt("rev-parse", "--show-toplevel")
    if found.code == 0:
        root = Path(os.fsdecode(found.stdout).removesuffix("\n"))
        if "\n" in os.fspath(root):
            raise UnsupportedRepository(
                "the path of the repository has a line break in it", next_step="rename the folder"
            )
        return root
    said = found.stderr.decode("utf-8", "replace")
    if "dubious ownership" in said:
        raise UnsupportedRepository(
            f"git does not trust {start}: it belongs to another user",
            next_step=f"git config --global --add safe.directory {start}",
        )
    if git.attempt("rev-parse", "--is-bare-repository").stdout.strip() == b"true":
        raise UnsupportedRepository(f"{start} is a bare repository", next_step="git clone it and work in the clone")
    if git.attempt("rev-parse", "--is-inside-git-dir").stdout.strip() == b"true":
        raise UnsupportedRepository(f"{start} is inside a .git folder", next_step="cd to the working tree")
    raise UnsupportedRepository(
        f"{start} is not inside a git repository",
        next_step="git init && git add -A && git commit -m 'first commit'",
    )


def open_at(start: Path) -> Project:
    root = locate(start)
    git = Git(cwd=root)
    try:
        head = git.line("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except GitFailed as fault:
        raise UnsupportedRepository(
            f"{root} has no commit yet", next_step="git add -A && git commit -m 'first commit'"
        ) from fault
    parts = ("objects", "index", "info/exclude", "shallow")
    arguments = [word for part in parts for word in ("--git-path", part)]
    answers = git.line("rev-parse", "--path-format=absolute", "--show-object-format", *arguments).split("\n")
    branch = git.attempt("symbolic-ref", "--quiet", "HEAD")
    return Project(
        root,
        head,
        os.fsdecode(branch.stdout).strip() or None,
        answers[0],
        *(Path(answer) for answer in answers[1:]),
    )
