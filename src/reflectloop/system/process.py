"""The only module that starts, watches and ends processes."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from reflectloop.system import executables

NOTHING = subprocess.DEVNULL  # to read from
READ_SIZE = 1 << 18
_PIPE_SIZE = 1 << 20
_F_SETPIPE_SZ = 1031
_PR_SET_CHILD_SUBREAPER = 36
_live: set[int] = set()  # commands now running, so that orphans can be told from them
_births = threading.Lock()  # a command is a child of ours for an instant before it is known to be
_own: set[int] = set()  # tools of ours in sessions of their own, which are nobody's orphans
_LOOK_S = 0.1  # between two looks at what a command uses
_DEATH_MS = 10_000  # how long a killed process is waited for
_LINGER_S = 1.0  # how long pipes kept open by strays are read after the command itself has ended

OnOutput = Callable[[str, bytes], None]
Started = subprocess.Popen[bytes]
Start = Callable[[], Started]


class CapturedOutput(NamedTuple):
    code: int
    stdout: bytes
    stderr: bytes


class ProcessEnd(NamedTuple):
    """How a watched command ended. `code` is the shell's number: 128+N for signal N."""

    code: int
    timed_out: bool
    duration_s: float
    idle: bool = False
    cancelled: bool = False
    over: bool = False  # a limit that the engine watches


class Timeouts(NamedTuple):
    """How long a command may take, may do nothing, and has to end after it was asked to."""

    timeout_s: float
    grace_s: float
    idle_s: float | None = None
    stirred: Callable[[], bool] = lambda: False  # whether something else shows that it is at work
    # Whether these processes and all below them use more than they may; asked again and again.
    over: Callable[[list[int]], bool] | None = None


class Cancel:
    """Ends commands from another thread."""

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
    """Run a trusted tool to its end and return what it printed; TimeoutError when it takes too long."""
    try:
        done = subprocess.run(argv, cwd=cwd, env=env, input=stdin, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as fault:
        raise TimeoutError(f"{argv[0]!r} took longer than {timeout_s} s") from fault
    return CapturedOutput(done.returncode, done.stdout, done.stderr)


def stream(
    argv: Sequence[str], on_chunk: Callable[[bytes], None], *, cwd: Path | None, env: Mapping[str, str]
) -> CapturedOutput:
    """Run a trusted tool and hand its output on as it comes."""
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said
        ) as process:
            assert process.stdout  # noqa: S101
            try:
                while chunk := process.stdout.read(READ_SIZE):
                    on_chunk(chunk)
            except BaseException:
                process.kill()
                raise
        said.seek(0)
        return CapturedOutput(process.returncode, b"", said.read())


class Conversation:
    """A trusted tool that is asked one line at a time and answers with one."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str]) -> None:
        with _births:
            self._process = subprocess.Popen(
                argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, bufsize=0
            )
            _own.add(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, line: bytes) -> None:
        assert self._process.stdin  # noqa: S101
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line)

    def answer(self, timeout_s: float) -> bytes | None:
        """The next line, nothing when the tool has ended, None when it takes longer."""
        assert self._process.stdout  # noqa: S101
        if not select.select([self._process.stdout], [], [], timeout_s)[0]:
            return None
        return self._process.stdout.readline()

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout  # noqa: S101, PT018
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        _own.discard(self._process.pid)

    def kill(self) -> None:
        for pid in [*descendants(self._process.pid), self._process.pid]:
            _signal(pid, signal.SIGKILL)


_detached: list[subprocess.Popen[bytes]] = []


def detach(argv: Sequence[str]) -> None:
    """Start a trusted tool that may outlive us, tied to none of our streams."""
    # An engine that serves for long would collect the dead ones otherwise.
    _detached[:] = [one for one in _detached if one.poll() is None]
    _detached.append(
        subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
    )


def tie(argv: list[str]) -> list[str]:
    """Without a namespace: at least the command itself ends with the engine, where util-linux is there."""
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
    """Hand the terminal to a command and wait. `begun` is called once it is there."""
    with start(lambda: subprocess.Popen(argv, cwd=cwd, env=env, pass_fds=pass_fds)) as process:
        begun()
        return process.wait()


def find(name: str, *, path: str, cwd: Path) -> str | None:
    """Where `name` would be found by a command that runs in `cwd` with this PATH."""
    if "/" in name:
        target = cwd / name
        return os.fspath(target) if target.is_file() and os.access(target, os.X_OK) else None
    return shutil.which(name, path=path)


def born(pid: int) -> int:
    """When a process began, in ticks since boot; 0 where there is none. A pid alone may be somebody else's by now."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rsplit(b")", 1)[1].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def descendants(pid: int) -> list[int]:
    """Every living process below `pid`, nearest first."""
    found: list[int] = []
    queue = [pid]
    while queue:
        parent = queue.pop(0)
        for child in _children(parent):
            found.append(child)
            queue.append(child)
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    gone = contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError)
    with gone:
        for thread in os.listdir(f"/proc/{pid}/task"):  # each lists its own children only, and may end meanwhile
            with gone, open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                children += [int(word) for word in file.read().split()]
    return children


