"""`agents`: which agents there are, what each can do, what it lacks; tried with one line where that is wanted."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflectloop import agents, config, secrets
from reflectloop.agents import AgentLimits, AgentRequest, Backend, Probe, Reply, claude, codex, subprocess_agent
from reflectloop.config import KINDS, AgentConfig, Config
from reflectloop.errors import AgentUnavailable, NotTrusted, ReflectloopError
from reflectloop.sandbox import isolation
from reflectloop.sandbox.environment import status
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.system import process
from reflectloop.terms import Role
from reflectloop.workspace import project
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.store import Store

State = Literal["ready", "unavailable", "not set up"]
_ABILITIES = ("schema_output", "os_sandbox", "resume", "usage")
_PROMPT = "This is a test of the connection. Use no tools. Answer with the one word: ready"
_CHECK = AgentLimits(turns=3, timeout_s=90.0, usd=0.25)
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_VERSION_S = 30.0
_TURN_S = 0.2
_LONGEST_VERSION = 4096
_PROGRAMS = ("claude", "codex")  # found on PATH, whether the settings name them or not
_NEEDS = {"script": "file", "command": "run", "acp": "run", "http": "model"}
_PACKAGES = {"acp": "acp", "http": "httpx"}
_KEYS = {"claude": claude.KEYS, "codex": codex.KEYS, "anthropic": claude.KEYS[:1], "openai": codex.KEYS[:1]}


class AgentRow(NamedTuple):
    """One agent. `keys` says of each variable whether it is set, never what it holds."""

    name: str
    kind: str
    roles: tuple[str, ...]
    state: State
    probe: Probe
    keys: Mapping[str, str]
    tried: Reply | None = None

    @property
    def is_wanting(self) -> bool:
        """Whether a role is bound to what cannot be asked, or did not answer."""
        failed = self.tried is not None and not self.tried.ok
        return bool(self.roles) and (self.state != "ready" or failed)

    @property
    def abilities(self) -> list[str]:
        """Return the names of the optional features that its program has."""
        return [name for name in _ABILITIES if getattr(self.probe, name)]

    def as_data(self) -> dict[str, Any]:
        probe, tried = self.probe, self.tried
        return {
            "name": self.name,
            "kind": self.kind,
            "roles": self.roles,
            "state": self.state,
            "version": probe.version,
            "can": self.abilities,
            "keys": dict(self.keys),
            "problem": probe.problem,
            "next": probe.next_step if probe.problem else None,
            "tried": None
            if tried is None
            else {
                "status": tried.status,
                "reason": tried.reason,
                "duration_ms": tried.duration_ms,
                "tokens": tried.usage.tokens,
                "cost_usd": tried.cost_usd,
            },
        }


class AgentTable(NamedTuple):
    rows: list[AgentRow]
    free: tuple[str, ...]  # roles bound to nothing: rules do what they can, a person the rest
    untrusted: tuple[str, ...] = ()  # roles that the project binds to an agent nobody has trusted

    @property
    def fault(self) -> AgentUnavailable | NotTrusted | None:
        if self.untrusted:
            return NotTrusted(
                f"{', '.join(self.untrusted)} is bound by {config.NAME} to an agent that nobody has trusted",
                missing=tuple(f"trust:roles.{role}" for role in self.untrusted),
            )
        wanting = [row for row in self.rows if row.is_wanting]
        if not wanting:
            return None
        first = wanting[0]
        why = first.probe.problem or (first.tried.reason if first.tried else "") or "is not set up"
        return AgentUnavailable(
            f"{', '.join(first.roles)} is bound to {first.name}: {why}",
            next_step=first.probe.next_step if first.probe.problem else "reflectloop agents --check",
            missing=tuple(f"agent:{row.name}" for row in wanting),
        )

    def as_data(self) -> dict[str, Any]:
        return {"agents": [row.as_data() for row in self.rows], "unbound_roles": self.free}


def listed(start: Path, *, check: bool = False) -> AgentTable:
    root = _root(start)
    settings = config.load(root)
    secrets.use(secrets.of(settings.secrets, root))
    caller = dict(os.environ)
    names = list(dict.fromkeys([*settings.agents, *KINDS]))
    with ThreadPoolExecutor() as pool:
        rows = list(pool.map(lambda name: _row(name, settings, root, caller), names))
    if check:
        rows = _all_tried(rows, settings, root, caller)
    free = tuple(role.value for role in Role if settings.roles.bound_to(role) is None)
    return AgentTable(rows, free, tuple(role for role in free if f"roles.{role}" in settings.ignored))


def _all_tried(rows: list[AgentRow], settings: Config, root: Path, caller: Mapping[str, str]) -> list[AgentRow]:
    cancel = process.Cancel()
    try:
        with ThreadPoolExecutor() as pool:
            try:  # an interrupt may come while the last is being submitted and the first already runs
                waiting = [pool.submit(_tried, row, settings, root, caller, cancel) for row in rows]
                while wait(waiting, timeout=_TURN_S).not_done:  # by turns: a signal may be delivered to another thread
                    pass
                return [future.result() for future in waiting]
            except BaseException:
                cancel.set()
                raise
    finally:
        cancel.close()


def _root(start: Path) -> Path:
    try:
        return project.locate(start)
    except ReflectloopError:  # agents can be looked at anywhere
        return start


def _row(name: str, settings: Config, root: Path, caller: Mapping[str, str]) -> AgentRow:
    agent = settings.agent(name)
    kind = str(agent.kind)
    roles = tuple(role.value for role in Role if settings.roles.bound_to(role) == name)
    keys = status(_variables(agent), caller)
    if name not in settings.agents and not roles and kind not in _PROGRAMS:
        return AgentRow(name, kind, roles, "not set up", _lacking(kind), keys)
    probe = _probe(name, settings, root, caller)
    return AgentRow(name, kind, roles, "unavailable" if probe.problem else "ready", probe, keys)


def _lacking(kind: str) -> Probe:
    """Without importing what it needs: some of it is slow."""
    package = _PACKAGES.get(kind)
    if package and importlib.util.find_spec(package) is None:
        return Probe(problem=f"needs the package {package}", next_step=f"pip install 'reflectloop[{kind}]'")
    return Probe(problem=f"needs {_NEEDS[kind]} in [agents.{kind}]", next_step=f"add [agents.{kind}] to {config.NAME}")


def _variables(agent: AgentConfig) -> tuple[str, ...]:
    if agent.key_env:
        return (agent.key_env,)
    return _KEYS.get(agent.protocol if agent.kind == "http" else str(agent.kind), ())


def _probe(name: str, settings: Config, root: Path, caller: Mapping[str, str]) -> Probe:
    try:
        return agents.bind(name, settings, caller, root).probe()
    except ReflectloopError as fault:
        return Probe(problem=fault.message, next_step=fault.next_step)


def _tried(row: AgentRow, settings: Config, root: Path, caller: Mapping[str, str], cancel: process.Cancel) -> AgentRow:
    """A script plays its own story; asking it anything else says nothing."""
    if row.state != "ready" or row.kind == "script":
        return row
    try:
        backend = agents.bind(row.name, settings, caller, root)
        own = [root / word for word in settings.agent(row.name).run if not Path(word).is_absolute()]
        beside = [(path, path.relative_to(root)) for path in own if path.is_file()]
        reply, version = _ask(backend, settings, caller, cancel, beside, _program(row, settings, caller))
        return row._replace(tried=reply, probe=row.probe._replace(version=version or row.probe.version))
    except ReflectloopError as fault:
        return row._replace(tried=Reply("error", reason=fault.message))


def _program(row: AgentRow, settings: Config, caller: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words that ask for a version: only of a kind whose programs are known to say it."""
    if row.kind not in _PROGRAMS:
        return ()
    return subprocess_agent.find_command(settings.agent(row.name), caller, row.kind) or ()


