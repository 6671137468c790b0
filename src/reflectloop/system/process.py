"""The only module that starts, supervises and ends processes."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from reflectloop.system import executables
from reflectloop.system.undo import on_failure

NOTHING = subprocess.DEVNULL  # an empty standard input
READ_SIZE = 1 << 18
_PIPE_SIZE = 1 << 20
_F_SETPIPE_SZ = 1031
_PR_SET_CHILD_SUBREAPER = 36
_live: set[int] = set()  # running commands, to tell them from orphans
_births = threading.Lock()  # a new command is our child shortly before it is in _live
_own: set[int] = set()  # our tools in their own sessions, which are not orphans
_LOOK_S = 0.1  # between two checks of a command's resources
_DEATH_MS = 10_000  # how long a killed process is waited for
_LINGER_S = 1.0  # maximum time to read pipes that orphans keep open after the command ended

OnOutput = Callable[[str, bytes], None]
Started = subprocess.Popen[bytes]
Start = Callable[[], Started]


class CapturedOutput(NamedTuple):
    code: int
    stdout: bytes
    stderr: bytes


class ProcessEnd(NamedTuple):
    """The end of a supervised command. `code` is the exit code as a shell reports it: 128+N for signal N."""

    code: int
    timed_out: bool
    duration_s: float
    idle: bool = False
    cancelled: bool = False
    over: bool = False  # ended because of a resource limit


class Timeouts(NamedTuple):
    """The time limits of a command: in total, while idle, and after it was asked to stop."""

    timeout_s: float
    grace_s: float
    idle_s: float | None = None
    stirred: Callable[[], bool] = lambda: False  # returns True if other signs show activity
    # Returns True if these processes and their children exceed a limit; called repeatedly.
    over: Callable[[list[int]], bool] | None = None


class Cancel:
    """A signal from another thread to end commands."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()

    def set(self) -> None:
        os.write(self._writer, b"x")

    @property
    def is_set(self) -> bool:
        return bool(select.select([self.reader], [], [], 0)[0])

    def close(self) -> None:
        os.close(self.reader)
        os.close(self._writer)


