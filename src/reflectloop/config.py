"""The settings, each with a default: read from the user's file and the project's file."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    StrictInt,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from reflectloop import languages, settings_files, trust
from reflectloop.errors import Fault, InvalidInput, NotTrusted
from reflectloop.terms import AgentNetwork, Isolation, Network, Role, closest, wrong_shape
from reflectloop.trust import grants, record
from reflectloop.trust.grants import Table

NAME = settings_files.NAME
user_file = settings_files.user_file
# Settings that name files: in the user's file they are relative to its folder, never to a project.
_PATHS = {
    "workspace": {"root"},
    "box": {"read"},
    "cost": {"prices"},
    "secrets": {"rules", "baseline"},
    "policy": {"rules"},
    "reflect": {"rules"},
}


_JUDGES = grants.free_settings("verify")  # they need no trust, so they must not come with a change
_CHECKS = "verify.checks"


class ConfigSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkspaceConfig(ConfigSection):
    root: Path | None = Field(default=None, description="folder for workspaces; default: the system's temp folder")
    keep_failed: Annotated[StrictInt, Field(ge=0)] = Field(
        default=3, description="failed workspaces to keep for inspection"
    )

    warm: bool = Field(default=True, description="keep one finished workspace to start the next run from")
    overlay: Literal["auto", "off"] = Field(
        default="auto", description="auto: mount workspaces over a shared copy of the base tree, if this machine can"
    )
    layers_mb: Annotated[StrictInt, Field(ge=0)] = Field(
        default=4000, description="room for such copies; the least recently used are removed first"
    )
    exclude: tuple[str, ...] = Field(
        default=(), description="more files to exclude in copy mode, as gitignore patterns"
    )
    carry: tuple[str, ...] = Field(
        default=(".venv", "node_modules"), description="ignored folders that commands may read in place"
    )
    carry_copy: tuple[str, ...] = Field(default=(), description="ignored files and folders copied into each workspace")
    largest_change_mb: Annotated[StrictInt, Field(ge=1)] = Field(
        default=500, description="largest file a run may add, change or delete; its patch takes 2 to 6 times the memory"
    )
    largest_total_mb: Annotated[StrictInt, Field(ge=1)] = Field(
        default=1000, description="limit for all files that a step adds or changes; sparse files count in full"
    )
    record_s: Annotated[StrictInt, Field(ge=1)] = Field(
        default=600, description="time limit for scanning and recording a step's changes"
    )

    @property
    def names_carried(self) -> tuple[str, ...]:
        """Return the folders from the settings, without the defaults."""
        return self.carry if "carry" in self.model_fields_set else ()


class RunConfig(ConfigSection):
    env_allow: tuple[str, ...] = Field(default=(), description="your variables that commands may see")
    idle_s: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=120, description="without any activity for this time, a command is waiting for input"
    )
    grace_s: Annotated[float, Field(ge=0, le=600)] = Field(default=5.0, description="seconds between TERM and KILL")
    log_cap_mb: Annotated[StrictInt, Field(ge=1, le=4096)] = Field(
        default=8, description="stored output of each command"
    )


class BoxConfig(ConfigSection):
    isolation: Isolation = Field(default=Isolation.WORKSPACE, description="the minimum isolation of a run")
    strongest: Isolation = Field(
        default=Isolation.FULL, description="the maximum isolation, even if the machine supports more"
    )
    read: tuple[Path, ...] = Field(default=(), description="more folders that commands may read: caches, toolchains")
    processes: Annotated[StrictInt, Field(ge=16)] = Field(
        default=4096, description="at the same time, including threads"
    )
    memory_mb: Annotated[StrictInt, Field(ge=64)] | None = Field(
        default=None, description="of a command and its children; default: three quarters of the machine's"
    )
    file_mb: Annotated[StrictInt, Field(ge=1)] = Field(
        default=16384, description="the largest file that a command may write"
    )
    disk_mb: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None, description="written by all commands of a workspace; default: three quarters of the free space"
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
_BACKEND = "the agent for this role: a kind, or the name of an [agents.NAME] table"
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
    kind: BackendKind | None = Field(default=None, description="the backend; default: the table's name")
    run: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="the program and its first arguments; default for claude and codex: found on PATH"
    )
    file: Path | None = Field(default=None, description="script: the YAML or Python file it plays")
    model: str | None = Field(default=None, description="the model to use")
    protocol: Literal["anthropic", "openai"] = Field(default="anthropic", description="http: the server's protocol")
    base_url: str | None = Field(default=None, description="address of the model's server; default: the provider's")
    key_env: Annotated[str, Field(pattern=_VARIABLE)] | None = Field(
        default=None, description="the name of your variable with its key; never the key itself"
    )
    env: tuple[Annotated[str, Field(pattern=_VARIABLE)], ...] = Field(
        default=(), description="more of your variables that its program may see"
    )
    network: AgentNetwork | None = Field(
        default=None,
        description="the network of its program; default: its model's address if known, else none",
    )
    reach: tuple[Annotated[str, Field(pattern=_HOST_AND_PORT)], ...] = Field(
        default=(), description="more hosts that its program may connect to, `host` (port 443) or `host:port`"
    )
    window: Annotated[StrictInt, Field(ge=1000)] | None = Field(
        default=None, description="the model's context window in tokens; default: by the model's name"
    )
    reply_tokens: Annotated[StrictInt, Field(ge=16)] = Field(default=8192, description="http: the longest answer")
    turns: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(default=20, description="maximum turns in a step")
    timeout_s: Annotated[StrictInt, Field(ge=1)] = Field(default=1800, description="time limit in a step")


class CostConfig(ConfigSection):
    prices: Path | None = Field(
        default=None, description="a TOML file with your prices, which override the built-in ones"
    )
    tokens: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None, description="limit for all agents of a task together"
    )
    usd: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="limit for all agents of a task together"
    )
    wall_s: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None, description="time limit for all agents of a task together"
    )


class SecretsConfig(ConfigSection):
    rules: Path | None = Field(default=None, description="a file with your rules, in addition to the built-in ones")
    baseline: Path | None = Field(default=None, description="a file of accepted fingerprints")


class PolicyConfig(ConfigSection):
    allow: tuple[str, ...] = Field(
        default=(), description="ids of rules to disable; list them with: reflectloop policy rules"
    )
    rules: Path | None = Field(
        default=None, description="a YAML file with your rules, in addition to the built-in ones"
    )


class Service(ConfigSection):
    """A server that a check needs: it runs during the check, on the loopback of its sandbox."""

    run: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    ready_url: Annotated[str, Field(pattern=r"^http://(localhost|127\.0\.0\.1)(:[0-9]{1,5})?(/[!-~]*)?$")]
    timeout_s: Annotated[StrictInt, Field(ge=1, le=3600)] = 30


class ConfiguredCheck(ConfigSection):
    name: Annotated[str, Field(min_length=1, max_length=64)]
    run: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    kind: Literal["test", "lint", "type", "build", "custom"] | None = None  # that of the tool, else "test"
    cwd: str = "."
    service: Service | None = None


class VerifyConfig(ConfigSection):
    checks: tuple[ConfiguredCheck, ...] = Field(
        default=(), description="the project's checks, instead of detected ones"
    )
    setup: tuple[tuple[str, ...], ...] = Field(
        default=(), description="commands that install dependencies, run with the network, cached by lock files"
    )
    timeout_s: Annotated[StrictInt, Field(ge=1)] = Field(default=1800, description="time limit of each check")
    protect: tuple[str, ...] = Field(default=(), description="more files that a patch may not change, as globs")
    canaries: StrictBool = Field(
        default=True, description="see outcomes as they happen, and run known tests that notice a changed runner"
    )
    second_run: bool = Field(
        default=True, description="run Python tests once more with another hash seed, time zone, locale and order"
    )
    replay: bool = Field(
        default=True, description="repeat the tests' calls of changed Python functions outside of the test runner"
    )
    neighbours: bool = Field(
        default=True, description="run changed Python functions on inputs near those of the tests, on base and patch"
    )
    sabotage: bool = Field(
        default=True, description="on track fix, require that proving tests fail when the changed functions do"
    )

    @property
    def switched_off(self) -> tuple[str, ...]:
        """Return the names of the parts of a verification that these settings leave out."""
        parts = ("canaries", "second_run", "replay", "neighbours", "sabotage")
        return tuple(name for name in parts if not getattr(self, name))


class ReflectConfig(ConfigSection):
    rules: Path | None = Field(
        default=None, description="a file with your diagnosis rules and policies, which override the built-in ones"
    )


class OutputConfig(ConfigSection):
    language: str = Field(
        default=languages.AUTO, description="of what people read: en, zh, or auto for the language of your locale"
    )

    @field_validator("language")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value != languages.AUTO and value not in languages.names():
            known = ", ".join([languages.AUTO, *languages.names()])
            raise ValueError(f"there is no language {value!r}; known: {known}")
        return value


class AutoloopConfig(ConfigSection):
    apply: Literal["never", "branch", "commit"] = Field(
        default="never", description="where proven work lands by itself: nowhere, a branch of its own, your branch"
    )
    branch: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="reflectloop/autoloop", description="the branch for apply = branch"
    )
    notify: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="a program that is given each message for a person as its last argument"
    )


class Config(ConfigSection):
    output: OutputConfig = OutputConfig()
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
    autoloop: AutoloopConfig = AutoloopConfig()
    _ignored: tuple[str, ...] = PrivateAttr(default=())

    @property
    def ignored(self) -> tuple[str, ...]:
        """Return the names of the project's settings that are ignored because they are not trusted."""
        return self._ignored

    def refuse_without(self, *names: str) -> None:
        """Raise NotTrusted if one of these settings, or a setting below them, was ignored."""
        missing = [key for key in self._ignored if any(key == name or key.startswith(f"{name}.") for name in names)]
        if missing:
            raise NotTrusted(
                f"this needs {', '.join(missing)} of {NAME}, which is not trusted",
                missing=tuple(f"trust:{key}" for key in missing),
            )

    @model_validator(mode="after")
    def _roles_are_bound_to_agents(self) -> Config:
        known = [*KINDS, *self.agents]
        for role in Role:
            name = self.roles.bound_to(role)
            if name is not None and name not in known:
                raise ValueError(f"roles.{role} is bound to {name!r}, which is not an agent; known: {', '.join(known)}")
        for name, agent in self.agents.items():
            if agent.kind is None and name not in KINDS:
                raise ValueError(f"agents.{name} needs a kind: one of {', '.join(KINDS)}")
        return self

    def network_of(self, role: Role) -> Network | None:
        """Return the network of the program for a role, or None if there is no program or no fixed network."""
        name = self.roles.bound_to(role)
        agent = self.agent(name) if name else None
        if agent is None or agent.kind in ("script", "http"):
            return None  # the engine itself calls the model, and its commands are a step's commands
        return Network(agent.network) if agent.network in (AgentNetwork.HOST, AgentNetwork.NONE) else None

    def agent(self, name: str) -> AgentConfig:
        """Return the agent of that name with its kind set."""
        agent = self.agents.get(name, AgentConfig())
        return agent.model_copy(update={"kind": agent.kind or name})


