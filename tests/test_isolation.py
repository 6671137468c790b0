"""The walls behind the walls: filters, scopes and the door, each tried alone."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import resource
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from boxes import full, log, name_of, needs_landlock
from reflectloop.sandbox import isolation
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.system import bubblewrap, landlock, seccomp, usage
from reflectloop.system.seccomp import Openings
from reflectloop.terms import Network
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.store import Store
from support import Repo, wait_until
from test_process import living

ALLOWED, KILLED = 0x7FFF0000, 0x80000000
SHUT = Openings(local=False, internet=False, processes=False, shared=False, attributes=False)
CALLS = {  # prlimit64, setpriority, ioprio_set, sched_setaffinity, socketpair, shmget, msgget, mq_open, setxattr
    "x86_64": (302, 141, 251, 203, 53, 29, 68, 240, 188),
    "aarch64": (261, 140, 30, 122, 199, 194, 186, 180, 5),
}


def judge(code: bytes, audit: int, number: int, *arguments: int) -> int:
    """Return what the kernel would: run a filter over one system call."""
    data = struct.pack("=IIQ6Q", number, audit, 0, *(*arguments, *[0] * 6)[:6])
    steps = [struct.unpack_from("=HBBI", code, place) for place in range(0, len(code), 8)]
    at = held = 0
    while True:
        operation, skip_true, skip_false, value = steps[at]
        at += 1
        if operation == 0x06:
            return int(value)
        if operation == 0x20:
            (held,) = struct.unpack_from("=I", data, value)
        elif operation == 0x54:
            held &= value
        else:
            tests = {0x15: held == value, 0x25: held > value, 0x35: held >= value, 0x45: bool(held & value)}
            at += skip_true if tests[operation] else skip_false


WATCHING = {"x86_64": (300, 301), "aarch64": (262, 263)}  # fanotify_init, fanotify_mark


@pytest.mark.parametrize("machine", list(CALLS))
def test_a_filter_tells_a_process_from_itself_on_every_machine(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    code = seccomp.program.__wrapped__(SHUT)
    audit = seccomp._MACHINES[machine].audit
    limits, priority, io_priority, affinity, pair, segment, queue, posix_queue, attribute = CALLS[machine]
    call = functools.partial(judge, code, audit)
    allowed = [
        call(limits, 0, 7, 1 << 40),
        call(limits, 4321, 7, 0),
        call(priority, 0, 0, 5),
        call(io_priority, 1, 0, 5),
        call(affinity, 0, 8, 1),
        call(pair, 1, 1 | 0o2000000),
        call(pair, 1, 5),
        call(0xFFF),
    ]
    assert set(allowed) == {ALLOWED}
    refused = [
        call(limits, 4321, 7, 1 << 40),
        call(limits, 4321, 7, 1),
        call(priority, 0, 4321, 5),
        call(priority, 2, 0, 5),
        call(io_priority, 3, 0, 5),
        call(affinity, 4321, 8, 1),
        call(pair, 1, 2),
        call(pair, 1, 3),
        call(segment, 1, 1, 0),
        call(queue, 1, 0),
        call(posix_queue, 1, 0),
        *(call(number) for number in WATCHING[machine]),
    ]
    assert set(refused) == {0x50000 | errno.EPERM}
    assert call(attribute) == 0x50000 | errno.EOPNOTSUPP
    assert judge(code, audit ^ 1, 1) == KILLED


@pytest.mark.parametrize("machine", list(CALLS))
def test_without_a_control_group_only_small_segments_can_be_made(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    code, segment = seccomp.program.__wrapped__(Openings(large_segments=False)), CALLS[machine][5]
    call = functools.partial(judge, code, seccomp._MACHINES[machine].audit, segment)
    assert call(1, 64 << 10) == ALLOWED
    assert {call(1, (64 << 10) + 1), call(1, 1 << 32)} == {0x50000 | errno.EINVAL}


def _errno_of(action: Callable[[], object]) -> int | None:
    try:
        action()
    except OSError as fault:
        return fault.errno
    return None


def _make_a_pair() -> None:
    for end in socket.socketpair():
        end.close()


@needs_landlock
def test_under_landlock_only_own_processes_can_be_changed(tmp_path: Path) -> None:
    other, limit = os.getppid(), resource.getrlimit(resource.RLIMIT_CORE)
    libc = ctypes.CDLL(None, use_errno=True)
    (tmp_path / "file").write_text("x")
    with landlock.restricted_thread(landlock.LandlockRules(read=(Path("/"),), write=(tmp_path,))) as thread:

        def tried(action: Callable[[], object]) -> int | None:
            return thread.call(lambda: _errno_of(action))

        assert tried(lambda: resource.setrlimit(resource.RLIMIT_CORE, limit)) is None
        assert tried(lambda: resource.prlimit(other, resource.RLIMIT_CORE)) is None
        assert tried(lambda: resource.prlimit(other, resource.RLIMIT_CORE, limit)) == errno.EPERM
        assert tried(lambda: os.sched_setaffinity(0, os.sched_getaffinity(0))) is None
        assert tried(lambda: os.sched_setaffinity(other, os.sched_getaffinity(0))) == errno.EPERM
        assert tried(lambda: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))) is None
        assert tried(lambda: os.setpriority(os.PRIO_PROCESS, other, 0)) == errno.EPERM
        assert tried(lambda: os.setpriority(os.PRIO_USER, 0, 0)) == errno.EPERM
        assert tried(_make_a_pair) is None
        assert tried(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)) == errno.EPERM
        assert thread.call(lambda: (libc.shmget(0, 64, 0o1600), ctypes.get_errno())) == (-1, errno.EPERM)
        assert tried(lambda: os.setxattr(tmp_path / "file", "user.x", b"x")) == errno.EOPNOTSUPP


@full
def test_abstract_sockets_are_unreachable_on_the_hosts_network(repo: Repo) -> None:
    if not bubblewrap.scopes():
        pytest.skip("this kernel cannot scope abstract sockets; commands may open no local socket then")
    name = f"reflectloop-test-{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{name}")
    listener.listen()
    script = (
        "import socket\nown = socket.socket(socket.AF_UNIX); own.bind(chr(0) + 'own-' + str(id(own))); own.listen()\n"
        "socket.socket(socket.AF_UNIX).connect(own.getsockname()); print('own')\n"
        f"socket.socket(socket.AF_UNIX).connect(chr(0) + '{name}'); print('reached')"
    )
    assert repo.run("run", repo.steps(["python3", "-c", script], network="host")).code == 30
    listener.close()
    assert "own" in log(repo).splitlines()
    assert "Operation not permitted" in log(repo)
    assert "reached" not in log(repo)


DYING = """
import os, signal, sys
from pathlib import Path
from reflectloop.sandbox import isolation
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.terms import Network
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.store import Store
folder = Path(sys.argv[1])
space = Workspace(folder.name, folder, folder, Store(folder, 'sha1'), '', '', 0)
space.root = folder / 'project'
for path in (space.folder, space.repo, space.home, space.tmp, space.root):
    path.mkdir(exist_ok=True)