def capture(
    argv: Sequence[str | bytes],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout_s: float | None = None,
) -> CapturedOutput:
    """Run a trusted tool and return its output; raise TimeoutError if it takes too long."""
    try:
        done = subprocess.run(argv, cwd=cwd, env=env, input=stdin, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as fault:
        raise TimeoutError(f"{argv[0]!r} took longer than {timeout_s} s") from fault
    return CapturedOutput(done.returncode, done.stdout, done.stderr)


def stream(
    argv: Sequence[str], on_chunk: Callable[[bytes], None], *, cwd: Path | None, env: Mapping[str, str]
) -> CapturedOutput:
    """Run a trusted tool and pass its output on as it arrives."""
    with os.fdopen(os.memfd_create("errors"), "w+b") as errors:
        with subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as process:
            output = _pipe(process.stdout)
            with on_failure(process.kill):
                while chunk := output.read(READ_SIZE):
                    on_chunk(chunk)
        errors.seek(0)
        return CapturedOutput(process.returncode, b"", errors.read())


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    """Return a stream of a process that was started with a pipe for it."""
    if stream is None:
        raise ValueError("the process was started without this pipe")
    return stream


class Conversation:
    """A trusted tool that answers each line of input with one line of output."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str]) -> None:
        with _births:
            self._process = subprocess.Popen(
                argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, bufsize=0
            )
            _own.add(self._process.pid)
        self._input, self._output = _pipe(self._process.stdin), _pipe(self._process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._input.write(line)

    def answer(self, timeout_s: float) -> bytes | None:
        """Return the next line, b"" if the tool has ended, or None after the timeout."""
        if not select.select([self._output], [], [], timeout_s)[0]:
            return None
        return self._output.readline()

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._input.close()
        self._output.close()
        self._process.wait()
        _own.discard(self._process.pid)

    def kill(self) -> None:
        for pid in [*descendants(self._process.pid), self._process.pid]:
            _signal(pid, signal.SIGKILL)


_detached: list[subprocess.Popen[bytes]] = []


def detach(argv: Sequence[str], output: Path | None = None, content: bytes = b"", given: int | None = None) -> int:
    """Start a trusted tool that may outlive us, without access to our streams, and return its process id.

    `output` is a file for what it prints. Its standard input is `content`, which is never on disk, or the open
    descriptor `given`, which is closed here.
    """
    # A long-running engine would collect zombies otherwise.
    _detached[:] = [child for child in _detached if child.poll() is None]
    if given is None:
        given = os.memfd_create("content")
        os.write(given, content)
        os.lseek(given, 0, os.SEEK_SET)
    try:
        with open(output or os.devnull, "wb") as printed:
            null = subprocess.DEVNULL
            child = subprocess.Popen(argv, stdin=given, stdout=printed, stderr=null, start_new_session=True, cwd="/")
    finally:
        os.close(given)
    _detached.append(child)
    return child.pid


def has_ended(pid: int) -> bool:
    """Return True if a process that we detached, or any other, is gone."""
    for child in _detached:
        if child.pid == pid:
            return child.poll() is not None
    return not Path(f"/proc/{pid}").exists()


def is_alive(pid: int, start: int) -> bool:
    """Return True if the process that began at `start` still runs; one that only waits to be collected does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return False
    return int(fields[19]) == start and fields[0] not in (b"Z", b"X")


def end_detached(pid: int, start: int, grace_s: float) -> None:
    """Ask a detached tool to stop and clean up; kill it with its descendants if it does not in time."""
    if not is_alive(pid, start):
        return
    _signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while is_alive(pid, start) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    if is_alive(pid, start):
        for member in (*descendants(pid), pid):
            _signal(member, signal.SIGKILL)


def with_parent_death_signal(argv: list[str]) -> list[str]:
    """Return the command so that it dies with the engine, if setpriv is installed; for use without a namespace."""
    setpriv = executables.find("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--", *argv] if setpriv else argv


def interactive(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    pass_fds: Sequence[int] = (),
    begun: Callable[[], None] = lambda: None,
    start: Callable[[Start], Started] = lambda start: start(),
) -> int:
    """Run a command on the terminal and wait for it. `begun` is called once it has started."""
    with start(lambda: subprocess.Popen(argv, cwd=cwd, env=env, pass_fds=pass_fds)) as process:
        begun()
        return process.wait()


def find(name: str, *, path: str, cwd: Path) -> str | None:
    """Return the path of the program `name` for a command in `cwd` with this PATH, or None."""
    if "/" in name:
        target = cwd / name
        return os.fspath(target) if target.is_file() and os.access(target, os.X_OK) else None
    return executables.find_in(path, name)


def start_time(pid: int) -> int:
    """Return the start time of a process in ticks since boot, or 0. With it, a reused pid is recognised."""
    return _stat(pid, 19)


def foreground_commands(pid: int) -> list[list[str]]:
    """Return the command lines of the processes in the foreground of this process's terminal."""
    group = _stat(pid, 5)
    members = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    commands = []
    for member in members if group else []:
        if _stat(member, 2) == group:
            with contextlib.suppress(OSError), open(f"/proc/{member}/cmdline", "rb") as file:
                commands.append(file.read().decode("utf-8", "replace").split("\0"))
    return commands


def _stat(pid: int, field: int) -> int:
    """Return a number of a process by its place after the name in /proc, or 0."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rsplit(b")", 1)[1].split()[field])
    except (OSError, ValueError, IndexError):
        return 0


def descendants(pid: int) -> list[int]:
    """Return all living descendants of a process, nearest first."""
    pids: list[int] = []
    queue = [pid]
    while queue:
        parent = queue.pop(0)
        for child in _children(parent):
            pids.append(child)
            queue.append(child)
    return pids


def _children(pid: int) -> list[int]:
    children: list[int] = []
    gone = contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError)
    with gone:
        for thread in os.listdir(f"/proc/{pid}/task"):  # each lists its own children only, and may end meanwhile
            with gone, open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                children += [int(word) for word in file.read().split()]
    return children


def find_by_marker(marker: str) -> list[int]:
    """Return the processes with `marker` in their environment, whoever their parent is."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and _carries(pid, marker)]


def kill_by_marker(marker: str) -> int:
    """Kill every process with `marker`, repeatedly until none is left; return their number."""
    count = 0
    for _ in range(100):
        pids = find_by_marker(marker)
        if not pids:
            break
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        count += len(pids)
        time.sleep(0.01)
    return count


def _carries(pid: int, marker: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return marker.encode() in file.read().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def adopt_orphans() -> None:
    """Become the parent of every process that a command leaves behind, to find and end it."""
    import ctypes  # noqa: PLC0415 - only needed where commands run

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _orphans(marker: str) -> list[int]:
    """Return orphaned children. One without the marker belongs to this command if no other is running."""
    strays = [pid for pid in _children(os.getpid()) if pid not in _live | _own and _in_another_session(pid)]
    return [pid for pid in strays if not _live or _carries(pid, marker)]


def _in_another_session(pid: int) -> bool:
    """Return True if a process is in another session, as every command is; the engine's tools are not."""
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid) != os.getsid(0)
    return False


def _end_orphans(marker: str) -> None:
    for _ in range(100):  # repeat until none is left, because they may fork
        with _births:
            strays = _orphans(marker)
            for pid in strays:
                for below in [*descendants(pid), pid]:
                    _signal(below, signal.SIGKILL)
        if not strays:
            return
        for pid in strays:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _reap(session: int) -> None:
    """Wait for the first process of a namespace, which is ours once bubblewrap has ended.

    Until somebody has waited for it, it counts against the limits of its control group.
    """
    for pid in _children(os.getpid()):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if os.getsid(pid) == session:
                _wait_for(pid)


def _wait_for(pid: int) -> None:
    """Wait for a child that was killed, though not without end: one that hangs in the kernel may never go."""
    ended = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.poll(_DEATH_MS)
        os.waitpid(pid, os.WNOHANG)
    finally:
        os.close(ended)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


class SupervisedProcess:
    """One untrusted command: its output is read as it arrives, and it ends with all its children."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        on_output: OnOutput,
        merge: bool = True,
        namespaced: bool = False,
        marker: str = "",
        pass_fds: Sequence[int] = (),
        cancel: Cancel | None = None,
        start: Callable[[Start], Started] = lambda start: start(),
        stdin: int = NOTHING,
    ) -> None:
        self._on_output = on_output
        self._cancel = cancel
        self._stop: str | None = None
        self._last_sign = time.monotonic()
        self._used = 0
        self._namespaced = namespaced
        self._marker = marker
        self._started = time.monotonic()
        with _births:
            self._process = start(
                lambda: subprocess.Popen(
                    argv,
                    cwd=cwd,
                    env=env,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT if merge else subprocess.PIPE,
                    start_new_session=True,
                    pass_fds=pass_fds,
                    bufsize=0,
                )
            )
            _live.add(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, timeouts: Timeouts) -> ProcessEnd:
        """Read output until the command ends or must end, then end its remaining processes."""
        try:
            try:
                if not self._read_until(self._started + timeouts.timeout_s, timeouts):
                    self._stop = self._stop or "timeout"
                    if self._stop != "over":
                        self._ask_to_stop()
                        self._read_until(time.monotonic() + timeouts.grace_s)
            finally:
                self._end()
            self._drain()
        finally:  # the receiver of the output may have raised
            for stream in self._streams().values():
                stream.close()
        code = self._process.returncode
        return ProcessEnd(
            128 - code if code < 0 else code,
            self._stop == "timeout",
            time.monotonic() - self._started,
            idle=self._stop == "idle",
            cancelled=self._stop == "cancel",
            over=self._stop == "over",
        )

    def _streams(self) -> dict[str, IO[bytes]]:
        named = {"stdout": self._process.stdout, "stderr": self._process.stderr}
        return {name: stream for name, stream in named.items() if stream and not stream.closed}

    def _read_until(self, deadline: float, timeouts: Timeouts | None = None) -> bool:
        """Pass output on until the command exits (True), or the deadline, idleness or a cancel occurs (False)."""
        ended = os.pidfd_open(self._process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(ended, selectors.EVENT_READ, "ended")
                if timeouts and self._cancel:
                    selector.register(self._cancel.reader, selectors.EVENT_READ, "cancel")
                for name, stream in self._streams().items():
                    with contextlib.suppress(OSError):
                        _widen(stream)
                    selector.register(stream, selectors.EVENT_READ, name)
                while (left := deadline - time.monotonic()) > 0:
                    for key, _ in selector.select(min(left, self._until_look(timeouts))):
                        if key.data == "ended":
                            return True
                        if key.data == "cancel":
                            self._stop = "cancel"
                            return False
                        self._pass_on(selector, key)
                    if timeouts and timeouts.over and timeouts.over(self._branches()):
                        self._stop = "over"
                        return False
                    if self._is_idle(timeouts):
                        self._stop = "idle"
                        return False
        finally:
            os.close(ended)
        return self._process.poll() is not None

    def _branches(self) -> list[int]:
        """Return the roots of the command's process trees: the command itself and its orphans."""
        return [self._process.pid, *([] if self._namespaced else _orphans(self._marker))]

    def _until_look(self, timeouts: Timeouts | None) -> float:
        if timeouts and timeouts.over:
            return _LOOK_S
        if timeouts is None or timeouts.idle_s is None:
            return float("inf")
        return max(0.05, self._last_sign + timeouts.idle_s - time.monotonic())

    def _is_idle(self, timeouts: Timeouts | None) -> bool:
        """Return True if there was no output for the idle time, and no processor time or other activity since."""
        if timeouts is None or timeouts.idle_s is None or time.monotonic() < self._last_sign + timeouts.idle_s:
            return False
        used = _processor_time(self._process.pid)
        at_work = used > self._used or timeouts.stirred()
        self._used = used
        self._last_sign = time.monotonic()
        return not at_work

    def _pass_on(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        chunk = os.read(key.fd, READ_SIZE)
        if chunk:
            self._last_sign = time.monotonic()
            self._on_output(key.data, chunk)
        else:
            selector.unregister(key.fileobj)

    def _ask_to_stop(self) -> None:
        # In a pid namespace the outer process is bubblewrap, which must survive the grace period.
        targets = descendants(self._process.pid)
        if not self._namespaced:
            targets.append(self._process.pid)
        for pid in targets:
            _signal(pid, signal.SIGTERM)

    def _end(self) -> None:
        if self._process.poll() is None:
            # The namespace's init first: everything inside dies with it, and nothing new can start.
            for pid in [*descendants(self._process.pid), self._process.pid]:
                _signal(pid, signal.SIGKILL)
        if not self._namespaced:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        _live.discard(self._process.pid)
        if self._namespaced:
            _reap(self._process.pid)
        else:
            _end_orphans(self._marker)

    def _drain(self) -> None:
        """Read the rest of the pipes, without waiting long for orphans that keep them open."""
        deadline = time.monotonic() + _LINGER_S
        for name, stream in self._streams().items():
            os.set_blocking(stream.fileno(), False)
            while time.monotonic() < deadline:
                try:
                    chunk = os.read(stream.fileno(), READ_SIZE)
                except BlockingIOError:
                    break
                if not chunk:
                    break
                self._on_output(name, chunk)


def _processor_time(pid: int) -> int:
    """Return the clock ticks used by a process and its descendants."""
    total = 0
    for member in [pid, *descendants(pid)]:
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{member}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
    return total


def _widen(stream: IO[bytes]) -> None:
    import fcntl  # noqa: PLC0415

    fcntl.fcntl(stream.fileno(), _F_SETPIPE_SZ, _PIPE_SIZE)
