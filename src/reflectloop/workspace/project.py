"""Finds the user's repository and its parts; reads only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NoReturn

from reflectloop.errors import InvalidInput, UnsupportedRepository
from reflectloop.system.git import Git
from reflectloop.workspace import git_answers, repository
from reflectloop.workspace.repository import Repository

OWN_FOLDER = repository.OWN_FOLDER
# Never copied into a workspace and never part of a patch, even if git tracks them.
KEPT_OUT = (OWN_FOLDER, ".claude/state", ".claude/sandbox", ".claude/private")
# Lessons and accepted rules, which a team reviews and commits like code.
SHARED_RECORDS = (f"{OWN_FOLDER}/knowledge", f"{OWN_FOLDER}/rules")


def is_shared_record(path: str) -> bool:
    """Return True if a path of the project is a lesson, an occurrence of one, or an accepted rule."""
    return path.startswith(tuple(f"{folder}/" for folder in SHARED_RECORDS))


# Excluded in copy mode: tools' output and binaries.
LEFT_OUT = (
    "node_modules/",
    "venv/",
    ".venv/",
    "venvsfrida_env/",
    "__pycache__/",
    ".pytest_cache/",
    "analyzedata/outputs/",
    "analyzedata/scratch/",
    "*.i64",
    "*.idb",
    "*.dll",
    "*.exe",
    "*.pdb",
)

Mode = Literal["auto", "git", "copy"]
_RULES = "excludesfile"
_PARTS = ("objects", "index", "info/exclude", "shallow")
_ABOUT_PARTS = ("--show-object-format", *(word for part in _PARTS for word in ("--git-path", part)))
_ABOUT_HEAD = ("HEAD^{commit}", "HEAD^{tree}", "--symbolic-full-name", "HEAD")


@dataclass(frozen=True)
class Project:
    """A git working tree with at least one commit, or any folder in copy mode."""

    root: Path
    mode: Literal["git", "copy"]
    object_format: str = "sha1"
    head: str | None = None
    branch: str | None = None
    head_tree: str | None = None
    objects: Path | None = None
    index: Path | None = None
    exclude: Path | None = None
    shallow: Path | None = None

    @property
    def folder(self) -> Path:
        return self.root / OWN_FOLDER

    def git(self) -> Git:
        return Git(cwd=self.root)

    @cached_property
    def _core_settings(self) -> dict[str, str]:
        """The user's git settings for the content of files, and the file of their ignore rules."""
        pattern = r"^core\.(autocrlf|eol|filemode|symlinks|ignorecase|excludesfile)$"
        answer = self.git().attempt("config", "-z", "--get-regexp", pattern).stdout
        lines = (os.fsdecode(line).partition("\n") for line in answer.split(b"\0"))
        return {key.removeprefix("core."): value for key, given, value in lines if given}

    @property
    def content_settings(self) -> str:
        """The user's git settings for line endings and modes, and none that names a program."""
        if self.mode == "copy":
            return ""
        plain = {key: value for key, value in self._core_settings.items() if key != _RULES and value.isalnum()}
        return "".join(f"\t{key} = {value}\n" for key, value in plain.items())

    @property
    def ignore_rules(self) -> Path:
        """The file of the user's ignore rules for all projects, as their settings or git's default name it."""
        named = self._core_settings.get(_RULES)
        if named is not None and named.startswith(("~", "%")):  # git replaces a home folder and its own prefix
            answer = self.git().attempt("config", "--type=path", "--get", "core.excludesFile")
            named = None if answer.code else os.fsdecode(answer.stdout).removesuffix("\n")
        if named is None:
            return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "ignore"
        return Path(named)  # an empty one is no file: no rules

    @cached_property
    def tags(self) -> bytes:
        """The tags as lines of a `packed-refs` file."""
        folder = self.objects.parent if self.objects else self.root
        packed, loose = folder / "packed-refs", folder / "refs" / "tags"
        none_packed = not packed.exists() or b" refs/tags/" not in packed.read_bytes()
        if none_packed and loose.is_dir() and not any(loose.iterdir()):
            return b""  # there are none
        template = "%(objectname) %(refname)%(if)%(*objectname)%(then)%0a^%(*objectname)%(end)"
        return self.git().run("for-each-ref", f"--format={template}", "refs/tags")


def locate(start: Path, mode: Mode = "auto") -> Path:
    """Return the top folder of the project that contains `start`: a repository, or in copy mode any folder."""
    return _locate(start, mode)[0]


