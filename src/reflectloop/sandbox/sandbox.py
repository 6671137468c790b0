"""Runs one untrusted command in a workspace, and tells a failed command from a failed sandbox."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
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
from reflectloop.system import bubblewrap, executables, landlock, overlay, process
from reflectloop.system.bubblewrap import Namespaces, StartGate
from reflectloop.system.seccomp import Openings
from reflectloop.system.start_gate import NAME, Door
from reflectloop.terms import Isolation, Network
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.record_tree import changed_since, time_mark

SHELL = ("bash", "-e", "-o", "pipefail", "-c")
NOT_FOUND = 127
NOT_RUNNABLE = 126
_A_DAY_S = 86400.0  # an interactive shell has no real time limit
_TERMINAL = 0  # standard input
_BY_SIGNAL = 128  # exit codes above it mean a signal
_NOT_STARTED = b"bwrap: execvp "
_NOT_LED = (b"setsid: failed to execute ", f"{NAME}: ".encode())
_WHY = {NOT_FOUND: "command not found", NOT_RUNNABLE: "cannot be run"}
_DEVICES = tuple(Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "ptmx"))


def _ignore(_: bytes) -> None:
    return None


class SandboxCommand(NamedTuple):
    """A command to run, with its limits and the receivers of its output."""

    command: str | tuple[str, ...]
    cwd: Path
    log: Path
    timeout_s: float
    env: Mapping[str, str] = {}
    show: Callable[[bytes], None] = _ignore  # receives redacted output as it arrives
    look: Callable[[bytes], None] = _ignore  # receives raw standard output, for checks; never stored
    apart: Callable[[str, bytes], None] | None = None  # receives redacted output with its stream's name, if not merged
    merge: bool = True
    idle_s: float | None = None
    network: Network | None = None
    stdin: int = process.NOTHING  # the descriptor of its standard input
    forward: Forward | None = None  # the addresses it can reach; overrides `network`


class CommandResult(NamedTuple):
    exit_code: int
    timed_out: bool
    duration_ms: int
    idle: bool = False
    cancelled: bool = False
    limit: str | None = None  # the limit it reached, as text
    doubtful: tuple[str, ...] = ()  # possible secrets that were redacted in its output
    refused: tuple[str, ...] = ()  # addresses that its proxy refused


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
    read_only: bool = False  # True if commands may not change the workspace
    home: Path | None = None  # replaces the workspace's HOME
    env: Mapping[str, str] = field(default_factory=dict)  # more variables of every command
    marked: bool = True  # True if variables tell a command that this engine runs it; sealed checks must not know it
    sealed: Callable[[], Sequence[tuple[Path, Path]]] = tuple  # paths in the workspace to mount read-only, and sources
    own_tools: bool = True  # True if the project's own environments come first in PATH
    let_in: Callable[[Door], None] = Door.open  # called when the command is ready to start
    aside: Callable[[], AbstractContextManager[None]] = nullcontext  # entered while a command runs
    _count: int = field(default=0, init=False)
    _mounted: MountTable | None = field(default=None, init=False)  # the table behind `_mount_argv`
    _mount_argv: list[str] = field(default_factory=list, init=False)

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
        """Create a sandbox from the project's settings."""
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
        """Return the mounts of the commands, or None if they see the machine as it is."""
        if not self.wall.mounted:
            return None
        return mounts.build_mounts(self.workspace, self.caller, self.readable, home=self.home, read_only=self.read_only)

    def for_agent(self, home: Path, *, read_only: bool) -> Box:
        """Return this sandbox for an agent's program, with a separate HOME and optionally read-only.

        The project's tools do not come first: the agent is the user's program and needs the user's interpreters.
        """
        return dataclasses.replace(self, home=home, read_only=read_only, own_tools=False)

    @cached_property
    def _environment(self) -> dict[str, str]:
        built = environment.build(self.workspace, self.caller, self.view, self.env_allow, self.home, marked=self.marked)
        return {**self.env, **built}

    @property
    def _mark(self) -> str:
        """Return the variable by which the processes of the present command are known outside."""
        if self.marked:
            return f"{environment.MARK}={self.workspace.name}.{self._count}"
        return environment.temp_mark(self.workspace.folder)

    def _environment_in(self, cwd: Path) -> dict[str, str]:
        env = {**self._environment, "PATH": environment.past_pyenv(self._environment, cwd, self.workspace.repo)}
        if not self.own_tools:
            return env
        top = self.view.root if self.view else self.workspace.repo
        return {**env, "PATH": environment.with_own_tools(env["PATH"], self.workspace, cwd, top)}

    def run(self, spec: SandboxCommand) -> CommandResult:
        argv = [*SHELL, spec.command] if isinstance(spec.command, str) else list(spec.command)
        tunnel: Tunnel | None = None
        self._count += 1
        env = {**self._environment_in(spec.cwd), **spec.env}
        if self.marked:
            env[environment.MARK] = self._mark.partition("=")[2]
        recorder = Recorder(spec.log, self.log_cap, show=spec.show, look=spec.look, apart=spec.apart, joined=spec.merge)
        try:
            tunnel = self._tunnel(spec)
            with self.aside():
                ended = self._watch(argv, spec, tunnel.environment(env) if tunnel else env, recorder, tunnel)
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

    def _tunnel(self, spec: SandboxCommand) -> Tunnel | None:
        """Return the tunnel for a restricted network, or None if the command's network is not restricted."""
        if spec.forward is None or self.wall.level.rank < Isolation.FS.rank:
            return None
        network_forward.refuse_unrestricted(self.wall, spec.forward)
        return Tunnel(spec.forward, self.caller, namespaced=network_forward.has_own_network(self.wall))

    def _timeouts(self, spec: SandboxCommand) -> process.Timeouts:
        last_mark = [self.workspace.mark_ns]

        def stirred() -> bool:
            since, last_mark[0] = last_mark[0], time_mark(self.workspace.folder)
            try:
                return changed_since(self.workspace.written, since)
            except OSError:
                return True  # it changes permissions or moves folders: it is active

        over = self.limiter.over if self.limiter else None
        return process.Timeouts(spec.timeout_s, self.grace_s, spec.idle_s or self.idle_s, stirred, over)

    def _watch(
        self,
        argv: list[str],
        spec: SandboxCommand,
        env: Mapping[str, str],
        recorder: Recorder,
        tunnel: Tunnel | None = None,
    ) -> process.ProcessEnd:
        if self.wall.by == "bubblewrap":
            return self._run_bubblewrap(argv, spec, env, recorder, tunnel)
        if process.find(argv[0], path=env["PATH"], cwd=spec.cwd) is None:
            recorder.take("stderr", f"{argv[0]}: command not found\n".encode())
            return process.ProcessEnd(NOT_FOUND, timed_out=False, duration_s=0)
        if self.wall.by == "landlock":
            return self._run_landlock(argv, spec, env, recorder, tunnel)
        return self._run_plain(argv, spec, env, recorder)

    def _run_plain(
        self,
        argv: list[str],
        spec: SandboxCommand,
        env: Mapping[str, str],
        recorder: Recorder,
        start: Callable[[process.Start], process.Started] = lambda start: start(),
    ) -> process.ProcessEnd:
        door = Door(spec.stdin)
        try:
            watched = process.SupervisedProcess(
                process.with_parent_death_signal(door.before(argv)),
                cwd=spec.cwd,
                env=env,
                on_output=recorder.take,
                merge=spec.merge,
                marker=self._mark,
                pass_fds=door.inherited,
                cancel=self.cancel,
                start=start,
                stdin=door.stdin,
            )
            door.started()
            if door.wait(spec.timeout_s):  # the process now dies with the engine
                if self.limiter:
                    self.limiter.take(watched.pid, spec.timeout_s, self.workspace.folder, own_user=False)
                self.let_in(door)
            return watched.wait(self._timeouts(spec))
        finally:
            door.close()

    def _run_landlock(
        self, argv: list[str], spec: SandboxCommand, env: Mapping[str, str], recorder: Recorder, tunnel: Tunnel | None
    ) -> process.ProcessEnd:
        if tunnel:
            tunnel.begin()
            network = Network.HOST if tunnel.ports else Network.NONE
        else:
            network = self.wall.network(spec.network)
        with self._landlocked(network, tunnel.ports if tunnel else None) as thread:
            return self._run_plain(argv, spec, env, recorder, thread.call)

    def _landlocked(self, network: Network, ports: tuple[int, ...] | None = None) -> landlock.RestrictedThread:
        space = self.workspace
        return landlock.restricted_thread(
            landlock.LandlockRules(
                read=(
                    *mounts.readable_paths(space, self.caller, self.readable),
                    *((space.repo,) if self.read_only else ()),
                ),
                write=(*(() if self.read_only else (space.repo,)), self.home or space.home, space.tmp, *_DEVICES),
                network=network is Network.HOST,
                ports=ports,
            )
        )

    def _run_bubblewrap(
        self, argv: list[str], spec: SandboxCommand, env: Mapping[str, str], recorder: Recorder, tunnel: Tunnel | None
    ) -> process.ProcessEnd:
        try:
            return self._wrap_and_watch(argv, spec, env, recorder, tunnel)
        except SandboxCreateFailed:
            if (
                tunnel or self.view is None or self.view.there().with_sealed(self.sealed()) == self._mounted
            ):  # a tunnel works for one start only
                raise
        return self._wrap_and_watch(argv, spec, env, recorder, None)  # a masked path disappeared meanwhile

    def _wrap_and_watch(
        self, argv: list[str], spec: SandboxCommand, env: Mapping[str, str], recorder: Recorder, tunnel: Tunnel | None
    ) -> process.ProcessEnd:
        gate = StartGate(spec.stdin)
        try:
            wrapped = self._wrapped(
                tunnel.command(argv) if tunnel else argv,
                gate,
                self._inside(spec.cwd),
                env,
                Network.NONE if tunnel else self.wall.network(spec.network),
                own_network=tunnel is not None and tunnel.namespaced,
            )
            with self._scoped() as start:
                with overlay.alone():
                    watched = process.SupervisedProcess(
                        wrapped,
                        cwd=spec.cwd,
                        env=self._bubblewrap_environment(),
                        on_output=recorder.take,
                        merge=spec.merge,
                        namespaced=True,
                        pass_fds=[*gate.inherited, *(tunnel.inherited if tunnel else ())],
                        cancel=self.cancel,
                        start=start,
                        stdin=gate.door.stdin,
                    )
                    if tunnel:
                        tunnel.begin()
                    self._release(gate, spec.timeout_s)
                ended = watched.wait(self._timeouts(spec))
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
        """Return the command wrapped by bubblewrap and a seccomp filter for what bubblewrap leaves open."""
        online = network is Network.HOST
        alone = own_network or (self.wall.level is Isolation.FULL and not online)
        apart = Namespaces(network=alone, own_user=self.view is not None)
        openings = Openings(
            # A separate network isolates abstract sockets; on the host's network only a Landlock scope does.
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
        """Yield the function that starts bubblewrap: in a thread with Landlock scopes, for the command's lifetime."""
        if self.view is None or not bubblewrap.scopes():
            yield self._start
            return
        with landlock.scoped_thread() as thread:
            yield lambda start: thread.call(lambda: self._start(start))

    def _start(self, start: process.Start) -> process.Started:
        return self.limiter.start(start) if self.limiter else start()

    def _release(self, gate: StartGate, timeout_s: float) -> None:
        gate.started()
        child = gate.child()
        if child is None:
            return  # bubblewrap failed: there is no process
        if self.limiter:
            self.limiter.take(child, timeout_s, self.workspace.folder, own_user=self.view is not None)
        if gate.reach(child, timeout_s):
            self.let_in(gate.door)

    def _bubblewrap_environment(self) -> dict[str, str]:
        """Return bubblewrap's own environment; the marker finds it if the engine dies during its set-up."""
        mark = f"{environment.RUN}={self.workspace.name}" if self.marked else self._mark
        name, _, value = mark.partition("=")
        return {"PATH": executables.search_path(), name: value}

    def _mounts(self) -> list[str]:
        if self.view:
            self._refuse_links()
            shared = self.limiter.limits.memory_bytes if self.limiter and bubblewrap.sizes() else None
            table = self.view.there().with_sealed(self.sealed())
            if table != self._mounted:
                self._mounted, self._mount_argv = table, list(table.words(shared))
            return self._mount_argv
        binds = [argument for pair in self.workspace.read_only for argument in ("--ro-bind", *map(os.fspath, pair))]
        for path in mounts.caches(self.workspace):
            binds += ["--tmpfs", os.fspath(self.workspace.repo / path)]
        for path, source in self.sealed():
            binds += ["--ro-bind", os.fspath(source), os.fspath(self.workspace.repo / path)]
        repo = os.fspath(self.workspace.repo)
        remounts = (["--bind", repo, repo], ["--remount-ro", repo]) if self.read_only else ([], [])
        return [*bubblewrap.WHOLE_MACHINE, *remounts[0], *binds, *remounts[1]]

    @cached_property
    def _points(self) -> list[Path]:
        return list(dict.fromkeys(self.view.points())) if self.view else []

    def _refuse_links(self) -> None:
        """Raise SandboxEscape if a mount point is a link: bubblewrap would create it outside the sandbox."""
        for path in self._points:
            if path.is_symlink():
                raise SandboxEscape(
                    f"a command placed a link at the mount point {path.name}",
                    next_step="reflectloop unlock --reason TEXT",
                )

    def _inside(self, path: Path) -> Path:
        return self.view.root / path.relative_to(self.workspace.repo) if self.view else path

    @staticmethod
    def _judge(ended: process.ProcessEnd, code: int | None, argv: list[str], recorder: Recorder) -> process.ProcessEnd:
        """Return the command's end; raise SandboxCreateFailed if bubblewrap failed before it started."""
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
        output = recorder.beginning.decode("utf-8", "replace").strip()[:300]
        raise SandboxCreateFailed(f"bubblewrap could not start the command: {output}", next_step="reflectloop doctor")

    def interact(self, command: list[str]) -> int:
        """Run an interactive command on the terminal with the same isolation."""
        env = self._environment_in(self.workspace.repo)
        if self.wall.by == "nothing":
            return process.interactive(command, cwd=self.workspace.repo, env=env)
        if self.wall.by == "landlock":
            with self._landlocked(self.wall.network(None)) as thread:
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
                    env=self._bubblewrap_environment(),
                    pass_fds=gate.inherited,
                    begun=lambda: self._release(gate, _A_DAY_S),
                    start=start,
                )
        finally:
            gate.close()
