"""`reflectloop.toml` at the top of the project: the few things a user may set, each with a default that serves."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator
from pydantic_core import ErrorDetails

from reflectloop.errors import Fault, InvalidInput
from reflectloop.terms import AgentNetwork, Isolation, Network, Role, wrong_shape
from reflectloop.world import beneath

NAME = "reflectloop.toml"


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkspaceConfig(Section):
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


class RunConfig(Section):
    env_allow: tuple[str, ...] = Field(default=(), description="variables of yours that commands may see")
    idle_s: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=120, description="doing nothing at all for so long is waiting for input"
    )
    grace_s: Annotated[float, Field(ge=0, le=600)] = Field(default=5.0, description="between TERM and KILL")
    log_cap_mb: Annotated[StrictInt, Field(ge=1, le=4096)] = Field(
        default=8, description="kept of each command's output"
    )


class BoxConfig(Section):
    isolation: Isolation = Field(default=Isolation.WORKSPACE, description="the least isolation a run may have")
    strongest: Isolation = Field(default=Isolation.FULL, description="go no further, though the machine could")
    read: tuple[Path, ...] = Field(default=(), description="more folders that commands may read: caches, toolchains")
    processes: Annotated[StrictInt, Field(ge=16)] = Field(default=4096, description="at once, threads counted")
    memory_mb: Annotated[StrictInt, Field(ge=64)] | None = Field(
        default=None, description="of a command and all it starts; default: three quarters of the machine's"
    )
    file_mb: Annotated[StrictInt, Field(ge=1)] = Field(default=16384, description="the largest file written")


class PublishConfig(Section):
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


class RolesConfig(Section):
    planner: str | None = Field(default=None, description=_BACKEND)
    second_planner: str | None = Field(default=None, description=_BACKEND)
    executor: str | None = Field(default=None, description=_BACKEND)
    reviewer: str | None = Field(default=None, description=_BACKEND)
    critic: str | None = Field(default=None, description=_BACKEND)
    researcher: str | None = Field(default=None, description=_BACKEND)

    def bound_to(self, role: Role) -> str | None:
        return cast("str | None", getattr(self, role.value))


_HOST_AND_PORT = r"^([A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:]{2,45}\])(:[0-9]{1,5})?$"


class AgentConfig(Section):
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


class CostConfig(Section):
    prices: Path | None = Field(default=None, description="a TOML file of prices of your own, before the shipped ones")
    tokens: Annotated[StrictInt, Field(ge=1)] | None = Field(default=None, description="all agents of a task together")
    usd: Annotated[float, Field(gt=0)] | None = Field(default=None, description="all agents of a task together")
    wall_s: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None, description="time all agents of a task take together"
    )


class SecretsConfig(Section):
    rules: Path | None = Field(default=None, description="a file of rules of your own, besides the shipped ones")
    baseline: Path | None = Field(default=None, description="a file of fingerprints that are let stand")


class PolicyConfig(Section):
    allow: tuple[str, ...] = Field(
        default=(), description="rules that are not applied, by id: reflectloop policy rules"
    )
    rules: Path | None = Field(default=None, description="a YAML file of rules of your own, besides the shipped ones")


class Service(Section):
    """A server that a check needs: started beside it, on the loopback of its box, and ended with it."""

    run: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    ready_url: Annotated[str, Field(pattern=r"^http://(localhost|127\.0\.0\.1)(:[0-9]{1,5})?(/[!-~]*)?$")]
    timeout_s: Annotated[StrictInt, Field(ge=1, le=3600)] = 30


class ConfiguredCheck(Section):
    name: Annotated[str, Field(min_length=1, max_length=64)]
    run: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    kind: Literal["test", "lint", "type", "build", "custom"] = "test"
    cwd: str = "."
    service: Service | None = None


class VerifyConfig(Section):
    checks: tuple[ConfiguredCheck, ...] = Field(
        default=(), description="the project's checks, instead of detected ones"
    )
    setup: tuple[tuple[str, ...], ...] = Field(
        default=(), description="commands that install dependencies, run with the network, kept by lock files"
    )
    timeout_s: Annotated[StrictInt, Field(ge=1)] = Field(default=1800, description="of each check")
    protect: tuple[str, ...] = Field(default=(), description="more that a patch may not change, as globs")


class ReflectConfig(Section):
    rules: Path | None = Field(
        default=None, description="a file of rules of diagnosis and policies of your own, before the shipped ones"
    )


class Config(Section):
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


def load(project_root: Path) -> Config:
    path = project_root / NAME
    try:
        raw = beneath.read_path(path, within=project_root)
    except FileNotFoundError:
        return Config()
    except OSError as fault:
        raise InvalidInput(
            f"cannot read {path}: {fault.strerror}", next_step=f"look at {path}, and remove or replace it"
        ) from fault
    try:
        values = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise InvalidInput(f"{path} is not TOML: {fault}", next_step=f"correct {path}") from fault
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
