"""Tries to escape from the sandbox and checks the effects outside. `doctor` proves an isolation level with it."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import resource
import secrets
import select
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import ReflectloopError
from reflectloop.sandbox import escape_scripts as scripts
from reflectloop.sandbox import network_forward, toolchains
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.sandbox.limits import Limiter, ResourceLimits
from reflectloop.sandbox.network_forward import Forward
from reflectloop.sandbox.sandbox import Box, CommandResult, SandboxCommand
from reflectloop.system import process
from reflectloop.system.start_gate import Door
from reflectloop.terms import Isolation, Network
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.store import Store

_TIMEOUT_S = 20.0
_ANSWER_S = 0.2  # a call that was made is there as soon as its caller has ended
_SHORT_S = 0.7
_LATE_S = 1.5
_LIMITS = ResourceLimits(memory_bytes=256 << 20, processes=64, file_bytes=8 << 20, disk_bytes=96 << 20)
_FEW_FILES, _SLOWER = 77, 7  # values that no process has by default


class Segment:
    """One byte of System V shared memory, and an empty System V queue of messages under the same key."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.shmat.restype = ctypes.c_void_p
        self.key = 0x52000000 | secrets.randbelow(1 << 24)
        self._id = self._libc.shmget(self.key, 1, 0o1600)
        if self._id < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._place = self._libc.shmat(self._id, None, 0)
        self._queue = self._libc.msgget(self.key, 0o1600)

    @property
    def is_written(self) -> bool:
        message = ctypes.create_string_buffer(16)
        return ctypes.string_at(self._place, 1) != b"\0" or self._libc.msgrcv(self._queue, message, 1, 0, 0o4000) >= 0

    def close(self) -> None:
        self._libc.shmdt(ctypes.c_void_p(self._place))
        self._libc.shmctl(self._id, 0, None)
        self._libc.msgctl(self._queue, 0, None)


@dataclass
class EscapeTargets:
    """The targets of the escapes, all temporary: a project, its siblings, a HOME, a server, another process."""

    root: Path
    canary: str
    home: Path
    real_home: Path
    victim: process.Conversation
    servers: dict[str, socket.socket]  # "internet", "file", "abstract" and "datagrams"
    abstract: str
    segment: Segment

    def path(self, name: str) -> Path:
        return self.root / name

    @property
    def victim_lives(self) -> bool:
        self.victim.ask(b"echo here\n")
        return self.victim.answer(_TIMEOUT_S) == b"here\n"

    def is_reached(self, name: str) -> bool:
        """Return whether somebody called one of the servers; what called it has ended."""
        server = self.servers[name]
        if not select.select([server], [], [], _ANSWER_S)[0]:
            return False
        if name == "datagrams":
            server.recv(16)
        else:
            server.accept()[0].close()
        return True


class EscapeTrial(NamedTuple):
    """A sandbox in which the scripts run, one at a time."""

    stage: EscapeTargets
    box: Box
    log: Path

    def run(
        self,
        script: str,
        *arguments: object,
        timeout_s: float = _TIMEOUT_S,
        network: Network | None = None,
        forward: Forward | None = None,
    ) -> tuple[CommandResult, bytes]:
        output = bytearray()
        argv = (sys.executable, "-I", "-S", "-c", script, *map(str, arguments))
        command = SandboxCommand(argv, self.box.workspace.repo, self.log, timeout_s, look=output.extend)
        return self.box.run(command._replace(network=network, forward=forward)), bytes(output)


class EscapeTest(NamedTuple):
    name: str
    since: Isolation  # the weakest level that must prevent it
    holds: Callable[[EscapeTrial], bool]


def _works(trial: EscapeTrial) -> bool:
    """Control test, first and last: an escape test proves nothing if commands do not work at all."""
    made = trial.box.workspace.repo / "made"
    made.unlink(missing_ok=True)
    trial.run(scripts.WRITE, "made")
    return made.exists()


def _writes(name: str) -> Callable[[EscapeTrial], bool]:
    def holds(trial: EscapeTrial) -> bool:
        target = trial.stage.path(name)
        trial.run(scripts.WRITE, target)
        return not target.exists()

    return holds


def _reads(name: str) -> Callable[[EscapeTrial], bool]:
    return lambda trial: trial.stage.canary.encode() not in trial.run(scripts.READ, trial.stage.path(name))[1]


def _through_a_link(trial: EscapeTrial) -> bool:
    trial.run(scripts.THROUGH_LINK, trial.stage.path("outside"))
    return not trial.stage.path("outside/evil").exists()


