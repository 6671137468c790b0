"""A shell that can write to one folder only, kept open so that each call costs only a fork.

git changes repositories that it only reads: if an object it wants to write exists in a borrowed folder, it updates
that file's time. Under the write guard that fails, and git writes its own copy instead.
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
from reflectloop.system import bubblewrap, clock, executables, files, overlay, tree_walk
from reflectloop.system.git import GitStuck
from reflectloop.system.process import CapturedOutput, Conversation

_PATIENCE_S = 5.0  # before checking whether a call is slow or stuck


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
        self._lock = threading.Lock()  # several threads share the shell
        self._writable = writable
        self._shell = self._start()

    def _start(self) -> Conversation:
        wall = bubblewrap.read_only_but(self._writable)
        with overlay.alone():
            shell = Conversation([*wall, executables.need("sh")], env={"PATH": executables.search_path()})
            if overlay.is_used():
                shell.ask(b"echo\n")
                shell.answer(_PATIENCE_S)  # then it has its mounts
        return shell

    def restart(self) -> None:
        """Start the shell again, so that it sees what was mounted since."""
        with self._lock:
            self._shell.close()
            self._shell = self._start()

    def capture(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None,
        env: Mapping[str, str],
        stdin: bytes,
        timeout_s: float | None = None,
    ) -> CapturedOutput:
        """Run a command like `process.capture`, under the guard; after a timeout the guard is unusable."""
        until = None if timeout_s is None else clock.monotonic() + timeout_s
        with self._lock:
            return self._capture(argv, cwd, env, stdin, until)

    def _capture(
        self, argv: Sequence[str], cwd: Path | None, env: Mapping[str, str], stdin: bytes, until: float | None
    ) -> CapturedOutput:
        stdin_file, out, stderr_file = (Path(self._folder.name) / name for name in ("in", "out", "err"))
        stdin_file.write_bytes(stdin)
        command = [f"{key}={shlex.quote(value)}" for key, value in env.items()] + [
            shlex.quote(argument) for argument in argv
        ]
        place = f"cd {shlex.quote(os.fspath(cwd))} && " if cwd else ""
        line = f"{place}{' '.join(command)} <{_quoted(stdin_file)} >{_quoted(out)} 2>{_quoted(stderr_file)}; echo $?\n"
        self._shell.ask(os.fsencode(line))
        while (answer := self._shell.answer(_wait_s(until))) is None:
            if until is not None and clock.monotonic() >= until:
                self._shell.kill()
                raise TimeoutError(" ".join(argv[:2]))
            if cwd and (name := _stuck_on(cwd)):
                self._shell.kill()
                raise GitStuck(name)
        if not answer.strip().isdigit():
            raise SandboxCreateFailed("the guarded shell ended unexpectedly")
        return CapturedOutput(int(answer), out.read_bytes(), stderr_file.read_bytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._shell.close()
        self._folder.cleanup()


def _wait_s(until: float | None) -> float:
    return _PATIENCE_S if until is None else max(0.0, min(_PATIENCE_S, until - clock.monotonic()))


def _quoted(path: Path) -> str:
    return shlex.quote(os.fspath(path))


def start_write_guard(writable: Path) -> WriteGuard | None:
    """Start a write guard, or return None if bubblewrap does not work; git then runs without it."""
    return WriteGuard(writable) if bubblewrap.refusal() is None else None
