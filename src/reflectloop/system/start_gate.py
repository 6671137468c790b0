"""Blocks a command at its start: its first program waits for the engine's permission, and ends without it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence

from reflectloop.system import executables, process

_SHELL = "/bin/sh"
_GO = b"go\n"
NAME = "start"  # the name of the waiting shell in its error messages; commands can see it
_FROM_STDIN = 'echo >&0; read -r go || exit 125; exec "$@" </dev/null'
_FROM_NUMBER = 'echo >&{0}; read -r go <&{0} || exit 125; exec {0}>&-; exec "$@"'


class Door:
    """Blocks one command. If the engine dies, its end of the socket closes, which stops the command."""

    def __init__(self, stdin: int = process.NOTHING) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._command_stdin = stdin

    @property
    def _at_stdin(self) -> bool:
        return self._command_stdin == process.NOTHING

    @property
    def stdin(self) -> int:
        """Return the descriptor for the process's standard input."""
        return self._theirs.fileno() if self._at_stdin else self._command_stdin

    @property
    def inherited(self) -> tuple[int, ...]:
        """Return the additional descriptors that the process must inherit."""
        return () if self._at_stdin else (self._theirs.fileno(),)

    def before(self, argv: Sequence[str]) -> list[str]:
        """Return `argv` with the waiting shell in front."""
        if self._at_stdin:
            return [_SHELL if os.path.exists(_SHELL) else executables.need("sh"), "-c", _FROM_STDIN, NAME, *argv]
        # Only bash supports descriptors above 9; -p prevents it from running BASH_ENV.
        return [executables.need("bash"), "-p", "-c", _FROM_NUMBER.format(self._theirs.fileno()), NAME, *argv]

    def started(self) -> None:
        """Close the other end, which the command has inherited."""
        self._theirs.close()

    def wait(self, timeout_s: float) -> bool:
        """Return True if the first program is waiting; False if it ended or the time is over."""
        self._ours.settimeout(timeout_s)
        with contextlib.suppress(ConnectionResetError, TimeoutError):
            return bool(self._ours.recv(1))
        return False

    def open(self) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._ours.send(_GO, socket.MSG_NOSIGNAL)

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()
