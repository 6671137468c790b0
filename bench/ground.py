"""The temporary folders a run of the benchmarks works in, with a HOME and repositories of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import machine, repository

_GITCONFIG = """\
[user]
	name = bench
	email = bench@localhost
[init]
	defaultBranch = main
[gc]
	auto = 0
[advice]
	detachedHead = false
"""


MEMORY = Path("/dev/shm")
_ROOM = 4 << 30  # two copies of the largest repository, with some to spare


@dataclass
class Ground:
    disk: Path
    memory: Path  # a memory file system, where there is one with room enough; else the disk
    quick: bool
    _repositories: dict[int, Path] = field(default_factory=dict)

    def repository(self, files: int) -> Path:
        """A packed repository on the disk with so many files, made once a run; leave it as it was."""
        if files not in self._repositories:
            path = self.disk / f"repository-{files}"
            repository.make(path, files)
            self._repositories[files] = path
        return self._repositories[files]

    def medium(self, folder: Path) -> str:
        return machine.file_system(folder)


@contextmanager
def prepared(*, quick: bool) -> Iterator[Ground]:
    kept = dict(os.environ)
    with _folder(None) as disk, _folder(_memory()) as memory:
        _take_over(disk / "home")
        try:
            yield Ground(disk, memory, quick)
        finally:
            os.environ.clear()
            os.environ.update(kept)


@contextmanager
def _folder(place: Path | None) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="reflectloop-bench-", dir=place)).resolve()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _memory() -> Path | None:
    fits = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > _ROOM
    return MEMORY if fits else None


def _take_over(home: Path) -> None:
    """From here on neither git nor the engine sees anything of the user's own settings."""
    home.mkdir()
    (home / ".gitconfig").write_text(_GITCONFIG)
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        del os.environ[name]
    os.environ |= {"HOME": os.fspath(home), "GIT_CONFIG_NOSYSTEM": "1"}


def git(*words: str, cwd: Path) -> bytes:
    """Git as a user would call it."""
    return subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True).stdout