wall = isolation.supported_levels()[int(sys.argv[2])]
die = lambda door: os.kill(os.getpid(), signal.SIGKILL)
box = Box(space, dict(os.environ), wall, let_in=die if sys.argv[3] == 'die' else lambda door: door.open())
box.run(SandboxCommand(f'touch begun {sys.argv[1]}', space.repo, folder / 'log', 30))
"""


@pytest.mark.parametrize(
    "number", range(len(isolation.supported_levels())), ids=[name_of(wall) for wall in isolation.supported_levels()]
)
def test_a_command_never_starts_if_the_engine_dies_first(number: int, tmp_path: Path) -> None:
    for how, code in (("die", -9), ("live", 0)):
        folder = tmp_path / how
        folder.mkdir()
        engine = subprocess.run([sys.executable, "-c", DYING, str(folder), str(number), how], check=False)
        assert engine.returncode == code
        assert wait_until(functools.partial(lambda place: not living(place), f"touch begun {folder}"))
        assert list(folder.rglob("begun")) == ([] if how == "die" else [folder / "repo/begun"])


@full
def test_without_landlock_scopes_the_hosts_network_has_no_local_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a kernel before 6.12, whose word on it is taken away here."""
    monkeypatch.setattr(bubblewrap, "scopes", lambda: False)
    folder = tmp_path / "space"
    space = Workspace("space", folder, folder, Store(folder, "sha1"), "", "", 0, root=tmp_path / "project")
    for path in (folder, space.repo, space.home, space.tmp, space.root):
        path.mkdir()
    box = Box(space, dict(os.environ), isolation.supported_levels()[0])
    script = "import socket; socket.socket(socket.AF_UNIX)"
    for network, code in ((Network.HOST, 1), (Network.NONE, 0)):
        order = SandboxCommand((sys.executable, "-c", script), space.repo, tmp_path / "log", 30, network=network)
        assert box.run(order).exit_code == code


def test_open_files_without_a_name_are_counted(tmp_path: Path) -> None:
    size = 3 << 20
    memory = os.memfd_create("part")
    os.write(memory, bytes(size))
    with tempfile.TemporaryFile(dir=tmp_path) as file:
        before = usage.unnamed_files([os.getpid()])
        file.write(b"x" * size)
        file.flush()
        os.fsync(file.fileno())
        after = usage.unnamed_files([os.getpid(), os.getpid()])
    assert after.memory_bytes >= size
    assert after.disk_bytes - before.disk_bytes >= size
    os.close(memory)
    assert usage.unnamed_files([os.getpid()]).memory_bytes == after.memory_bytes - size


def test_only_files_written_since_then_are_counted(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"x" * 100_000)
    old = (tmp_path / "old").stat().st_ctime_ns
    assert wait_until(lambda: _touch(tmp_path / "deep/new") > old)
    (tmp_path / "deep/new").write_bytes(b"x" * 100_000)
    assert 100_000 <= usage.written(tmp_path, old + 1) < 200_000


def _touch(path: Path) -> int:
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    return path.stat().st_ctime_ns
