"""Runs one untrusted command in a workspace, and knows whether it was the command or the box that failed."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from reflectloop.config import Config
from reflectloop.errors import SandboxCreateFailed, SandboxEscape
from reflectloop.sandbox import environment, mounts, network_forward
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.sandbox.limits import Limiter
from reflectloop.sandbox.mounts import MountTable
from reflectloop.sandbox.network_forward import Forward, Tunnel
from reflectloop.sandbox.output import Recorder
from reflectloop.system import bubblewrap, executables, landlock, process
from reflectloop.system.bubblewrap import Namespaces, StartGate
from reflectloop.system.seccomp import Openings
from reflectloop.system.start_gate import NAME, Door
from reflectloop.terms import Isolation, Network
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.record_tree import changed_since, mark

SHELL = ("bash", "-e", "-o", "pipefail", "-c")
NOT_FOUND = 127
NOT_RUNNABLE = 126
_A_DAY_S = 86400.0  # a person may look as long as they like
_TERMINAL = 0  # standard input is where a person types
_BY_SIGNAL = 128  # the shell's mark
_NOT_STARTED = b"bwrap: execvp "
_NOT_LED = (b"setsid: failed to execute ", f"{NAME}: ".encode())
_WHY = {NOT_FOUND: "command not found", NOT_RUNNABLE: "cannot be run"}
_DEVICES = tuple(Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "ptmx"))


def _ignore(_: bytes) -> None:
    return None


class SandboxCommand(NamedTuple):
    """One command to run."""

    command: str | tuple[str, ...]
    cwd: Path
    log: Path
    timeout_s: float
    env: Mapping[str, str] = {}
    show: Callable[[bytes], None] = _ignore  # scanned output, as it comes
    look: Callable[[bytes], None] = _ignore  # raw standard output, for checks; never stored
    apart: Callable[[str, bytes], None] | None = None  # scanned output with its stream's name, where not merged
    merge: bool = True
    idle_s: float | None = None
    network: Network | None = None
    stdin: int = process.NOTHING  # a descriptor it reads from
    forward: Forward | None = None  # all that it can reach, instead of what `network` says


class CommandResult(NamedTuple):
    exit_code: int
    timed_out: bool
    duration_ms: int
    idle: bool = False
    cancelled: bool = False
    limit: str | None = None  # which it came up against, in words
    doubtful: tuple[str, ...] = ()  # what may be secrets in its output, and was taken out
    refused: tuple[str, ...] = ()  # places it asked its proxy for and was not let through to


@dataclass
class Box:
    workspace: Workspace
    caller: Mapping[str, str]
    wall: IsolationLevel
    readable: tuple[Path, ...] = ()
    env_allow: tuple[str, ...] = ()
    grace_s: float = 5.0
    log_cap: int = 8 << 20
    idle_s: float | None = None
    cancel: process.Cancel | None = None
    limiter: Limiter | None = None
    read_only: bool = False  # whether commands may look at the workspace, and not change it
    home: Path | None = None  # instead of the workspace's own
    let_in: Callable[[Door], None] = Door.open  # what happens at the door once everything else is ready
    _count: int = field(default=0, init=False)
    _shown: MountTable | None = field(default=None, init=False)  # what `_words` say
    _words: list[str] = field(default_factory=list, init=False)

    @classmethod
    def by(
        cls,
        settings: Config,
        workspace: Workspace,
        caller: Mapping[str, str],
        wall: IsolationLevel,
        limiter: Limiter | None,
        cancel: process.Cancel | None = None,
    ) -> Box:
        """As a project's settings want it."""
        return cls(
            workspace,
            caller,
            wall,
            readable=settings.box.read,
            env_allow=settings.run.env_allow,
            grace_s=settings.run.grace_s,
            log_cap=settings.run.log_cap_mb << 20,
            idle_s=settings.run.idle_s,
            cancel=cancel,
            limiter=limiter,
        )

    def __post_init__(self) -> None:
        process.adopt_orphans()

    @cached_property
    def view(self) -> MountTable | None:
        """What commands see; None where they see the machine as it is."""
        if not self.wall.mounted:
            return None
        return mounts.of(self.workspace, self.caller, self.readable, home=self.home, read_only=self.read_only)

    def for_agent(self, home: Path, *, read_only: bool) -> Box:
        """The same box for a program that keeps a HOME of its own, and may only look where it is to only look."""
        return dataclasses.replace(self, home=home, read_only=read_only)

    @cached_property
    def _environment(self) -> dict[str, str]:
        return environment.build(self.workspace, self.caller, self.view, self.env_allow, self.home)

    def run(self, order: SandboxCommand) -> CommandResult:
        argv = [*SHELL, order.command] if isinstance(order.command, str) else list(order.command)
        tunnel: Tunnel | None = None
        self._count += 1
        env = {**self._environment, **order.env, environment.MARK: f"{self.workspace.name}.{self._count}"}
        recorder = Recorder(
            order.log, self.log_cap, show=order.show, look=order.look, apart=order.apart, joined=order.merge
        )
        try:
            tunnel = self._tunnel(order)
            ended = self._watch(argv, order, tunnel.environment(env) if tunnel else env, recorder, tunnel)
        except OSError as fault:
            if fault.errno not in (errno.E2BIG, errno.ENOEXEC, errno.EACCES):
                raise
            recorder.take("stderr", f"{argv[0][:200]}: {os.strerror(fault.errno)}\n".encode())
            return CommandResult(NOT_RUNNABLE, timed_out=False, duration_ms=0)
        finally:
            refused = tunnel.close() if tunnel else ()
            recorder.close()
        limit = self.limiter.reached(ended.code) if self.limiter else None
        return CommandResult(
            ended.code,
            ended.timed_out,
            round(ended.duration_s * 1000),
            ended.idle,
            ended.cancelled,
            limit,
            tuple(recorder.doubtful),
            refused,
        )

    def _tunnel(self, order: SandboxCommand) -> Tunnel | None:
        """Return the only way out that a command has; None where it has the machine's network, or no wall at all."""
        if order.forward is None or self.wall.level.rank < Isolation.FS.rank:
            return None
        network_forward.refuse_unheld(self.wall, order.forward)
        return Tunnel(order.forward, self.caller, namespaced=network_forward.unshared(self.wall))

    def _patience(self, order: SandboxCommand) -> process.Timeouts:
        seen = [self.workspace.mark_ns]

        def stirred() -> bool:
            since, seen[0] = seen[0], mark(self.workspace.folder)
            try:
                return changed_since(self.workspace.repo, since)
            except OSError:
                return True  # it shut a folder against us, or moves them about: it is at work

        over = self.limiter.over if self.limiter else None
        return process.Timeouts(order.timeout_s, self.grace_s, order.idle_s or self.idle_s, stirred, over)

    def _watch(
        self,
        argv: list[str],
        order: SandboxCommand,
        env: Mapping[str, str],
        recorder: Recorder,
        tunnel: Tunnel | None = None,
    ) -> process.ProcessEnd:
        if self.wall.by == "bubblewrap":
            return self._behind_bubblewrap(argv, order, env, recorder, tunnel)
        if process.find(argv[0], path=env["PATH"], cwd=order.cwd) is None:
            recorder.take("stderr", f"{argv[0]}: command not found\n".encode())
            return process.ProcessEnd(NOT_FOUND, timed_out=False, duration_s=0)
        if self.wall.by == "landlock":
            return self._behind_landlock(argv, order, env, recorder, tunnel)
        return self._in_the_open(argv, order, env, recorder)

    def _in_the_open(
        self,
        argv: list[str],
        order: SandboxCommand,
        env: Mapping[str, str],
        recorder: Recorder,
        start: Callable[[process.Start], process.Started] = lambda start: start(),
    ) -> process.ProcessEnd:
        door = Door(order.stdin)
        try:
            watched = process.SupervisedProcess(
                process.tie(door.before(argv)),
                cwd=order.cwd,
                env=env,
                on_output=recorder.take,
                merge=order.merge,
                marker=f"{environment.MARK}={env[environment.MARK]}",
                pass_fds=door.inherited,
                cancel=self.cancel,
                start=start,
                stdin=door.stdin,
            )
            door.started()
            if door.wait(order.timeout_s):  # it is tied to the engine now
                if self.limiter:
                    self.limiter.take(watched.pid, order.timeout_s, self.workspace.folder, own_user=False)
                self.let_in(door)
            return watched.wait(self._patience(order))
        finally:
            door.close()

    def _behind_landlock(
        self, argv: list[str], order: SandboxCommand, env: Mapping[str, str], recorder: Recorder, tunnel: Tunnel | None
    ) -> process.ProcessEnd:
        if tunnel:
            tunnel.begin()
            network = Network.HOST if tunnel.ports else Network.NONE
        else:
            network = self.wall.network(order.network)
        with self._shut_in(network, tunnel.ports if tunnel else None) as thread:
            return self._in_the_open(argv, order, env, recorder, thread.call)

    def _shut_in(self, network: Network, ports: tuple[int, ...] | None = None) -> landlock.RestrictedThread:
        space = self.workspace
        return landlock.behind(
            landlock.LandlockRules(
                read=(*mounts.readable(space, self.caller, self.readable), *((space.repo,) if self.read_only else ())),
                write=(*(() if self.read_only else (space.repo,)), self.home or space.home, space.tmp, *_DEVICES),
                network=network is Network.HOST,
                ports=ports,
            )
        )

    def _behind_bubblewrap(
        self, argv: list[str], order: SandboxCommand, env: Mapping[str, str], recorder: Recorder, tunnel: Tunnel | None
    ) -> process.ProcessEnd:
        try:
            return self._wrap_and_watch(argv, order, env, recorder, tunnel)
        except SandboxCreateFailed:
            if tunnel or self.view is None or self.view.there() == self._shown:  # a tunnel serves one start
                raise
        return self._wrap_and_watch(argv, order, env, recorder, None)  # something went from under its mask meanwhile

    def _wrap_and_watch(
        self, argv: list[str], order: SandboxCommand, env: Mapping[str, str], recorder: Recorder, tunnel: Tunnel | None
    ) -> process.ProcessEnd:
        gate = StartGate(order.stdin)
        try:
            wrapped = self._wrapped(
                tunnel.command(argv) if tunnel else argv,
                gate,
                self._inside(order.cwd),
                env,
                Network.NONE if tunnel else self.wall.network(order.network),
                own_network=tunnel is not None and tunnel.namespaced,
            )
            with self._scoped() as start:
                watched = process.SupervisedProcess(
                    wrapped,
                    cwd=order.cwd,
                    env=self._outside(),
                    on_output=recorder.take,
                    merge=order.merge,
                    namespaced=True,
                    pass_fds=[*gate.inherited, *(tunnel.inherited if tunnel else ())],
                    cancel=self.cancel,
                    start=start,
                    stdin=gate.door.stdin,
                )
                if tunnel:
                    tunnel.begin()
                self._let_go(gate, order.timeout_s)
                ended = watched.wait(self._patience(order))
            return self._judge(ended, gate.exit_code(), argv, recorder)
        finally:
            gate.close()

    def _wrapped(
        self,
        argv: list[str],
        gate: StartGate,
        cwd: Path,
        env: Mapping[str, str],
        network: Network,
        *,
        terminal: bool = False,
        own_network: bool = False,
    ) -> list[str]:
        """Return the command behind bubblewrap's walls, and under the filter for what they leave open."""
        online = network is Network.HOST
        alone = own_network or (self.wall.level is Isolation.FULL and not online)
        apart = Namespaces(network=alone, own_user=self.view is not None)
        openings = Openings(
            # Abstract sockets belong to a network, so one of its own holds them; on the host's only a scope does.
            local=apart.network or not apart.own_user or bubblewrap.scopes(),
            internet=online or apart.network,
            large_segments=self.limiter is None or self.limiter.mechanism == "cgroup",
        )
        return bubblewrap.wrap(
            argv,
            gate,
            cwd=cwd,
            env=env,
            mounts=self._mounts(),
            apart=apart,
            openings=openings,
            limited=self.limiter is not None,
            terminal=terminal,
        )

    @contextlib.contextmanager
    def _scoped(self) -> Iterator[Callable[[process.Start], process.Started]]:
        """Give what starts bubblewrap: a thread with Landlock's scopes, which lives as long as the command does."""
        if self.view is None or not bubblewrap.scopes():
            yield self._start
            return
        with landlock.scoped() as thread:
            yield lambda start: thread.call(lambda: self._start(start))

    def _start(self, start: process.Start) -> process.Started:
        return self.limiter.start(start) if self.limiter else start()

    def _let_go(self, gate: StartGate, timeout_s: float) -> None:
        gate.started()
        child = gate.child()
        if child is None:
            return  # bubblewrap failed: nothing waits
        if self.limiter:
            self.limiter.take(child, timeout_s, self.workspace.folder, own_user=self.view is not None)
        if gate.reach(child, timeout_s):
            self.let_in(gate.door)

    def _outside(self) -> dict[str, str]:
        """What bubblewrap itself finds. By the mark it is found if the engine dies while it still sets itself up."""
        return {"PATH": executables.search_path(), environment.RUN: self.workspace.name}

    def _mounts(self) -> list[str]:
        if self.view:
            self._refuse_links()
            shared = self.limiter.limits.memory_bytes if self.limiter and bubblewrap.sizes() else None
            shown = self.view.there()
            if shown != self._shown:
                self._shown, self._words = shown, list(shown.words(shared))
            return self._words
        seen = [word for pair in self.workspace.read_only for word in ("--ro-bind", *map(os.fspath, pair))]
        repo = os.fspath(self.workspace.repo)
        shut = (["--bind", repo, repo], ["--remount-ro", repo]) if self.read_only else ([], [])
        return [*bubblewrap.WHOLE_MACHINE, *shut[0], *seen, *shut[1]]

    @cached_property
    def _points(self) -> list[Path]:
        return list(dict.fromkeys(self.view.points())) if self.view else []

    def _refuse_links(self) -> None:
        """Mount points are made while the machine is still in sight: a link in their way would lead out."""
        for path in self._points:
            if path.is_symlink():
                raise SandboxEscape(
                    f"a command put a link where {path.name} is to be mounted",
                    next_step="reflectloop unlock --reason TEXT",
                )

    def _inside(self, path: Path) -> Path:
        return self.view.root / path.relative_to(self.workspace.repo) if self.view else path

    @staticmethod
    def _judge(ended: process.ProcessEnd, code: int | None, argv: list[str], recorder: Recorder) -> process.ProcessEnd:
        """Without the command's own exit code, and not by a signal, it was bubblewrap that failed."""
        if code in (NOT_FOUND, NOT_RUNNABLE) and recorder.beginning.startswith(_NOT_LED):
            recorder.take("stderr", f"{argv[0][:200]}: {_WHY[code]}\n".encode())
        if code is not None:
            return ended._replace(code=code)
        if ended.timed_out or ended.idle or ended.cancelled or ended.over or ended.code > _BY_SIGNAL:
            return ended
        if _NOT_STARTED in recorder.beginning:
            code = NOT_FOUND if os.strerror(errno.ENOENT).encode() in recorder.beginning else NOT_RUNNABLE
            recorder.take("stderr", f"{argv[0][:200]}: {_WHY[code]}\n".encode())
            return ended._replace(code=code)
        said = recorder.beginning.decode("utf-8", "replace").strip()[:300]
        raise SandboxCreateFailed(f"bubblewrap could not start the command: {said}", next_step="reflectloop doctor")

    def interact(self, command: list[str]) -> int:
        """Hand the terminal to a command that sees what the others saw."""
        env = self._environment
        if self.wall.by == "nothing":
            return process.interactive(command, cwd=self.workspace.repo, env=env)
        if self.wall.by == "landlock":
            with self._shut_in(self.wall.network(None)) as thread:
                return thread.call(lambda: process.interactive(command, cwd=self.workspace.repo, env=env))
        gate = StartGate(_TERMINAL)
        try:
            wrapped = self._wrapped(
                command, gate, self._inside(self.workspace.repo), env, self.wall.network(None), terminal=True
            )
            with self._scoped() as start:
                return process.interactive(
                    wrapped,
                    cwd=self.workspace.repo,
                    env=self._outside(),
                    pass_fds=gate.inherited,
                    begun=lambda: self._let_go(gate, _A_DAY_S),
                    start=start,
                )
        finally:
            gate.close()