def _ask(
    agent: Backend,
    settings: Config,
    caller: Mapping[str, str],
    cancel: process.Cancel,
    beside: Sequence[tuple[Path, Path]] = (),
    words: Sequence[str] = (),
) -> tuple[Reply, str | None]:
    """In a folder with nothing of the project in it but its own program, as one who may only look."""
    with _scratch() as (top, space):
        for source, name in beside:
            _lay(source, space.repo / name, alone=name.parent == Path())
        wall = isolation.reach(settings.box.isolation, settings.box.strongest)
        home = top / "agent"
        home.mkdir()
        box = Box.by(settings, space, caller, wall, None, cancel).for_agent(home, read_only=True)
        reply = agent.run(AgentRequest(Role.RESEARCHER, _PROMPT, box, top / "logs", _CHECK))
        return reply._replace(raw_log=None), _version(box, words, top / "version.log")


def _version(box: Box, words: Sequence[str], log: Path) -> str | None:
    """Return what a program says its version is, asked in the box."""
    if not words:
        return None
    order = SandboxCommand((*words, "--version"), box.workspace.repo, log, _VERSION_S)
    if subprocess_agent.with_program_readable(box, words).run(order).exit_code:
        return None
    found = _VERSION.search(log.read_bytes()[:_LONGEST_VERSION].decode("utf-8", "replace"))
    return found.group() if found else None


def _lay(source: Path, target: Path, *, alone: bool) -> None:
    """A program and, where it has a folder of its own, what lies there with it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if alone:
        shutil.copyfile(source, target)
    else:
        shutil.copytree(source.parent, target.parent, symlinks=True, dirs_exist_ok=True)


@contextlib.contextmanager
def _scratch() -> Iterator[tuple[Path, Workspace]]:
    with tempfile.TemporaryDirectory(prefix="reflectloop-agents-", ignore_cleanup_errors=True) as name:
        top = Path(name).resolve()
        space = Workspace("RLOP-check", top / "box", top / "desk", Store(top / "desk", "sha1"), "", "", 0)
        space.root = top / "project"
        for path in (space.folder, space.repo, space.home, space.tmp, space.engine_dir, space.root):
            path.mkdir()
        yield top, space