class Sources(NamedTuple):
    """The settings of each file, and the resulting ones."""

    config: Config  # the active settings
    user: Table
    project: Table
    split: trust.SettingsSplit
    is_trusted: bool  # True if the project's grants apply


class JudgingSettings(NamedTuple):
    """The settings by which a change is judged, and which of the work tree's do not count."""

    config: Config
    differing: tuple[str, ...]  # names in [verify] that the work tree has otherwise than base
    grant: grants.Grant  # what the user would have to trust
    by_flag: tuple[str, ...] = ()  # differing ones that count since the user trusts the project for one command


_executors: list[str] = []  # the agent that the command line names, if any


def use_executor(name: str) -> None:
    """Let this agent execute steps in this process, whoever the settings name."""
    _executors[:] = [name]


def load(project_root: Path) -> Config:
    """Return the active settings: the user's, restricted by the project, and extended by it as far as trusted."""
    settings = sources(project_root).config
    if not _executors:
        return settings
    known = [*KINDS, *settings.agents]
    if _executors[0] not in known:
        raise InvalidInput(
            f"--executor {_executors[0]!r} is not an agent; known: {', '.join(known)}", next_step="reflectloop agents"
        )
    return settings.model_copy(update={"roles": settings.roles.model_copy(update={"executor": _executors[0]})})


