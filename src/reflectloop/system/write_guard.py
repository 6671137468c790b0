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
_START_S = 60.0  # for the shell to stand in its mounts, on a loaded machine
_GREETING = b"ready"


def _stuck_on(root: Path) -> str | None:
    for folder in tree_walk.walk(root, passing=(OSError,)):
        for entry in folder.entries:
            if not (entry.is_dir(follow_symlinks=False) or entry.is_symlink() or entry.is_file()):
                return folder.within(entry.name)
    return None


class WriteGuard:
    """Its shell starts at the first call: most steps of a run change nothing, and need none."""

    def __init__(self, writable: Path) -> None:
        self._writable = writable
        self._lock = threading.Lock()  # several threads share the shell
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._shell: Conversation | None = None
        self._starter = threading.current_thread()

    def _started(self) -> tuple[Path, Conversation]:
        """Return the folder for what the shell reads and writes, and the shell, with the lock held."""
        if self._folder is None:
            with files.room_for("what git is given to work with", self._writable):
                self._folder = tempfile.TemporaryDirectory(prefix="shield-", dir=self._writable)
        if not self._starter.is_alive():  # the kernel ends the shell with the thread that started it
            self._end()
        if self._shell is None:
            self._starter = threading.current_thread()
            self._shell = self._start()
        return Path(self._folder.name), self._shell

    def _start(self) -> Conversation:
        wall = bubblewrap.read_only_but(self._writable)
        with overlay.alone():
            shell = Conversation([*wall, executables.need("sh")], env={"PATH": executables.search_path()})
            if overlay.is_used():
                shell.ask(b"echo " + _GREETING + b"\n")
                if (shell.answer(_START_S) or b"").strip() != _GREETING:  # else it has its mounts
                    shell.kill()
                    shell.close()
                    raise SandboxCreateFailed(f"the guarded shell did not start within {_START_S:.0f} s")
        return shell

    def restart(self) -> None:
        """Let the next call start the shell again, so that it sees what was mounted since."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._shell:
            self._shell.close()
            self._shell = None

    def _kill(self) -> None:
        """End a shell of which no more answers can be read in their order."""
        if self._shell:
            self._shell.kill()
        self._end()

    def capture(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None,
        env: Mapping[str, str],
        stdin: bytes,
        timeout_s: float | None = None,
    ) -> CapturedOutput:
        """Run a command like `process.capture`, under the guard; after a timeout the shell is started again."""
        until = None if timeout_s is None else clock.monotonic() + timeout_s
        with self._lock:
            return self._capture(argv, cwd, env, stdin, until)

    def _capture(
        self, argv: Sequence[str], cwd: Path | None, env: Mapping[str, str], stdin: bytes, until: float | None
    ) -> CapturedOutput:
        folder, shell = self._started()
        stdin_file, out, stderr_file = (folder / name for name in ("in", "out", "err"))
        stdin_file.write_bytes(stdin)
        command = [f"{key}={shlex.quote(value)}" for key, value in env.items()] + [
            shlex.quote(argument) for argument in argv
        ]
        place = f"cd {shlex.quote(os.fspath(cwd))} && " if cwd else ""
        line = f"{place}{' '.join(command)} <{_quoted(stdin_file)} >{_quoted(out)} 2>{_quoted(stderr_file)}; echo $?\n"
        shell.ask(os.fsencode(line))
        while (answer := shell.answer(_wait_s(until))) is None:
            if until is not None and clock.monotonic() >= until:
                self._kill()
                raise TimeoutError(" ".join(argv[:2]))
            if cwd and (name := _stuck_on(cwd)):
                self._kill()
                raise GitStuck(name)
        if not answer.strip().isdigit():
            self._kill()
            raise SandboxCreateFailed("the guarded shell ended unexpectedly")
        return CapturedOutput(int(answer), out.read_bytes(), stderr_file.read_bytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._end()
        if self._folder:
            self._folder.cleanup()
            self._folder = None


def _wait_s(until: float | None) -> float:
    return _PATIENCE_S if until is None else max(0.0, min(_PATIENCE_S, until - clock.monotonic()))


def _quoted(path: Path) -> str:
    return shlex.quote(os.fspath(path))


def start_write_guard(writable: Path) -> WriteGuard | None:
    """Return a write guard, or None if bubblewrap does not work; git then runs without it."""
    return WriteGuard(writable) if bubblewrap.refusal() is None else None