def _sees_home(trial: EscapeTrial) -> bool:
    """Check that of the user's HOME only tool folders and the parents of visible paths can be listed."""
    home = trial.stage.real_home
    tools = toolchains.readable_tools(trial.box.caller, home)
    visible = {path.relative_to(home).parts[0] for path in tools if path != home and path.is_relative_to(home)}
    visible |= {path.relative_to(home).parts[0] for path in (trial.stage.root,) if path.is_relative_to(home)}
    with contextlib.suppress(OSError):
        private = {path.name for path in home.iterdir()} - visible
        listed = trial.run(scripts.LIST, home)[1].decode("utf-8", "surrogateescape").splitlines()
        return not private & set(listed)
    return True


def _reads_environment(trial: EscapeTrial) -> bool:
    return trial.stage.canary.encode() not in trial.run(scripts.READ, f"/proc/{trial.stage.victim.pid}/environ")[1]


def _reads_engine(trial: EscapeTrial) -> bool:
    return b"read" not in trial.run(scripts.READ_ENGINE, os.getpid())[1]


def _calls(trial: EscapeTrial) -> bool:
    trial.run(scripts.CALL, trial.stage.root)
    return not trial.stage.is_reached("file")


def _calls_abstract(trial: EscapeTrial) -> bool:
    trial.run(scripts.CALL_ABSTRACT, trial.stage.abstract)
    return not trial.stage.is_reached("abstract")


def _calls_abstract_with_network(trial: EscapeTrial) -> bool:
    trial.run(scripts.CALL_ABSTRACT, trial.stage.abstract, network=Network.HOST)
    return not trial.stage.is_reached("abstract")


def _calls_as_an_agent(trial: EscapeTrial) -> bool:
    """Check that a program that may reach one address, as an agent its model's, reaches no other."""
    forward = Forward((network_forward.parse_address("http://127.0.0.1:9"),))
    trial.run(scripts.CONNECT, trial.stage.servers["internet"].getsockname()[1], forward=forward)
    return not trial.stage.is_reached("internet")


def _sends_by_pair(trial: EscapeTrial) -> bool:
    trial.run(scripts.SEND_BY_PAIR, trial.stage.root)
    return not trial.stage.is_reached("datagrams")


def _limits_others(trial: EscapeTrial) -> bool:
    trial.run(scripts.LIMIT, trial.stage.victim.pid, _FEW_FILES)
    return resource.prlimit(trial.stage.victim.pid, resource.RLIMIT_NOFILE)[0] != _FEW_FILES


def _slows_others(trial: EscapeTrial) -> bool:
    trial.run(scripts.SLOW_DOWN, trial.stage.victim.pid, _SLOWER)
    victim = trial.stage.victim.pid
    return os.getpriority(os.PRIO_PROCESS, victim) != _SLOWER and os.sched_getscheduler(victim) != os.SCHED_BATCH


def _shares_memory(trial: EscapeTrial) -> bool:
    trial.run(scripts.SHARE, trial.stage.segment.key)
    return not trial.stage.segment.is_written


def _changes_modes(trial: EscapeTrial) -> bool:
    before = trial.stage.path("other/notes").stat().st_mode
    trial.run(scripts.CHANGE_MODE, trial.stage.path("other/notes"))
    return trial.stage.path("other/notes").stat().st_mode == before


def _reads_what_others_may_not(trial: EscapeTrial) -> bool:
    return not trial.run(scripts.READ_OTHERS)[1]


def _begins_without_leave(trial: EscapeTrial) -> bool:
    """Check that the command does not start if the engine dies before it opens the gate."""
    box = dataclasses.replace(trial.box, let_in=Door.close)
    EscapeTrial(trial.stage, box, trial.log).run(scripts.WRITE, "begun")
    return not (trial.box.workspace.repo / "begun").exists()


def _rules(trial: EscapeTrial) -> bool:
    return b"rules" not in trial.run(scripts.RULE)[1]


def _connects(trial: EscapeTrial) -> bool:
    trial.run(scripts.CONNECT, trial.stage.servers["internet"].getsockname()[1])
    return not trial.stage.is_reached("internet")


def _kills(trial: EscapeTrial) -> bool:
    trial.run(scripts.KILL, trial.stage.victim.pid)
    return trial.stage.victim_lives


def _leaves_a_process(trial: EscapeTrial) -> bool:
    mark = trial.box.workspace.repo / "left-behind"
    trial.run(scripts.LINGER, "left-behind", _SHORT_S)
    time.sleep(_LATE_S)
    return not mark.exists()


