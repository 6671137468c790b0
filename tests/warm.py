"""The program, imported once a worker: each call is a fork of it, so a process of its own that need not import again."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

_STREAMS = ("call", "stdin", "stdout", "stderr")


class Ended(NamedTuple):
    code: int
    stdout: bytes
    stderr: bytes


class Engine:
    """The program at work. It ends with this object at the latest."""

    def __init__(self, files: Sequence[BinaryIO], link: socket.socket) -> None:
        self._files = files
        self._link = link
        self._code: int | None = None
        self._turn = threading.Lock()
        # Not `__del__`: in a cycle of references, files and socket would be found open before it is called.
        weakref.finalize(self, _close, (link, *files))
        self.pid = int(link.recv(16))

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        with contextlib.suppress(BlockingIOError):
            return self.wait(0)
        return None

    def wait(self, timeout: float = 120) -> int:
        with self._turn:
            if self._code is None:
                self._link.settimeout(timeout)
                self._code = int(self._link.recv(16))
            return self._code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def ended(self, timeout: float = 120) -> Ended:
        """What it said, once it has nothing more to say."""
        code = self.wait(timeout)
        _, _, out, err = (_all_of(file) for file in self._files)
        return Ended(code, out, err)


def _close(held: Sequence[BinaryIO | socket.socket]) -> None:
    for item in held:
        item.close()


def start(cwd: Path, words: Sequence[str], env: Mapping[str, str], stdin: bytes = b"") -> Engine:
    files = [os.fdopen(os.memfd_create(name), "w+b") for name in _STREAMS]
    _fill(files[0], json.dumps({"cwd": str(cwd), "words": list(words), "env": dict(env)}).encode())
    _fill(files[1], stdin)
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with theirs:
        socket.send_fds(_server(), [b"."], [*(file.fileno() for file in files), theirs.fileno()])
    return Engine(files, ours)


def _fill(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.seek(0)


def _all_of(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


@functools.cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        server = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    atexit.register(server.wait)
    atexit.register(ours.close)  # which ends it, and is done first
    return ours


class _Call(NamedTuple):
    pid: int
    pidfd: int
    link: socket.socket


def _serve(control: socket.socket) -> list[str]:
    """Fork for every call. Only a fork returns, with the words it was called with."""
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not control:
                    _finish(selector, key.data)
                elif (words := _begin(selector, control)) is not None:
                    return words


def _begin(selector: selectors.BaseSelector, control: socket.socket) -> list[str] | None:
    _, fds, _, _ = socket.recv_fds(control, 1, 5)
    if not fds:
        sys.exit()
    *files, link = fds
    _look_at_the_system()
    pid = os.fork()
    if pid == 0:
        return _become(files)
    for file in files:
        os.close(file)
    one = _Call(pid, os.pidfd_open(pid), socket.socket(fileno=link))
    one.link.send(str(pid).encode())
    selector.register(one.pidfd, selectors.EVENT_READ, one)
    selector.register(one.link, selectors.EVENT_READ, one)
    return None


def _become(files: list[int]) -> list[str]:
    asked = json.loads(os.read(files[0], os.fstat(files[0]).st_size))
    for number, file in enumerate(files[1:]):
        os.dup2(file, number)
    os.chdir(asked["cwd"])
    if os.environ.get("PATH") != asked["env"].get("PATH"):
        _forget_tools()
    os.environ.clear()
    os.environ.update(asked["env"])
    words: list[str] = asked["words"]
    return words


def _finish(selector: selectors.BaseSelector, one: _Call) -> None:
    """It ended; or whoever called has gone, and then it must."""
    if not _ended(one.pidfd):
        os.kill(one.pid, signal.SIGKILL)
    _, status = os.waitpid(one.pid, 0)
    selector.unregister(one.pidfd)
    selector.unregister(one.link)
    os.close(one.pidfd)
    with one.link, contextlib.suppress(BrokenPipeError):
        one.link.send(str(os.waitstatus_to_exitcode(status)).encode())


def _ended(pidfd: int) -> bool:
    return os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _import_everything() -> Any:
    import reflectloop

    for found in pkgutil.walk_packages(reflectloop.__path__, "reflectloop."):
        if ".sample" not in found.name and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    _read_rules()
    _try_bubblewrap()
    _compile_patterns()
    never_wait_for_disks()
    gc.set_threshold(50_000)  # as `start.main` does
    gc.collect()
    gc.freeze()  # so that no fork goes through what it will never free
    return importlib.import_module("reflectloop.cli.main").main


def never_wait_for_disks() -> None:
    """Let files reach the disk later: tests kill processes, which lose nothing by it, and never cut the power."""
    os.fsync = os.fdatasync = lambda fd: None  # noqa: ARG005


def _read_rules() -> None:
    """Read and compile the built-in rules that most calls need."""
    from reflectloop.policy import active_rules
    from reflectloop.secrets import Detector
    from reflectloop.secrets.detector import builtin_rules

    Detector(builtin_rules()).scan(b'password = "x"\n')
    active_rules.default().in_workspace.judge("echo x > made.txt")


def _compile_patterns() -> None:
    """Compile all regular expressions once, which each call would do for those that it uses."""
    from reflectloop.system import patterns

    for item in gc.get_objects():
        if type(item) is patterns._LazyPattern:
            for name in ("search", "match", "fullmatch", "finditer", "findall", "split", "sub"):
                getattr(item, name)


def _try_bubblewrap() -> None:
    """Find out what bubblewrap can do here; a call with another PATH finds out for itself."""
    from reflectloop.system import bubblewrap

    for apart in (bubblewrap.Namespaces(), bubblewrap.Namespaces(own_user=True), bubblewrap.Namespaces(True, True)):
        bubblewrap.refusal(apart)
    bubblewrap.sizes()


def _forget_tools() -> None:
    from reflectloop.system import bubblewrap, executables

    for known in (*vars(bubblewrap).values(), *vars(executables).values()):
        if hasattr(known, "cache_clear"):
            known.cache_clear()


def _look_at_the_system() -> None:
    """Look for root's private files as an engine does that has run for a while: again after half a minute."""
    from reflectloop.sandbox import toolchains

    toolchains.from_others()


def _call(program: Any, words: list[str]) -> NoReturn:
    """Run the program and end as the interpreter does, but leave the memory to the kernel.

    Freeing the modules one by one would write to every page that a fork shares with us: more work than most calls.
    """
    code: Any = None
    try:
        program(words)
    except SystemExit as end:
        code = end.code
    if isinstance(code, str):
        sys.exit(code)  # which prints it
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed: there is nobody to tell
            stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    program = _import_everything()
    try:
        called_with = _serve(socket.socket(fileno=int(sys.argv[1])))
    except KeyboardInterrupt:  # ^C on the test run; the calls under way got it too
        sys.exit(130)
    _call(program, called_with)
