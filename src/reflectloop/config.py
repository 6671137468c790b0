"""The few things that can be set, each with a default that serves: by the user's own file and by the project's."""

from __future__ import annotations

import difflib
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, StrictInt, ValidationError, model_validator
from pydantic_core import ErrorDetails

from reflectloop import trust
from reflectloop.errors import Fault, InvalidInput, NotTrusted
from reflectloop.system import beneath
from reflectloop.terms import AgentNetwork, Isolation, Network, Role, wrong_shape
from reflectloop.trust import grants, record
from reflectloop.trust.grants import Table

NAME = "reflectloop.toml"
# Settings that name files: in the user's own file they are meant from its folder, never from a project's.
_PATHS = {
    "workspace": {"root"},
    "box": {"read"},
    "cost": {"prices"},
    "secrets": {"rules", "baseline"},
    "policy": {"rules"},
    "reflect": {"rules"},
}


class ConfigSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkspaceConfig(ConfigSection):
    root: Path | None = Field(default=None, description="where workspaces are made; default: the system's temp folder")
    keep_failed: Annotated[StrictInt, Field(ge=0)] = Field(default=3, description="failed workspaces kept to look at")

    warm: bool = Field(default=True, description="keep one finished workspace to start the next run from")
    exclude: tuple[str, ...] = Field(default=(), description="more that copy mode leaves out, as gitignore patterns")
    carry: tuple[str, ...] = Field(
        default=(".venv", "node_modules"), description="ignored folders that commands may read in place"
    )
    carry_copy: tuple[str, ...] = Field(default=(), description="ignored folders copied into each workspace")
    largest_change_mb: Annotated[StrictInt, Field(ge=1)] = Field(
        default=500, description="largest file a run may add, change or delete; its patch takes 2 to 6 times the memory"
    )
    largest_total_mb: Annotated[StrictInt, Field(ge=1)] = Field(
        default=1000, description="what a step may add or change in all, counted as if no file had holes"
    )
    record_s: Annotated[StrictInt, Field(ge=1)] = Field(
        default=600, description="time that looking through and recording what a step left may take"
    )

    @property
    def names_carried(self) -> tuple[str, ...]:
        """What the user says is carried, as opposed to what we look for."""
        return self.carry if "carry" in self.model_fields_set else ()


class RunConfig(ConfigSection):
    env_allow: tuple[str, ...] = Field(default=(), description="variables of yours that commands may see")
    idle_s: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=120, description="doing nothing at all for so long is waiting for input"
    )
    grace_s: Annotated[float, Field(ge=0, le=600)] = Field(default=5.0, description="between TERM and KILL")
    log_cap_mb: Annotated[StrictInt, Field(ge=1, le=4096)] = Field(
        default=8, description="kept of each command's output"
    )


class BoxConfig(ConfigSection):
    isolation: Isolation = Field(default=Isolation.WORKSPACE, description="the least isolation a run may have")
    strongest: Isolation = Field(default=Isolation.FULL, description="go no further, though the machine could")
    read: tuple[Path, ...] = Field(default=(), description="more folders that commands may read: caches, toolchains")
    processes: Annotated[StrictInt, Field(ge=16)] = Field(default=4096, description="at once, threads counted")
    memory_mb: Annotated[StrictInt, Field(ge=64)] | None = Field(
        default=None, description="of a command and all it starts; default: three quarters of the machine's"
    )
    file_mb: Annotated[StrictInt, Field(ge=1)] = Field(default=16384, description="the largest file written")
    disk_mb: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None, description="what all commands of a workspace write; default: three quarters of what is free"
    )


class PublishConfig(ConfigSection):
    claude: bool = Field(default=False, description="also write results, logs and blockers under .claude/state")
    claude_home: bool = Field(default=False, description="also write the stop latch to ~/.claude/latch.lock")
    research: bool = Field(
        default=False, description="also write reflections and revised outputs under research_data and knowledge"
    )
    triflow: bool = Field(default=False, description="also write state.json, todo.md and plan_log.md as TriFlow does")


