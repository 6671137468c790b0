"""The only module that calls git. No content of a working tree can make these calls run another program."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from reflectloop.errors import NoSpace, SandboxCreateFailed
from reflectloop.system import clock, executables, files, process

if TYPE_CHECKING:  # it loads the sandbox, and most calls of git need none
    from reflectloop.system.write_guard import WriteGuard

MINIMUM = (2, 38)  # `git merge-tree --write-tree`

# Command-line configuration overrides every file, and git passes it to its child processes.
_SAFE = (
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.untrackedCache=false"),
    *("-c", "safe.bareRepository=explicit"),  # a clone can contain a folder that looks like a bare repository
)
_OPTIONS_OF = {"write-tree": ("-c", "core.looseCompression=0")}  # a tree is mostly hashes, which cannot be compressed
_FULL_DISK = (b"No space left on device", b"Read-only file system", b"Disk quota exceeded", b"unable to write file")


class GitFailed(Exception):
    """A git command failed; the caller knows what that means."""

    def __init__(self, argv: Sequence[str], code: int, stderr: bytes) -> None:
        self.stderr = stderr.decode("utf-8", "replace").strip()
        super().__init__(f"git {' '.join(argv)} exited {code}: {self.stderr}")


class GitStuck(Exception):
    """git is blocked by a special file, such as a pipe in the place of .gitignore."""


@contextlib.contextmanager
def room_left(path: Path) -> Iterator[None]:
    """Turn a full disk into NO_SPACE, also if git failed because of it."""
    try:
        with files.room_left(path):
            yield
    except GitFailed as fault:
        if files.is_full(path):
            raise NoSpace(f"git cannot write below {path}: the disk is full") from fault
        raise


def _base_environment() -> dict[str, str]:
    return {
        "PATH": executables.search_path(),
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",  # do not rewrite the user's index while reading
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        # git frees memory after each object, and the C library would give it back and ask for it again each time.
        "MALLOC_TRIM_THRESHOLD_": "134217728",
        "MALLOC_TOP_PAD_": "4194304",
    }


def _quoted(path: Path) -> str:
    """Quote a path for git's lists of paths, which colons separate."""
    text = os.fspath(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _tied(argv: list[str]) -> list[str]:
    from reflectloop.system import bubblewrap  # noqa: PLC0415 - loads the sandbox

    return bubblewrap.with_die_with_parent(argv)


class Git(NamedTuple):
    """One repository. With `git_dir` the caller's git configuration is ignored."""

    git_dir: Path | None = None
    work_tree: Path | None = None
    index_file: Path | None = None
    objects: Path | None = None  # the folder for new objects instead of the repository's
    cwd: Path | None = None
    tied: bool = False  # end git when the engine ends
    shield: WriteGuard | None = None  # restricts git's writes to one folder
    until: float | None = None  # deadline on the monotonic clock; then TimeoutError

    def _environment(self) -> dict[str, str]:
        env = _base_environment()
        if self.git_dir is None:
            # The user's repository: their settings decide what git may open and who commits.
            names = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")
            return env | {key: os.environ[key] for key in names if key in os.environ}
        env |= {
            "GIT_DIR": os.fspath(self.git_dir),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
        }
        if self.work_tree:
            env["GIT_WORK_TREE"] = os.fspath(self.work_tree)
        if self.index_file:
            env["GIT_INDEX_FILE"] = os.fspath(self.index_file)
        if self.objects:
            env["GIT_OBJECT_DIRECTORY"] = os.fspath(self.objects)
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = _quoted(self.git_dir / "objects")
        return env

    def _argv(self, args: Sequence[str]) -> list[str]:
        try:
            return [executables.need("git"), *_SAFE, *_OPTIONS_OF.get(args[0], ()), *args]
        except FileNotFoundError as fault:
            raise SandboxCreateFailed(
                "git is not installed", next_step="apt-get install git", missing=("git",)
            ) from fault

    def run(self, *args: str, stdin: bytes = b"") -> bytes:
        done = self.attempt(*args, stdin=stdin)
        if done.code:
            self.refuse(args, done)
        return done.stdout

    def attempt(self, *args: str, stdin: bytes = b"") -> process.CapturedOutput:
        cwd = self.cwd or self.work_tree
        left = self.time_left(f"git {args[0]}")
        if self.shield:
            return self.shield.capture(self._argv(args), cwd=cwd, env=self._environment(), stdin=stdin, timeout_s=left)
        if cwd and not cwd.is_dir():
            raise SandboxCreateFailed(f"{cwd} no longer exists")
        argv = _tied(self._argv(args)) if self.tied else self._argv(args)
        return process.capture(argv, cwd=cwd, env=self._environment(), stdin=stdin, timeout_s=left)

    def time_left(self, what: str) -> float | None:
        """Return the remaining seconds, or raise TimeoutError with the name of the call."""
        left = None if self.until is None else self.until - clock.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError(what)
        return left

    def stream(self, on_chunk: Callable[[bytes], None], *args: str) -> None:
        """Run git and pass its output on as it arrives."""
        done = process.stream(self._argv(args), on_chunk, cwd=self.cwd, env=self._environment())
        if done.code:
            self.refuse(args, done)

    def line(self, *args: str) -> str:
        return os.fsdecode(self.run(*args)).strip("\n")

    def refuse(self, args: Sequence[str], done: process.CapturedOutput) -> NoReturn:
        """Raise NoSpace or GitFailed for a failed call."""
        if any(sign in done.stderr for sign in _FULL_DISK):
            where = self.git_dir or self.work_tree or self.cwd
            raise NoSpace(f"git could not write at {where}: {done.stderr.decode('utf-8', 'replace').strip()}")
        raise GitFailed(args, done.code, done.stderr)


def version() -> tuple[int, ...]:
    text = Git().line("--version").split()[2]
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


def paths(listing: bytes) -> list[bytes]:
    """Return the names in a NUL-terminated listing."""
    return [name for name in listing.split(b"\0") if name]
