"""Tries to get out of the box, for real, and judges by what happened outside. What `doctor` proves a level with."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reflectloop.box import toolchains
from reflectloop.box.box import Box, Done, Order
from reflectloop.box.limits import Limiter, Limits
from reflectloop.box.walls import Wall
from reflectloop.terms import Isolation
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.store import Store
from reflectloop.world import process

_TIMEOUT_S = 20.0
_SHORT_S = 0.7
_LATE_S = 1.5
_LIMITS = Limits(memory_bytes=256 << 20, processes=64, file_bytes=8 << 20)

_WRITE = "import sys; open(sys.argv[1], 'w').write('out')"
_READ = "import sys; sys.stdout.write(open(sys.argv[1], errors='replace').read())"
_LIST = "import os, sys; print(*os.listdir(sys.argv[1]), sep='\\n')"
_THROUGH_LINK = "import os, sys; os.symlink(sys.argv[1], 'way-out'); open('way-out/evil', 'w').write('out')"
_CONNECT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 3).sendall(b'out')"
_KILL = "import os, sys; os.kill(int(sys.argv[1]), 9)"
_LINGER = """
import os, sys, time
if os.fork(): sys.exit(0)
os.setsid()
if os.fork(): sys.exit(0)
time.sleep(float(sys.argv[2])); open(sys.argv[1], 'w').write('out'); time.sleep(30)
"""
_STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + _LINGER.replace(
    "sys.exit(0)", "time.sleep(9)"
)
_READ_ENGINE = """
import os, sys
for thread in os.listdir(f'/proc/{sys.argv[1]}/task'):
    if open(f'/proc/{sys.argv[1]}/task/{thread}/environ', 'rb').read(1): print('read')
"""
_CALL = """
import os, socket, sys
folder = os.open(sys.argv[1], os.O_PATH)  # a socket's name must be short
socket.socket(socket.AF_UNIX).connect(f'/proc/self/fd/{folder}/socket')
"""
_RULE = "import ctypes; print('rules' if ctypes.CDLL(None).unshare(0x10000000) == 0 else 'refused')"
_FORK = """
import os, time
count = 0
try:
    while count < 300:
        if os.fork() == 0: time.sleep(5); os._exit(0)
        count += 1
except OSError: pass
print(count, flush=True)
time.sleep(0.5)
"""
_HOARD = "x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('hoarded', flush=True)"
_FILL = "f = open('big', 'wb')\nfor _ in range(64): f.write(bytes(1 << 20)); f.flush()"


@dataclass
class Stage:
    """What there is to reach: a project, its neighbours, a HOME, a server, another process. All of it ours."""

    root: Path
    canary: str
    home: Path
    real_home: Path
    victim: process.Conversation
    port: int
    called: threading.Event

    def path(self, name: str) -> Path:
        return self.root / name

    @property
    def victim_lives(self) -> bool:
        self.victim.ask(b"echo here\n")
        return self.victim.answer(2.0) == b"here\n"


class Trial(NamedTuple):
    """One box with one command run in it at a time."""

    stage: Stage
    box: Box
    log: Path

    def run(self, script: str, *words: object, timeout_s: float = _TIMEOUT_S) -> tuple[Done, bytes]:
        said = bytearray()
        argv = (sys.executable, "-c", script, *map(str, words))
        order = Order(argv, self.box.workspace.repo, self.log, timeout_s, look=said.extend)
        return self.box.run(order), bytes(said)


class Attempt(NamedTuple):
    name: str
    since: Isolation  # the weakest level that promises to hold it
    holds: Callable[[Trial], bool]


def _works(trial: Trial) -> bool:
    """The control: where nothing runs, nothing gets out, and that proves nothing."""
    trial.run(_WRITE, "made")
    return (trial.box.workspace.repo / "made").exists()


def _writes(name: str) -> Callable[[Trial], bool]:
    def holds(trial: Trial) -> bool:
        target = trial.stage.path(name)
        trial.run(_WRITE, target)
        return not target.exists()

    return holds


def _reads(name: str) -> Callable[[Trial], bool]:
    return lambda trial: trial.stage.canary.encode() not in trial.run(_READ, trial.stage.path(name))[1]


def _through_a_link(trial: Trial) -> bool:
    trial.run(_THROUGH_LINK, trial.stage.path("outside"))
    return not trial.stage.path("outside/evil").exists()


def _sees_home(trial: Trial) -> bool:
    """Of the user's own HOME nothing shows but folders of tools, and what lies in the way to something shown."""
    home = trial.stage.real_home
    tools = toolchains.found(trial.box.caller, home)
    shown = {path.relative_to(home).parts[0] for path in tools if path != home and path.is_relative_to(home)}
    shown |= {path.relative_to(home).parts[0] for path in (trial.stage.root,) if path.is_relative_to(home)}
    with contextlib.suppress(OSError):
        private = {path.name for path in home.iterdir()} - shown
        said = trial.run(_LIST, home)[1].decode("utf-8", "surrogateescape").splitlines()
        return not private & set(said)
    return True


