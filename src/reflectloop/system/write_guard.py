"""A shell that can write to one folder only, kept open so that a call through it costs no more than a fork.

git writes to what it only reads: where an object it is about to write exists in a borrowed folder, it sets
that file's time. Behind a shield that fails, and git writes a copy of its own instead.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from reflectloop.errors import SandboxCreateFailed
from reflectloop.system import bubblewrap, clock, executables, files, tree_walk
from reflectloop.system.process import CapturedOutput, Conversation

_PATIENCE_S = 5.0  # before asking whether a call is slow or will never end


class GitStuck(Exception):
    """git waits on a file that is none: a pipe where it reads its rules, say."""


def _stuck_on(root: Path) -> str | None:
    for folder in tree_walk.walk(root, passing=(OSError,)):
        for entry in folder.entries:
            if not (entry.is_dir(follow_symlinks=False) or entry.is_symlink() or entry.is_file()):
                return folder.within(entry.name)
    return None


class WriteGuard:
    def __init__(self, writable: Path) -> None:
        with files.room_for("what git is given to work with", writable):
            self._folder = tempfile.TemporaryDirectory(prefix="shield-", dir=writable)
        self._lock = threading.Lock()  # one conversation, several threads
        wall = bubblewrap.read_only_but(writable)
        self._shell = Conversation([*wall, executables.need("sh")], env={"PATH": executables.search_path()})

    def capture(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None,
        env: Mapping[str, str],
        stdin: bytes,
        timeout_s: float | None = None,
    ) -> CapturedOutput:
        """Like `process.capture`, behind the shield; after a timeout it serves no more."""
        until = None if timeout_s is None else clock.monotonic() + timeout_s
        with self._lock:
            return self._capture(argv, cwd, env, stdin, until)

    def _capture(
        self, argv: Sequence[str], cwd: Path | None, env: Mapping[str, str], stdin: bytes, until: float | None
    ) -> CapturedOutput:
        given, out, said = (Path(self._folder.name) / name for name in ("in", "out", "err"))
        given.write_bytes(stdin)
        words = [f"{key}={shlex.quote(value)}" for key, value in env.items()] + [shlex.quote(word) for word in argv]
        place = f"cd {shlex.quote(os.fspath(cwd))} && " if cwd else ""
        line = f"{place}{' '.join(words)} <{_quoted(given)} >{_quoted(out)} 2>{_quoted(said)}; echo $?\n"
        self._shell.ask(os.fsencode(line))
        while (answer := self._shell.answer(_patience(until))) is None:
            if until is not None and clock.monotonic() >= until:
                self._shell.kill()
                raise TimeoutError(" ".join(argv[:2]))
            if cwd and (name := _stuck_on(cwd)):
                self._shell.kill()
                raise GitStuck(name)
        if not answer.strip().isdigit():
            raise SandboxCreateFailed("the shielded shell ended unexpectedly")
        return CapturedOutput(int(answer), out.read_bytes(), said.read_bytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._shell.close()
        self._folder.cleanup()


def _patience(until: float | None) -> float:
    return _PATIENCE_S if until is None else max(0.0, min(_PATIENCE_S, until - clock.monotonic()))


def _quoted(path: Path) -> str:
    return shlex.quote(os.fspath(path))


def raise_shield(writable: Path) -> WriteGuard | None:
    """None where bubblewrap does not work: calls then go the plain way."""
    return WriteGuard(writable) if bubblewrap.refusal() is None else None