BackendKind = Literal["script", "command", "claude", "codex", "http", "acp"]
KINDS: tuple[str, ...] = get_args(BackendKind)
_BACKEND = "the agent that plays it: a kind, or the name of an [agents.NAME] table"
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


class RolesConfig(ConfigSection):
    planner: str | None = Field(default=None, description=_BACKEND)
    second_planner: str | None = Field(default=None, description=_BACKEND)
    executor: str | None = Field(default=None, description=_BACKEND)
    reviewer: str | None = Field(default=None, description=_BACKEND)
    critic: str | None = Field(default=None, description=_BACKEND)
    researcher: str | None = Field(default=None, description=_BACKEND)

    def bound_to(self, role: Role) -> str | None:
        return cast("str | None", getattr(self, role.value))


_HOST_AND_PORT = r"^([A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:]{2,45}\])(:[0-9]{1,5})?$"


class AgentConfig(ConfigSection):
    kind: BackendKind | None = Field(default=None, description="what drives it; default: the table's own name")
    run: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="the program and its first words; default for claude and codex: found on PATH"
    )
    file: Path | None = Field(default=None, description="script: the YAML or Python file it plays")
    model: str | None = Field(default=None, description="which model is asked for")
    protocol: Literal["anthropic", "openai"] = Field(default="anthropic", description="http: what the server speaks")
    base_url: str | None = Field(default=None, description="where the model's server is; default: the maker's own")
    key_env: Annotated[str, Field(pattern=_VARIABLE)] | None = Field(
        default=None, description="the variable of yours that holds its key; never the key itself"
    )
    env: tuple[Annotated[str, Field(pattern=_VARIABLE)], ...] = Field(
        default=(), description="more variables of yours that its program may see"
    )
    network: AgentNetwork | None = Field(
        default=None,
        description="what its program can reach; default: its model's address where that is known, else nothing",
    )
    reach: tuple[Annotated[str, Field(pattern=_HOST_AND_PORT)], ...] = Field(
        default=(), description="more hosts that its program may connect to, `host` (port 443) or `host:port`"
    )
    window: Annotated[StrictInt, Field(ge=1000)] | None = Field(
        default=None, description="tokens its model can hold; default: by the model's name"
    )
    reply_tokens: Annotated[StrictInt, Field(ge=16)] = Field(default=8192, description="http: the longest answer")
    turns: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(default=20, description="turns it may take in a step")
    timeout_s: Annotated[StrictInt, Field(ge=1)] = Field(default=1800, description="time it may take in a step")


class CostConfig(ConfigSection):
    prices: Path | None = Field(default=None, description="a TOML file of prices of your own, before the shipped ones")
    tokens: Annotated[StrictInt, Field(ge=1)] | None = Field(default=None, description="all agents of a task together")
    usd: Annotated[float, Field(gt=0)] | None = Field(default=None, description="all agents of a task together")
    wall_s: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None, description="time all agents of a task take together"
    )


class SecretsConfig(ConfigSection):
    rules: Path | None = Field(default=None, description="a file of rules of your own, besides the shipped ones")
    baseline: Path | None = Field(default=None, description="a file of fingerprints that are let stand")


class PolicyConfig(ConfigSection):
    allow: tuple[str, ...] = Field(
        default=(), description="rules that are not applied, by id: reflectloop policy rules"
    )
    rules: Path | None = Field(default=None, description="a YAML file of rules of your own, besides the shipped ones")


class Service(ConfigSection):
    """A server that a check needs: started beside it, on the loopback of its box, and ended with it."""

    run: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    ready_url: Annotated[str, Field(pattern=r"^http://(localhost|127\.0\.0\.1)(:[0-9]{1,5})?(/[!-~]*)?$")]
    timeout_s: Annotated[StrictInt, Field(ge=1, le=3600)] = 30


class ConfiguredCheck(ConfigSection):
    name: Annotated[str, Field(min_length=1, max_length=64)]
    run: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    kind: Literal["test", "lint", "type", "build", "custom"] = "test"
    cwd: str = "."
    service: Service | None = None