def _reads_environment(trial: Trial) -> bool:
    return trial.stage.canary.encode() not in trial.run(_READ, f"/proc/{trial.stage.victim.pid}/environ")[1]


def _reads_engine(trial: Trial) -> bool:
    return b"read" not in trial.run(_READ_ENGINE, os.getpid())[1]


def _calls(trial: Trial) -> bool:
    trial.stage.called.clear()
    trial.run(_CALL, trial.stage.root)
    return not trial.stage.called.wait(0.3)


def _rules(trial: Trial) -> bool:
    return b"rules" not in trial.run(_RULE)[1]


def _connects(trial: Trial) -> bool:
    trial.stage.called.clear()
    trial.run(_CONNECT, trial.stage.port)
    return not trial.stage.called.wait(0.3)


def _kills(trial: Trial) -> bool:
    trial.run(_KILL, trial.stage.victim.pid)
    return trial.stage.victim_lives


def _leaves_a_process(trial: Trial) -> bool:
    mark = trial.box.workspace.repo / "left-behind"
    trial.run(_LINGER, "left-behind", _SHORT_S)
    time.sleep(_LATE_S)
    return not mark.exists()


def _writes_late(trial: Trial) -> bool:
    mark = trial.box.workspace.repo / "late"
    trial.run(_STUBBORN, "late", _LATE_S, timeout_s=_SHORT_S)
    time.sleep(_LATE_S)
    return not mark.exists()


def _forks(trial: Trial) -> bool:
    """None too many, or all ended for it: a watch sees them a moment after they are there."""
    done, said = trial.run(_FORK)
    return done.limit is not None or not said.strip().isdigit() or int(said) <= _LIMITS.processes


def _hoards(trial: Trial) -> bool:
    return b"hoarded" not in trial.run(_HOARD)[1]


def _fills(trial: Trial) -> bool:
    trial.run(_FILL)
    big = trial.box.workspace.repo / "big"
    return not big.exists() or big.stat().st_size <= _LIMITS.file_bytes


