"""The models of a plan. `faults` finds faults across fields."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    WithJsonSchema,
)
from pydantic_core import CoreSchema

from reflectloop.config import Service
from reflectloop.plan import tool_names
from reflectloop.terms import Isolation, Network, Track

Argv = tuple[str, ...]
DEFAULT_TIMEOUT_S = 600
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"


def _command(value: Any) -> Any:  # noqa: ANN401 - any YAML value
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(argument, str) and argument for argument in value):
        return tuple(value)
    raise ValueError("a command is a shell line, or a list of arguments such as [pytest, -q]")


Command = Annotated[
    str | Argv,
    BeforeValidator(_command),
    WithJsonSchema(
        {
            "oneOf": [
                {"type": "string", "minLength": 1, "description": "a shell line, run by bash -e -o pipefail"},
                {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "description": "arguments, run without a shell",
                },
            ]
        }
    ),
]


def command_text(command: str | Sequence[str]) -> str:
    """Return a command as one line of shell text, for people and for comparison."""
    return command if isinstance(command, str) else shlex.join(command)


Seconds = Annotated[StrictInt, Field(gt=0, le=7 * 24 * 3600)]
Globs = tuple[Annotated[str, Field(min_length=1)], ...]


class PlanModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_enum_values=False)


def _described(default: Any, text: str) -> Any:  # noqa: ANN401 - any default
    """Return a field with the text that the schema and docs/plan.md have for it."""
    return Field(default=default, description=text)


class Check(PlanModel):
    """A command with an expectation, or a statement about a file.

    Each `file_*` field is a statement about files; `verification/checks.py` judges it.
    """

    run: Command | None = _described(None, "the command to run, at the top of the workspace")
    exit_code: StrictInt = _described(0, "the exit code it must have, 0 unless given")
    stdout_contains: str | None = _described(None, "text its standard output must contain, however long it is")
    stdout_regex: str | None = _described(None, "an RE2 expression its standard output must match")
    not_contains: str | None = _described(None, "text its standard output must not contain")
    file_exists: str | None = _described(None, "a path in the workspace that must exist")
    file_nonempty: str | None = _described(None, "a file in the workspace that must exist and must not be empty")
    file_unchanged: str | None = _described(None, "a path that must be unchanged since the start of the run")
    output_contains: str | None = _described(None, "text that the step's commands must have printed")
    commands_exit: Annotated[StrictInt, Field(ge=0, le=255)] | None = _described(
        None, "the exit code that the step's last command must have"
    )
    kind: Literal["lint", "build", "test", "e2e", "benchmark", "custom"] = _described(
        "custom",
        "lint, build, test, e2e, benchmark or custom; a refactoring must not make a benchmark a quarter slower",
    )
    red_on_base: StrictBool = _described(False, "true if the check must fail on base")
    timeout_s: Seconds = _described(DEFAULT_TIMEOUT_S, "seconds that the command may take")
    service: Service | None = _described(None, "a server that the check needs: its `run`, `ready_url` and `timeout_s`")

    @property
    def description(self) -> str:
        """Return the check in one line."""
        parts = [command_text(self.run)] if self.run is not None else []
        parts += [f"{self.file_exists} exists"] if self.file_exists else []
        parts += [f"{self.file_nonempty} is not empty"] if self.file_nonempty else []
        parts += [f"{self.file_unchanged} is unchanged"] if self.file_unchanged else []
        parts += [f"the step prints {self.output_contains!r}"] if self.output_contains else []
        parts += [f"the step's commands exit {self.commands_exit}"] if self.commands_exit is not None else []
        return "; ".join(parts)

    @property
    def stands_alone(self) -> bool:
        """Return True if the check needs no step: it has a command, or says something about a file."""
        return self.run is not None or any(getattr(self, name) for name in FILE_STATEMENTS)


FILE_STATEMENTS = tuple(name for name in Check.model_fields if name.startswith("file_"))


class StepCheck(Check):
    """A step's check: by name, or defined in place; `expect: fail` for a test that must fail."""

    check: str | None = None
    expect: Literal["pass", "fail"] = "pass"
    claim: str | None = Field(default=None, exclude=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the schema of the written form: an object, or a plain text."""
        reference = handler(core)
        handler.resolve_ref_schema(reference)["properties"].pop("claim")
        text = {"type": "string", "description": "the name of a check, or a claim that nothing checks"}
        return {"anyOf": [text, reference]}


def _verification(value: Any) -> Any:  # noqa: ANN401
    return {"claim": value} if isinstance(value, str) else value


Verify = Annotated[
    StepCheck,
    BeforeValidator(_verification),
]


class ExpectedCheck(NamedTuple):
    name: str
    check: Check
    must_fail: bool


class Agent(PlanModel):
    role: Literal["planner", "executor", "reviewer", "critic", "researcher"] = "executor"
    prompt: Annotated[str, Field(min_length=1)]
    tools: tuple[str, ...] = ()


class Step(PlanModel):
    id: Annotated[str, Field(pattern=_NAME)]
    title: str = ""
    details: str = ""  # for readers and reviewers; an agent is given its prompt
    commands: tuple[Command, ...] = ()
    agent: Agent | None = None
    cwd: str = "."
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = {}
    timeout_s: Seconds = DEFAULT_TIMEOUT_S
    idle_s: Seconds | None = None  # without any activity for this time, the step is waiting for input
    verify: tuple[Verify, ...] = ()
    depends_on: tuple[str, ...] = ()
    read_only: StrictBool = False
    network: Network | None = None

    @property
    def looks_only(self) -> bool:
        """Return True for an analysis: it may change nothing, and an agent ends it by its findings."""
        return self.read_only or (self.agent is not None and tool_names.reads_only(self.agent.tools))


class Objective(PlanModel):
    goal: str = ""
    non_goals: tuple[str, ...] = ()
    done_when: str = ""


class Acceptance(PlanModel):
    id: str
    text: str
    check: str | None = None


class VerificationMode(PlanModel):
    mode: Literal["none", "lint", "test", "build", "custom"]


class IsolationRequirement(PlanModel):
    require: Isolation


class PlanBudget(PlanModel):
    """The budget of all agents of a task together."""

    tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    usd: Annotated[float, Field(gt=0)] | None = None
    wall_s: Seconds | None = None


class PlanLimits(PlanBudget):
    step_attempts: Annotated[StrictInt, Field(ge=1)] = 3
    replans: Annotated[StrictInt, Field(ge=0)] = 2
    runs: Annotated[StrictInt, Field(ge=1)] = 3


class Plan(PlanModel):
    title: Annotated[str, Field(min_length=1)]
    track: Track | None = None
    objective: Objective = Objective()
    acceptance: tuple[Acceptance, ...] = ()
    may_change: Globs = ()
    must_not_change: Globs = ()
    may_change_protected: Globs = ()
    checks: dict[Annotated[str, Field(pattern=_NAME)], Check] = {}
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    verification: VerificationMode | None = None
    isolation: IsolationRequirement | None = None
    limits: PlanLimits = PlanLimits()
    jobs: Annotated[StrictInt, Field(ge=1, le=64)] = 1

    def checks_of(self, step: Step) -> tuple[ExpectedCheck, ...]:
        """Return the checks of a step, without plain claims, which nothing can check."""
        out = []
        for position, item in enumerate(step.verify, 1):
            name = item.check or item.claim
            if name is not None and name in self.checks:
                out.append(ExpectedCheck(name, self.checks[name], item.expect == "fail"))
            elif item.claim is None:
                out.append(ExpectedCheck(f"{step.id}.{position}", item, item.expect == "fail"))
        return tuple(out)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a plan file holds it, without defaults."""
        value = self.model_dump(mode="json", exclude_defaults=True)
        for step, written in zip(self.steps, value["steps"], strict=True):
            claims = [item.claim for item in step.verify]
            if claims:
                written["verify"] = [claim or item for claim, item in zip(claims, written["verify"], strict=True)]
        return value

    def commands(self, steps: Iterable[Step] | None = None) -> Iterator[tuple[str, str | Argv]]:
        """Yield every command that the steps (all by default) would run, each check's once, with its place."""
        known: set[str | Argv] = set()
        for step in self.steps if steps is None else steps:
            yield from ((f"step {step.id}, command {number}", line) for number, line in enumerate(step.commands, 1))
            for name, check, _ in self.checks_of(step):
                for command in (check.run, check.service.run if check.service else None):
                    if command and command not in known:
                        known.add(command)
                        yield f"step {step.id}, check {name}", command

    @property
    def settled_track(self) -> Track:
        """Return the track, or an assumed one if the plan has none."""
        if self.track:
            return self.track
        return Track.FEATURE if any(step.agent for step in self.steps) else Track.DIRECT

    @property
    def hash(self) -> str:
        """Return a hash that is equal for two plans of the same work, however they are written."""
        steps = [step.model_dump(mode="json", exclude={"title", "details"}) for step in self.steps]
        content = {
            "steps": steps,
            "checks": {name: check.model_dump(mode="json") for name, check in sorted(self.checks.items())},
            "contract": [
                [item.model_dump(mode="json") for item in self.acceptance],
                sorted(self.may_change),
                sorted(self.must_not_change),
                sorted(self.may_change_protected),
            ],
            "verification": self.verification.mode if self.verification else None,
            "isolation": self.isolation.require if self.isolation else None,
            "track": self.settled_track,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class PlanFile(PlanModel):
    """The native form: everything under one `plan` key."""

    plan: Plan
