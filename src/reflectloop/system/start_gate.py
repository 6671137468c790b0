"""The door every command starts behind: its first program waits for the engine's word, and ends if there is none."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence

from reflectloop.system import executables, process

_SHELL = "/bin/sh"
_GO = b"go\n"
NAME = "reflectloop"  # what the waiting shell calls itself when it cannot start the command
_FROM_STDIN = 'echo >&0; read -r go || exit 125; exec "$@" </dev/null'
_FROM_NUMBER = 'echo >&{0}; read -r go <&{0} || exit 125; exec {0}>&-; exec "$@"'


class Door:
    """Holds one command back. When the engine dies, what it held open closes, and that means stop, never go."""

    def __init__(self, stdin: int = process.NOTHING) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._command_stdin = stdin

    @property
    def _at_stdin(self) -> bool:
        return self._command_stdin == process.NOTHING

    @property
    def stdin(self) -> int:
        """The descriptor to give the process as its standard input."""
        return self._theirs.fileno() if self._at_stdin else self._command_stdin

    @property
    def inherited(self) -> tuple[int, ...]:
        """Descriptors the process needs besides."""
        return () if self._at_stdin else (self._theirs.fileno(),)

    def before(self, argv: Sequence[str]) -> list[str]:
        """Return `argv` behind the door: it begins when the door opens."""
        if self._at_stdin:
            return [_SHELL if os.path.exists(_SHELL) else executables.need("sh"), "-c", _FROM_STDIN, NAME, *argv]
        # Only bash knows descriptors above 9; -p keeps it from running what BASH_ENV names.
        return [executables.need("bash"), "-p", "-c", _FROM_NUMBER.format(self._theirs.fileno()), NAME, *argv]

    def started(self) -> None:
        """Give up the other end: it belongs to the command now."""
        self._theirs.close()

    def wait(self, timeout_s: float) -> bool:
        """Return whether the first program stands at the door; it may have ended, or not come in time."""
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