class VerifyConfig(ConfigSection):
    checks: tuple[ConfiguredCheck, ...] = Field(
        default=(), description="the project's checks, instead of detected ones"
    )
    setup: tuple[tuple[str, ...], ...] = Field(
        default=(), description="commands that install dependencies, run with the network, kept by lock files"
    )
    timeout_s: Annotated[StrictInt, Field(ge=1)] = Field(default=1800, description="of each check")
    protect: tuple[str, ...] = Field(default=(), description="more that a patch may not change, as globs")


class ReflectConfig(ConfigSection):
    rules: Path | None = Field(
        default=None, description="a file of rules of diagnosis and policies of your own, before the shipped ones"
    )


class Config(ConfigSection):
    workspace: WorkspaceConfig = WorkspaceConfig()
    run: RunConfig = RunConfig()
    box: BoxConfig = BoxConfig()
    publish: PublishConfig = PublishConfig()
    roles: RolesConfig = RolesConfig()
    agents: dict[str, AgentConfig] = Field(default={}, description="agents that roles can be bound to, by name")
    cost: CostConfig = CostConfig()
    secrets: SecretsConfig = SecretsConfig()
    policy: PolicyConfig = PolicyConfig()
    verify: VerifyConfig = VerifyConfig()
    reflect: ReflectConfig = ReflectConfig()
    _ignored: tuple[str, ...] = PrivateAttr(default=())

    @property
    def ignored(self) -> tuple[str, ...]:
        """What the project's file says and nobody trusted, by name."""
        return self._ignored

    def refuse_without(self, *names: str) -> None:
        """Refuse to go on where one of these settings, or of the settings below them, was ignored."""
        missing = [key for key in self._ignored if any(key == name or key.startswith(f"{name}.") for name in names)]
        if missing:
            raise NotTrusted(
                f"this needs {', '.join(missing)} of {NAME}, which nobody has trusted",
                missing=tuple(f"trust:{key}" for key in missing),
            )

    @model_validator(mode="after")
    def _roles_are_bound_to_agents(self) -> Config:
        known = [*KINDS, *self.agents]
        for role in Role:
            name = self.roles.bound_to(role)
            if name is not None and name not in known:
                raise ValueError(f"roles.{role} is bound to {name!r}, which is no agent; known: {', '.join(known)}")
        for name, agent in self.agents.items():
            if agent.kind is None and name not in KINDS:
                raise ValueError(f"agents.{name} needs a kind: one of {', '.join(KINDS)}")
        return self

    def network_of(self, role: Role) -> Network | None:
        """What the program that plays a role can reach; None where it has none, or nobody plays it."""
        name = self.roles.bound_to(role)
        agent = self.agent(name) if name else None
        if agent is None or agent.kind in ("script", "http"):
            return None  # the engine itself asks, and its commands are steps' commands
        return Network(agent.network) if agent.network in (AgentNetwork.HOST, AgentNetwork.NONE) else None

    def agent(self, name: str) -> AgentConfig:
        """The agent of that name, its kind settled."""
        found = self.agents.get(name, AgentConfig())
        return found.model_copy(update={"kind": found.kind or name})


class Sources(NamedTuple):
    """What each file says, and what became of it."""

    config: Config  # in force
    user: Table
    project: Table
    split: trust.SettingsSplit
    is_trusted: bool  # whether the project's grants count


def load(project_root: Path) -> Config:
    """Return the settings in force: the user's own, tightened by the project, and loosened by it as far as trusted."""
    return sources(project_root).config


def sources(project_root: Path) -> Sources:
    """Read both files. What the project grants and nobody trusted is left out, and remembered to be said."""
    user, settings = _user_settings(project_root)
    path = project_root / NAME
    raw = _read(path, within=project_root)
    if raw is None:
        return Sources(settings, user, {}, trust.SettingsSplit({}, (), ()), is_trusted=False)
    values = _parse(path, raw)
    whole = _validate(path, raw, grants.merge(user, values))
    values = grants.normal(values, whole.model_dump(mode="json"))
    parts = trust.split(values, settings.model_dump(mode="json"), frozenset(settings.agents))
    is_trusted = bool(parts.grants) and (trust.is_by_flag() or record.holds(project_root, parts.grants))
    if not parts.grants or is_trusted:
        trust.ignore(project_root, ())
        return Sources(whole, user, values, parts, is_trusted)
    tightened = _validate(path, raw, grants.merge(user, parts.always))
    tightened._ignored = tuple(grant.key for grant in parts.grants) + parts.dropped  # noqa: SLF001 - our own class
    trust.ignore(project_root, tightened.ignored)
    return Sources(tightened, user, values, parts, is_trusted=False)