ATTEMPTS = (
    Attempt("(do its work: the control)", Isolation.NONE, _works),
    Attempt("leave a process behind", Isolation.WORKSPACE, _leaves_a_process),
    Attempt("write after the timeout", Isolation.WORKSPACE, _writes_late),
    Attempt("write to the project", Isolation.FS, _writes("project/evil")),
    Attempt("write to HOME", Isolation.FS, _writes("home/evil")),
    Attempt("write to a sibling folder", Isolation.FS, _writes("project-evil/evil")),
    Attempt("write through a link", Isolation.FS, _through_a_link),
    Attempt("read a key in HOME", Isolation.FS, _reads("home/.ssh/id_canary")),
    Attempt("read another project", Isolation.FS, _reads("other/notes")),
    Attempt("see your real HOME", Isolation.FS, _sees_home),
    Attempt("read a process's environment", Isolation.FS, _reads_environment),
    Attempt("read the engine's memory", Isolation.FS, _reads_engine),
    Attempt("reach a socket of yours", Isolation.FS, _calls),
    Attempt("become root in a namespace", Isolation.FS, _rules),
    Attempt("connect to this machine", Isolation.FULL, _connects),
    Attempt("kill another process", Isolation.FULL, _kills),
    Attempt("start processes without end", Isolation.FULL, _forks),
    Attempt("take all memory", Isolation.FULL, _hoards),
    Attempt("write a file without end", Isolation.FULL, _fills),
)


class Tried(NamedTuple):
    """What came of every attempt at one level, by name."""

    wall: Wall
    held: dict[str, bool]
    limits_by: str | None

    @property
    def proven(self) -> bool:
        """Whether everything held that this level promises."""
        return all(self.held[one.name] for one in ATTEMPTS if one.since.rank <= self.wall.level.rank)


def attempt(wall: Wall) -> Tried:
    """Every escape, from behind one wall."""
    with _set_up() as stage:
        space = _space(stage)
        limiter = Limiter(space.name, _LIMITS) if wall.level is Isolation.FULL else None
        caller = dict(os.environ) | {"HOME": os.fspath(stage.home)}
        box = Box(space, caller, wall, grace_s=0.2, limiter=limiter)
        trial = Trial(stage, box, stage.path("log"))
        try:
            held = {one.name: one.holds(trial) for one in ATTEMPTS if _can_be_tried(one, wall)}
        finally:
            mechanism = limiter.mechanism if limiter else None
            if limiter:
                limiter.close()
    return Tried(wall, {one.name: held.get(one.name, False) for one in ATTEMPTS}, mechanism)


def _can_be_tried(one: Attempt, wall: Wall) -> bool:
    """Without limits, trying to use everything up would do so."""
    return wall.level is Isolation.FULL or one.holds not in (_forks, _hoards, _fills)


def _space(stage: Stage) -> Workspace:
    folder = stage.path(f"box-{secrets.token_hex(3)}")
    space = Workspace(folder.name, folder, folder / "desk", Store(folder / "desk", "sha1"), "", "", 0)
    space.root = stage.path("project")
    for path in (space.folder, space.repo, space.home, space.tmp, space.desk):
        path.mkdir()
    return space


@contextlib.contextmanager
def _set_up() -> Iterator[Stage]:
    canary = secrets.token_hex(8)
    with (
        tempfile.TemporaryDirectory(prefix="reflectloop-doctor-") as name,
        socket.socket() as server,
        socket.socket(socket.AF_UNIX) as agent,
    ):
        root = Path(name).resolve()
        for folder in ("project", "project-evil", "outside", "other", "home/.ssh"):
            (root / folder).mkdir(parents=True)
        for file in ("home/.ssh/id_canary", "other/notes"):
            (root / file).write_text(canary)
        called = threading.Event()
        server.bind(("127.0.0.1", 0))
        place = os.open(root, os.O_PATH)
        agent.bind(f"/proc/self/fd/{place}/socket")
        os.close(place)
        for one in (server, agent):
            one.listen()
            threading.Thread(target=_answer, args=(one, called), daemon=True).start()
        victim = process.Conversation(["sh"], env={"CANARY": canary, "PATH": os.defpath})
        real_home = Path(os.environ.get("HOME") or "/")
        try:
            yield Stage(root, canary, root / "home", real_home, victim, server.getsockname()[1], called)
        finally:
            for one in (server, agent):
                one.shutdown(socket.SHUT_RDWR)
            victim.close()


def _answer(server: socket.socket, called: threading.Event) -> None:
    while True:
        try:
            server.accept()[0].close()
        except OSError:
            return
        called.set()