def carrying(marker: str) -> list[int]:
    """Every process whose environment holds `marker`, wherever it has been reparented to."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and _carries(pid, marker)]


def end_carrying(marker: str) -> int:
    """End every process that carries `marker`, again until none is left; how many there were."""
    count = 0
    for _ in range(100):
        strays = carrying(marker)
        if not strays:
            break
        for pid in strays:
            _signal(pid, signal.SIGKILL)
        count += len(strays)
        time.sleep(0.01)
    return count


def _carries(pid: int, marker: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return marker.encode() in file.read().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def adopt_orphans() -> None:
    """Become the parent of every process that a command leaves behind, so that it can be found and ended."""
    import ctypes  # noqa: PLC0415 - only needed where commands are run

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _orphans(marker: str) -> list[int]:
    """Children that are no command of ours. Those that hide their mark belong to the only command there is."""
    strays = [pid for pid in _children(os.getpid()) if pid not in _live | _own and _in_another_session(pid)]
    return [pid for pid in strays if not _live or _carries(pid, marker)]


def _in_another_session(pid: int) -> bool:
    """As every command is; the tools the engine calls are in its own."""
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid) != os.getsid(0)
    return False


def _end_orphans(marker: str) -> None:
    for _ in range(100):  # again until none is left, since they may be forking
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
    """One untrusted command: its streams are read as they come, and it ends with all its children."""

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

    def wait(self, patience: Timeouts) -> ProcessEnd:
        """Read until the command ends or must end, then end whatever is left of it."""
        try:
            try:
                if not self._read_until(self._started + patience.timeout_s, patience):
                    self._stop = self._stop or "timeout"
                    if self._stop != "over":
                        self._ask_to_stop()
                        self._read_until(time.monotonic() + patience.grace_s)
            finally:
                self._end()
            self._drain()
        finally:  # whoever takes the output may want no more of it
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

    def _read_until(self, deadline: float, patience: Timeouts | None = None) -> bool:
        """Pass output on until the command exits (True), or the deadline, idleness or a cancel comes (False)."""
        ended = os.pidfd_open(self._process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(ended, selectors.EVENT_READ, "ended")
                if patience and self._cancel:
                    selector.register(self._cancel.reader, selectors.EVENT_READ, "cancel")
                for name, stream in self._streams().items():
                    with contextlib.suppress(OSError):
                        _widen(stream)
                    selector.register(stream, selectors.EVENT_READ, name)
                while (left := deadline - time.monotonic()) > 0:
                    for key, _ in selector.select(min(left, self._until_look(patience))):
                        if key.data == "ended":
                            return True
                        if key.data == "cancel":
                            self._stop = "cancel"
                            return False
                        self._pass_on(selector, key)
                    if patience and patience.over and patience.over(self._branches()):
                        self._stop = "over"
                        return False
                    if self._is_idle(patience):
                        self._stop = "idle"
                        return False
        finally:
            os.close(ended)
        return self._process.poll() is not None

    def _branches(self) -> list[int]:
        """Return the processes that the command's others are all below: itself, and what left it behind."""
        return [self._process.pid, *([] if self._namespaced else _orphans(self._marker))]

    def _until_look(self, patience: Timeouts | None) -> float:
        if patience and patience.over:
            return _LOOK_S
        if patience is None or patience.idle_s is None:
            return float("inf")
        return max(0.05, self._last_sign + patience.idle_s - time.monotonic())

    def _is_idle(self, patience: Timeouts | None) -> bool:
        """No output for long enough, and since the last look neither processor time nor anything else was used."""
        if patience is None or patience.idle_s is None or time.monotonic() < self._last_sign + patience.idle_s:
            return False
        used = _processor_time(self._process.pid)
        at_work = used > self._used or patience.stirred()
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
        # In a pid namespace the outer process is the jailer: it must live to see the grace period out.
        targets = descendants(self._process.pid)
        if not self._namespaced:
            targets.append(self._process.pid)
        for pid in targets:
            _signal(pid, signal.SIGTERM)

    def _end(self) -> None:
        if self._process.poll() is None:
            # The namespace's init first: everything inside dies with it, and nothing can be born after.
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
        """Take what is still in the pipes; strays that hold them open do not hold us."""
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
    """Clock ticks used so far by a process and everything below it."""
    total = 0
    for one in [pid, *descendants(pid)]:
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{one}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
    return total


def _widen(stream: IO[bytes]) -> None:
    import fcntl  # noqa: PLC0415

    fcntl.fcntl(stream.fileno(), _F_SETPIPE_SZ, _PIPE_SIZE)