def _writes_late(trial: EscapeTrial) -> bool:
    mark = trial.box.workspace.repo / "late"
    trial.run(scripts.STUBBORN, "late", _LATE_S, timeout_s=_SHORT_S)
    time.sleep(_LATE_S)
    return not mark.exists()


def _forks(trial: EscapeTrial) -> bool:
    """Check that too many processes cannot start, or are killed: the watchdog notices them with a delay."""
    result, output = trial.run(scripts.FORK)
    return result.limit is not None or not output.strip().isdigit() or int(output) <= _LIMITS.processes


def _hoards(trial: EscapeTrial) -> bool:
    return b"hoarded" not in trial.run(scripts.HOARD)[1]


def _hoards_shared_memory(trial: EscapeTrial) -> bool:
    result, output = trial.run(scripts.SHARED_MEMORY)
    return result.limit is not None or b"hoarded" not in output


def _hoards_memory_files(trial: EscapeTrial) -> bool:
    result, output = trial.run(scripts.MEMORY_FILES)
    return result.limit is not None or b"hoarded" not in output


def _fills_disk(trial: EscapeTrial) -> bool:
    result, output = trial.run(scripts.FILL_DISK)
    for part in trial.box.workspace.repo.glob("part*"):
        part.unlink()  # otherwise the limit would end every later command too
    return result.limit is not None or b"filled" not in output


def _fills(trial: EscapeTrial) -> bool:
    trial.run(scripts.FILL)
    big = trial.box.workspace.repo / "big"
    return not big.exists() or big.stat().st_size <= _LIMITS.file_bytes


ESCAPE_TESTS: tuple[EscapeTest, ...] = (
    EscapeTest("(do its work: the control)", Isolation.NONE, _works),
    EscapeTest("leave a process behind", Isolation.WORKSPACE, _leaves_a_process),
    EscapeTest("write after the timeout", Isolation.WORKSPACE, _writes_late),
    EscapeTest("begin without the engine", Isolation.WORKSPACE, _begins_without_leave),
    EscapeTest("write to the project", Isolation.FS, _writes("project/evil")),
    EscapeTest("write to HOME", Isolation.FS, _writes("home/evil")),
    EscapeTest("write to a sibling folder", Isolation.FS, _writes("project-evil/evil")),
    EscapeTest("write through a link", Isolation.FS, _through_a_link),
    EscapeTest("read a key in HOME", Isolation.FS, _reads("home/.ssh/id_canary")),
    EscapeTest("read a token in ~/.local", Isolation.FS, _reads("home/.local/share/app/token")),
    EscapeTest("read by a link set-up left", Isolation.FS, _reads("project/left/id_canary")),
    EscapeTest("read by an interpreter link", Isolation.FS, _reads("home/.aws/credentials")),
    EscapeTest("read another project", Isolation.FS, _reads("other/notes")),
    EscapeTest("see your real HOME", Isolation.FS, _sees_home),
    EscapeTest("read a process's environment", Isolation.FS, _reads_environment),
    EscapeTest("read the engine's memory", Isolation.FS, _reads_engine),
    EscapeTest("reach a socket of yours", Isolation.FS, _calls),
    EscapeTest("reach an abstract socket", Isolation.FS, _calls_abstract),
    EscapeTest("abstract socket with network", Isolation.FS, _calls_abstract_with_network),
    EscapeTest("agent reaches another server", Isolation.FS, _calls_as_an_agent),
    EscapeTest("send through a socket pair", Isolation.FS, _sends_by_pair),
    EscapeTest("set another process's limits", Isolation.FS, _limits_others),
    EscapeTest("slow another process down", Isolation.FS, _slows_others),
    EscapeTest("write to your shared memory", Isolation.FS, _shares_memory),
    EscapeTest("become root in a namespace", Isolation.FS, _rules),
    EscapeTest("take all memory", Isolation.FS, _hoards),
    EscapeTest("fill shared memory", Isolation.FS, _hoards_shared_memory),
    EscapeTest("fill memory files", Isolation.FS, _hoards_memory_files),
    EscapeTest("start processes without end", Isolation.FS, _forks),
    EscapeTest("write a file without end", Isolation.FS, _fills),
    EscapeTest("fill the disk", Isolation.FS, _fills_disk),
    # Only root's commands could read such files at all.
    *([EscapeTest("read what only root may", Isolation.FS, _reads_what_others_may_not)] if os.geteuid() == 0 else []),
    EscapeTest("change a file's mode", Isolation.FULL, _changes_modes),
    EscapeTest("connect to this machine", Isolation.FULL, _connects),
    EscapeTest("kill another process", Isolation.FULL, _kills),
    EscapeTest("(do its work to the end)", Isolation.NONE, _works),
)
USE_UP = (_hoards, _forks, _fills, _fills_disk, _hoards_shared_memory, _hoards_memory_files)


