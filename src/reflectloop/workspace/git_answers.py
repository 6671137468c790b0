"""Asks git about a repository, within a time limit, and refuses one that git finds elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

from reflectloop.errors import UnsupportedRepository
from reflectloop.system import clock, process
from reflectloop.system.git import Git
from reflectloop.workspace.repository import Repository, refusal, refuse_pipe

ANSWER_S = 20.0  # time limit for a short answer of git


LOCATED = 3  # lines of an answer to `locate`, before what was asked besides


def locate(folder: Path, *more: str) -> process.CapturedOutput:
    """Ask git for the working tree and the git folders of a folder; `more` are further words for `git rev-parse`."""
    options = ("--show-toplevel", "--absolute-git-dir", "--path-format=absolute", "--git-common-dir")
    return ask(folder, "rev-parse", *options, *more)


def refuse_elsewhere(repository: Repository, answer: process.CapturedOutput) -> None:
    """Raise unless git reports this working tree and this git folder in its answer to `locate`."""
    top, git_dir, common = (Path(line) for line in os.fsdecode(answer.stdout).split("\n")[:LOCATED])
    if top.resolve() != repository.root.resolve():
        raise refusal(
            repository.root, f"its settings name {top} as the working tree", "git config --unset core.worktree"
        )
    if git_dir.resolve() != repository.git_dir.resolve():
        raise refusal(repository.root, f"git reads {git_dir} instead of {repository.git_dir}")
    shared = repository.git_dir.parent.parent if (repository.git_dir / "gitdir").exists() else repository.git_dir
    if common.resolve() != shared.resolve():
        raise refusal(repository.root, f"it takes its history from {common}")


def refuse_named_pipes(repository: Repository) -> None:
    """Raise if a pattern file in the settings is not a regular file: git opens it when it lists files."""
    query = ("config", "-z", "--type=path", "--get-regexp", r"^core\.(excludesfile|attributesfile)$")
    for setting in ask(repository.root, *query).stdout.split(b"\0")[:-1]:
        name = os.fsdecode(setting.partition(b"\n")[2])
        refuse_pipe(repository.root, repository.root / name)


def ask(folder: Path, *arguments: str, seconds: float = ANSWER_S) -> process.CapturedOutput:
    """Run git in a folder; raise if it does not answer, because it may be blocked by a pipe."""
    try:
        return Git(cwd=folder, until=clock.monotonic() + seconds).attempt(*arguments)
    except TimeoutError as fault:
        raise UnsupportedRepository(
            f"git does not answer in {folder}: a file that its settings name may be a pipe",
            next_step="look at .git/config, and at the files that it includes",
        ) from fault