def sources(project_root: Path) -> Sources:
    """Read both files. The project's grants that are not trusted are ignored, and reported later."""
    return _sources(project_root, settings_files.read(project_root / NAME, within=project_root))


def judging(project_root: Path, base: bytes | None) -> JudgingSettings:
    """Return the active settings, with those that judge a change as the file of base has them.

    The file in the work tree decides about them if the user trusted it. A broken file of base says nothing.
    """
    try:
        then = _sources(project_root, base).config
    except InvalidInput:
        then = _sources(project_root, None).config
    active = load(project_root)
    now = {name: getattr(active.verify, name) for name in _JUDGES}
    judged = {name: getattr(then.verify, name) for name in _JUDGES}
    differing = tuple(name for name in _JUDGES if now[name] != judged[name])
    grant = judging_grant(active)
    if not differing or record.is_trusted(project_root, [grant]):
        return JudgingSettings(active, (), grant)
    if trust.is_by_flag():
        return JudgingSettings(active, (), grant, differing)
    settings = active.model_copy(update={"verify": active.verify.model_copy(update=judged)})
    ours = [key for key in active.ignored if not key.startswith(_CHECKS)]
    settings._ignored = (*ours, *(key for key in then.ignored if key.startswith(_CHECKS)))  # noqa: SLF001
    return JudgingSettings(settings, differing, grant)