def _locate(start: Path, mode: Mode, *more: str) -> tuple[Path, list[str]]:
    """Return the top folder and git's answers to `more`; none outside of a repository, or if git cannot answer all."""
    if not start.is_dir():
        raise InvalidInput(f"{start} is not a folder", next_step="reflectloop --project DIR …")
    start = start.resolve()
    repo = repository.find(start)
    place = repo.root if repo else start
    answer = git_answers.locate(place, *more)
    if more and answer.code:
        answer, more = git_answers.locate(place), ()
    if repo and answer.code == 0:
        if "\n" in os.fspath(repo.root):
            raise UnsupportedRepository(
                "the path of the repository has a line break in it", next_step="rename the folder"
            )
        git_answers.refuse_elsewhere(repo, answer)
        _refuse_inside(repo, start)
        return repo.root, os.fsdecode(answer.stdout).split("\n")[git_answers.LOCATED : -1]
    _refuse_broken(start, answer.stderr, is_found=repo is not None)
    if mode == "git":
        raise UnsupportedRepository(
            f"{start} is not inside a git repository",
            next_step="git init && git add -A && git commit -m 'first commit', or --mode copy",
        )
    return _folder_around(start), []


def _refuse_inside(repo: Repository, start: Path) -> None:
    if start.is_relative_to(repo.git_dir):
        raise UnsupportedRepository(f"{start} is inside a .git folder", next_step="cd to the working tree")


def _refuse_broken(start: Path, stderr: bytes, *, is_found: bool) -> None:
    if b"dubious ownership" in stderr:
        raise UnsupportedRepository(
            f"git does not trust {start}: it belongs to another user",
            next_step=f"git config --global --add safe.directory {start}",
        )
    if b"safe.bareRepository" in stderr:
        raise UnsupportedRepository(f"{start} is a bare repository", next_step="git clone it and work in the clone")
    if is_found or b"not a git repository" not in stderr:
        raise UnsupportedRepository(
            f"git cannot read {start}: {stderr.decode('utf-8', 'replace').strip()}", next_step="git fsck"
        )


def _folder_around(start: Path) -> Path:
    """Return the nearest folder with our settings or records, else `start`; refuse a home or system folder."""
    above = [start, *start.parents]
    root = next(
        (place for place in above if (place / OWN_FOLDER).is_dir() or (place / "reflectloop.toml").is_file()), start
    )
    if root in (Path("/"), Path.home().resolve(), Path("/tmp"), Path("/home")):  # noqa: S108
        raise UnsupportedRepository(
            f"{root} is not a project: copying all of it is refused", next_step="cd to the project, or --project DIR"
        )
    return root


def is_tracked(root: Path, path: Path) -> bool:
    """Return True if git tracks a file or it is reached through a link; False in a folder without git."""
    if (root / path).resolve() != root.resolve() / path:
        return True  # git tracks the link or its target
    answer = Git(cwd=root).attempt("ls-files", "--error-unmatch", "--", f":(literal){path}")
    return answer.code == 0


def open_project(start: Path, mode: Mode = "auto") -> Project:
    root, answers = _locate(start, mode, *_ABOUT_PARTS, *_ABOUT_HEAD)
    git = Git(cwd=root)
    if repository.find(root) is None:
        return Project(root, "copy")
    if len(answers) == 1 + len(_PARTS) + 3:  # a commit, its tree and a branch
        *answers, head, tree, branch = answers
    else:
        answers = git.line("rev-parse", "--path-format=absolute", *_ABOUT_PARTS).split("\n")
        head = os.fsdecode(git.attempt("rev-parse", "--verify", "--quiet", "HEAD^{commit}").stdout).strip()
        if not head and mode != "copy":
            _refuse_without_commit(git)
        tree, branch = "", os.fsdecode(git.attempt("symbolic-ref", "--quiet", "HEAD").stdout).strip() if head else ""
    named = branch if branch.startswith("refs/") else None  # else HEAD is a commit
    places = map(Path, answers[1:])
    return Project(root, "copy" if mode == "copy" else "git", answers[0], head or None, named, tree or None, *places)


def _refuse_without_commit(git: Git) -> NoReturn:
    named = git.attempt("rev-parse", "--verify", "--quiet", "HEAD").stdout.decode().strip()
    if named:
        raise UnsupportedRepository(
            f"the commit {named} that HEAD names cannot be read in {git.cwd}", next_step="git fsck"
        )
    raise UnsupportedRepository(f"{git.cwd} has no commit yet", next_step="git add -A && git commit -m 'first commit'")
