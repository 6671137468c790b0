"""Runs first inside a sandbox with a separate network, then becomes the program. Standard library only.

It listens on ports of the sandbox's loopback and sends the listening sockets to the engine, which answers there.
No process of ours stays in the sandbox: the program takes over this process, its signals and its exit code.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

_LOOPBACKS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_BACKLOG = 128
_MOST_DESCRIPTORS = 1 << 10
_NOT_FOUND, _NOT_RUNNABLE, _NO_PORT = 127, 126, 125


def listen(port: int) -> list[socket.socket]:
    """Return a listening socket for each loopback address of this machine."""
    listeners = []
    for family, address in _LOOPBACKS:
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((address, port))
            listener.listen(_BACKLOG)
        except OSError:
            if family == socket.AF_INET:
                raise
            continue  # many machines have no IPv6
        listeners.append(listener)
    return listeners


def main(control: int, ports: list[int], program: list[str]) -> None:
    """Open the ports, send them to the engine, and execute the program."""
    try:
        listeners = [listener for port in ports for listener in listen(port)]
        with socket.socket(fileno=control) as engine:
            socket.send_fds(engine, [b"."], [listener.fileno() for listener in listeners])
    except OSError as fault:
        sys.stderr.write(f"the connection to the model could not be set up: {fault.strerror}\n")
        sys.exit(_NO_PORT)
    os.closerange(3, _MOST_DESCRIPTORS)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by this interpreter; the program would inherit that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)  # noqa: S606 - without a shell
    except OSError as fault:
        sys.stderr.write(f"{program[0][:200]}: {fault.strerror}\n")
        sys.exit(_NOT_FOUND if isinstance(fault, FileNotFoundError) else _NOT_RUNNABLE)


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(port) for port in sys.argv[2].split(",")], sys.argv[3:])