def user_file() -> Path:
    """Return the user's own settings. A relative XDG_CONFIG_HOME would mean a folder of whatever project we are in."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".config"
    return base / "reflectloop" / "config.toml"


def _user_settings(project_root: Path) -> tuple[Table, Config]:
    """Return what the user's file says, its paths made absolute, and the settings in force without a project."""
    path = user_file()
    raw = _read(path)
    if raw is None:
        return {}, Config()
    if path.resolve().is_relative_to(project_root.resolve()):
        raise InvalidInput(
            f"{path} lies inside the project, which could have brought it",
            next_step="set XDG_CONFIG_HOME to a folder outside of the project",
        )
    values = _parse(path, raw)
    settings = _validate(path, raw, values)
    for section, names in _PATHS.items():
        for name in names & values.get(section, {}).keys():
            values[section][name] = _absolute(path.parent, values[section][name])
    for agent in values.get("agents", {}).values():
        if "file" in agent:
            agent["file"] = _absolute(path.parent, agent["file"])
    return values, _validate(path, raw, values) if settings != Config() else settings


def _absolute(folder: Path, value: Any) -> Any:  # noqa: ANN401 - one path or several
    if isinstance(value, list):
        return [_absolute(folder, part) for part in value]
    return os.fspath(folder / Path(value).expanduser())


def _read(path: Path, *, within: Path | None = None) -> bytes | None:
    """Return a settings file's content; None where there is none. Devices, pipes and huge files are refused.

    With `within` it is a project's file. Without, it is the user's own, which nobody else may be able to write.
    """
    try:
        if within is None:
            _refuse_foreign(path)
        return beneath.read_path(path, within=within)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise InvalidInput(
            f"cannot read {path}: {fault.strerror}", next_step=f"look at {path}, and remove or replace it"
        ) from fault


def _refuse_foreign(path: Path) -> None:
    status = path.stat()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o002:
        raise InvalidInput(
            f"{path} belongs to another user, or everybody may write to it",
            next_step=f"look at it, then: chown $(id -u) {path} && chmod go-w {path}",
        )


def _parse(path: Path, raw: bytes) -> Table:
    try:
        values = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise InvalidInput(f"{path} is not TOML: {fault}", next_step=f"correct {path}") from fault
    return values


def _validate(path: Path, raw: bytes, values: Table) -> Config:
    try:
        return Config.model_validate(values)
    except ValidationError as fault:
        faults = tuple(_fault(error, raw) for error in fault.errors())
        raise InvalidInput(f"{path} has {len(faults)} fault(s)", next_step=f"correct {path}", faults=faults) from fault


def _fault(error: ErrorDetails, raw: bytes) -> Fault:
    place = tuple(error["loc"])
    message = wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
    if error["type"] == "extra_forbidden":
        known = _known(place[:-1])
        close = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=0.5)
        message = "unknown key; " + (f"did you mean '{close[0]}'?" if close else f"known here: {', '.join(known)}")
    name = str(next((part for part in reversed(place) if isinstance(part, str)), ""))
    lines = raw.decode().splitlines()
    line = next((number for number, text in enumerate(lines, 1) if text.lstrip(" [").startswith(name)), None)
    return Fault(".".join(str(part) for part in place), line, message, InvalidInput.code)


def _known(place: tuple[str | int, ...]) -> list[str]:
    if place[:1] == ("agents",):
        return list(AgentConfig.model_fields)
    if place[:2] == ("verify", "checks"):
        return list((Service if "service" in place else ConfiguredCheck).model_fields)
    model: type[BaseModel] = Config
    for part in place:
        model = model.model_fields[str(part)].annotation  # type: ignore[assignment]
    return list(model.model_fields)