class EscapeResults(NamedTuple):
    """The results of all escape tests at one level, by name."""

    wall: IsolationLevel
    prevented: dict[str, bool]
    limits_by: str | None
    untried: dict[str, str]  # the tests that could not be run, each with the reason

    @property
    def proven(self) -> bool:
        """Return True if every escape that this level must prevent was prevented."""
        promised = [test.name for test in ESCAPE_TESTS if test.since.rank <= self.wall.level.rank]
        return all(self.prevented[name] for name in promised if name in self.prevented)


def run_escape_tests(wall: IsolationLevel, tests: Sequence[EscapeTest] = ESCAPE_TESTS) -> EscapeResults:
    """Try every escape from behind one wall. An attempt that cannot be made proves nothing, and stops no other."""
    with _set_up() as stage:
        space = _space(stage, wall)
        limiter = Limiter(space.name, _LIMITS) if wall.level.rank >= Isolation.FS.rank else None
        tools = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{stage.home}/.local/bin"
        caller = dict(os.environ) | {"HOME": os.fspath(stage.home), "PATH": tools}
        box = Box(space, caller, wall, grace_s=0.2, limiter=limiter)
        trial = EscapeTrial(stage, box, stage.path("log"))
        held = {test.name: False for test in tests}
        untried: dict[str, str] = {}
        try:
            for test in tests:
                if _can_be_tried(test, wall):
                    try:
                        held[test.name] = test.holds(trial)
                    except (OSError, ReflectloopError) as fault:
                        untried[test.name] = str(fault)
        finally:
            mechanism = limiter.mechanism if limiter else None
            if limiter:
                limiter.close()
    return EscapeResults(wall, held, mechanism, untried)


def _can_be_tried(one: EscapeTest, wall: IsolationLevel) -> bool:
    """Without limits, trying to use everything up would do so."""
    return wall.level.rank >= Isolation.FS.rank or one.holds not in USE_UP


def _space(stage: EscapeTargets, wall: IsolationLevel) -> Workspace:
    folder = stage.path(f"box-{secrets.token_hex(3)}")
    space = Workspace(folder.name, folder, folder / "desk", Store(folder / "desk", "sha1"), "", "", 0)
    space.root = stage.path("project")
    if wall.mounted:  # other levels copy these folders
        space.carried = {Path("left"): stage.path("project/left"), Path(".venv"): stage.path("left-venv")}
    for path in (space.folder, space.repo, space.home, space.tmp, space.engine_dir):
        path.mkdir()
    return space


@contextlib.contextmanager
def _set_up() -> Iterator[EscapeTargets]:
    canary = secrets.token_hex(8)
    with (
        tempfile.TemporaryDirectory(prefix="reflectloop-doctor-") as name,
        socket.socket() as server,
        socket.socket(socket.AF_UNIX) as agent,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        contextlib.closing(Segment()) as segment,
    ):
        root = Path(name).resolve()
        _create_files(root, canary)
        server.bind(("127.0.0.1", 0))
        place = os.open(root, os.O_PATH)
        agent.bind(f"/proc/self/fd/{place}/socket")
        datagrams.bind(f"/proc/self/fd/{place}/datagrams")
        os.close(place)
        label = f"reflectloop-{canary[:8]}"
        abstract.bind(f"\0{label}")
        for listener in (server, agent, abstract):
            listener.listen()
        servers = {"internet": server, "file": agent, "abstract": abstract, "datagrams": datagrams}
        victim = process.Conversation(["sh"], env={"CANARY": canary, "PATH": os.defpath})
        real_home = Path(os.environ.get("HOME") or "/")
        try:
            yield EscapeTargets(root, canary, root / "home", real_home, victim, servers, label, segment)
        finally:
            victim.close()


def _create_files(root: Path, canary: str) -> None:
    """Create private files in the usual places, and links to them as a set-up could leave them."""
    folders = "project project-evil outside other home/.ssh home/.aws/a home/.local/bin home/.local/lib left-venv/bin"
    for folder in (*folders.split(), "home/.local/share/app"):
        (root / folder).mkdir(parents=True)
    for file in ("home/.ssh/id_canary", "other/notes", "home/.local/share/app/token", "home/.aws/credentials"):
        (root / file).write_text(canary)
    (root / "home/.aws/a/b").write_text("")
    (root / "project/left").symlink_to(root / "home/.ssh")
    (root / "left-venv/pyvenv.cfg").write_text("")
    (root / "left-venv/bin/python").symlink_to(root / "home/.aws/a/b")