def judging_grant(settings: Config) -> grants.Grant:
    """Return what the user trusts who lets settings that are not committed judge a change."""
    value = {name: settings.verify.model_dump(mode="json")[name] for name in _JUDGES}
    shown = ", ".join(f"{name} = {value[name]}" for name in _JUDGES)
    return grants.Grant("verify", f"settings that are not committed judge changes: {shown}", value)


def _sources(project_root: Path, raw: bytes | None) -> Sources:
    user, settings = _user_settings(project_root)
    path = project_root / NAME
    if raw is None:
        return Sources(settings, user, {}, trust.SettingsSplit({}, (), ()), is_trusted=False)
    values = settings_files.parse(path, raw)
    merged = _validate(path, raw, grants.merge(user, values))
    values = grants.normal(values, merged.model_dump(mode="json"))
    parts = trust.split(values, settings.model_dump(mode="json"), frozenset(settings.agents))
    is_trusted = bool(parts.grants) and (trust.is_by_flag() or record.is_trusted(project_root, parts.grants))
    if not parts.grants or is_trusted:
        trust.ignore(project_root, ())
        return Sources(merged, user, values, parts, is_trusted)
    tightened = _validate(path, raw, grants.merge(user, parts.always))
    tightened._ignored = tuple(grant.key for grant in parts.grants) + parts.dropped  # noqa: SLF001 - our own class
    trust.ignore(project_root, tightened.ignored)
    return Sources(tightened, user, values, parts, is_trusted=False)


def loosened(before: bytes | None, after: bytes | None) -> dict[str, str] | None:
    """Return the settings by which the second version of a project's file checks or restricts less, with a description.

    None is an absent file. Return None if a version is no valid settings file.
    """
    tables = []
    for raw in (before or b"", after or b""):
        try:
            values = tomllib.loads(raw.decode())
            tables.append(Config.model_validate(values).model_dump(mode="json"))
        except (ValueError, RecursionError):  # no TOML, no UTF-8, or not our settings
            return None
    return grants.loosened(*tables)


def _user_settings(project_root: Path) -> tuple[Table, Config]:
    """Return the user's settings with absolute paths, and the active settings without a project."""
    path = user_file()
    raw = settings_files.read(path)
    if raw is None:
        return {}, Config()
    if path.resolve().is_relative_to(project_root.resolve()):
        raise InvalidInput(
            f"{path} is inside the project, which may have come with it",
            next_step="set XDG_CONFIG_HOME to a folder outside of the project",
        )
    values = settings_files.parse(path, raw)
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
        close = closest(str(place[-1]), known)
        message = "unknown key; " + (f"did you mean '{close}'?" if close else f"known here: {', '.join(known)}")
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
