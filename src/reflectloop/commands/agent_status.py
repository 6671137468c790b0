"""`agents`: list the agents, their roles and what each lacks; with `check`, send each a test prompt."""

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
from reflectloop.errors import AgentUnavailable, InvalidInput, NotTrusted, ReflectloopError
from reflectloop.sandbox import isolation
from reflectloop.sandbox.environment import status
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.system import process
from reflectloop.system.undo import on_failure
from reflectloop.terms import Role, install_extra
from reflectloop.workspace import project
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.store import Store

State = Literal["ready", "unavailable", "not set up"]
_ABILITIES = ("schema_output", "os_sandbox", "resume", "usage")
_PROMPT = "This is a test of the connection. Use no tools. Answer with the one word: ready"
_CHECK = AgentLimits(turns=3, timeout_s=90.0, usd=0.25)
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_VERSION_S = 30.0
_POLL_S = 0.2
_LONGEST_VERSION = 4096
_PROGRAMS = ("claude", "codex")  # found on PATH, whether the settings name them or not
_NEEDS = {"script": "file", "command": "run", "acp": "run", "http": "model"}
_PACKAGES = {"acp": "acp", "http": "httpx"}
_KEYS = {"claude": claude.KEYS, "codex": codex.KEYS, "anthropic": claude.KEYS[:1], "openai": codex.KEYS[:1]}


class AgentRow(NamedTuple):
    """One agent. `keys` says for each variable whether it is set, never its value."""

    name: str
    kind: str
    roles: tuple[str, ...]
    state: State
    probe: Probe
    keys: Mapping[str, str]
    tried: Reply | None = None

    @property
    def is_wanting(self) -> bool:
        """Return True if a role is bound to this agent, and it is not available or did not answer."""
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
    free: tuple[str, ...]  # roles bound to no agent
    untrusted: tuple[str, ...] = ()  # roles that the project binds to an agent the user has not trusted

    @property
    def fault(self) -> AgentUnavailable | NotTrusted | None:
        if self.untrusted:
            return NotTrusted(
                f"{', '.join(self.untrusted)} is bound by {config.NAME} to an agent that you have not trusted",
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


def list_agents(start: Path, named: Sequence[str] = (), *, check: bool = False) -> AgentTable:
    """Return all agents, or those named. `check` asks a question of those that are named or have a role."""
    root = _root(start)
    settings = config.load(root)
    secrets.use_detector(secrets.detector_for(settings.secrets, root))
    caller = dict(os.environ)
    known = list(dict.fromkeys([*settings.agents, *KINDS]))
    unknown = [name for name in named if name not in known]
    if unknown:
        raise InvalidInput(
            f"there is no agent {unknown[0]!r}; known: {', '.join(known)}", next_step="reflectloop agents"
        )
    names = list(dict.fromkeys(named)) or known
    with ThreadPoolExecutor() as pool:
        rows = list(pool.map(lambda name: _row(name, settings, root, caller), names))
    if check:
        asked = [row for row in rows if named or row.roles]
        answered = {row.name: row for row in _try_all(asked, settings, root, caller)}
        rows = [answered.get(row.name, row) for row in rows]
    free = tuple(role.value for role in Role if settings.roles.bound_to(role) is None)
    return AgentTable(rows, free, tuple(role for role in free if f"roles.{role}" in settings.ignored))


def _try_all(rows: list[AgentRow], settings: Config, root: Path, caller: Mapping[str, str]) -> list[AgentRow]:
    # An interrupt cancels before the pool waits; it can arrive while the last is submitted and the first already runs.
    with contextlib.closing(process.Cancel()) as cancel, ThreadPoolExecutor() as pool, on_failure(cancel.set):
        waiting = [pool.submit(_try, row, settings, root, caller, cancel) for row in rows]
        while wait(waiting, timeout=_POLL_S).not_done:  # poll: a signal may be delivered to another thread
            pass
        return [future.result() for future in waiting]


def _root(start: Path) -> Path:
    try:
        return project.locate(start)
    except ReflectloopError:  # agents can be listed anywhere
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
    """Return what a kind of agent lacks, without importing its packages, which is slow."""
    package = _PACKAGES.get(kind)
    if package and importlib.util.find_spec(package) is None:
        return Probe(problem=f"needs the package {package}", next_step=install_extra(kind))
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


def _try(row: AgentRow, settings: Config, root: Path, caller: Mapping[str, str], cancel: process.Cancel) -> AgentRow:
    """Return the row with the reply to a test prompt; a script answers only its own prompts and is not asked."""
    if row.state != "ready" or row.kind == "script":
        return row
    try:
        backend = agents.bind(row.name, settings, caller, root)
        paths = [root / word for word in settings.agent(row.name).run if not Path(word).is_absolute()]
        programs = [(path, path.relative_to(root)) for path in paths if path.is_file()]
        reply, version = _ask(backend, settings, caller, cancel, programs, _program(row, settings, caller))
        return row._replace(tried=reply, probe=row.probe._replace(version=version or row.probe.version))
    except ReflectloopError as fault:
        return row._replace(tried=Reply("error", reason=fault.message))


def _program(row: AgentRow, settings: Config, caller: Mapping[str, str]) -> tuple[str, ...]:
    """Return the argv of a program that has a `--version` option; empty for other kinds of agents."""
    if row.kind not in _PROGRAMS:
        return ()
    return subprocess_agent.find_command(row.name, settings.agent(row.name), caller, "", row.kind)


def _ask(
    agent: Backend,
    settings: Config,
    caller: Mapping[str, str],
    cancel: process.Cancel,
    programs: Sequence[tuple[Path, Path]] = (),
    argv: Sequence[str] = (),
) -> tuple[Reply, str | None]:
    """Send the test prompt to an agent, read-only, in a folder that contains only the agent's own program."""
    with _scratch() as (top, space):
        for source, name in programs:
            _copy(source, space.repo / name, alone=name.parent == Path())
        level = isolation.choose_level(settings.box.isolation, settings.box.strongest)
        home = top / "agent"
        home.mkdir()
        box = Box.by(settings, space, caller, level, None, cancel).for_agent(home, read_only=True)
        reply = agent.run(AgentRequest(Role.RESEARCHER, _PROMPT, box, top / "logs", _CHECK))
        return reply._replace(raw_log=None), _version(box, argv, top / "version.log")


def _version(box: Box, argv: Sequence[str], log: Path) -> str | None:
    """Return the version that a program prints, run in the sandbox; None if it prints none."""
    if not argv:
        return None
    command = SandboxCommand((*argv, "--version"), box.workspace.repo, log, _VERSION_S)
    if subprocess_agent.with_program_readable(box, argv).run(command).exit_code:
        return None
    match = _VERSION.search(log.read_bytes()[:_LONGEST_VERSION].decode("utf-8", "replace"))
    return match.group() if match else None


def _copy(source: Path, target: Path, *, alone: bool) -> None:
    """Copy a program; unless it lies at the top of the project, copy its whole folder."""
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
