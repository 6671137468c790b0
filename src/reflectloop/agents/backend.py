"""What every agent is asked and answers, whatever drives it. An answer is a claim; nothing here believes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ValidationError

from reflectloop.fileops.response import Response
from reflectloop.sandbox.sandbox import Box
from reflectloop.terms import Role

Json = dict[str, Any]
# Carries out FileOps ops for an agent that has no hands of its own: validated, journalled, all or nothing.
Act = Callable[[Sequence[Mapping[str, Any]]], Response]
Status = Literal["ok", "error", "denied", "timeout", "no_output"]


class TokenUsage(NamedTuple):
    """Tokens by kind, as the model's maker counts them, and how many turns were taken."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    turns: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def plus(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class AgentLimits(NamedTuple):
    """What one call may use; whoever is asked stops there, or is stopped."""

    turns: int
    timeout_s: float
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True)
class AgentRequest:
    """One call of an agent: who it is to be, what it is to do, where, and what it may use."""

    role: Role
    prompt: str
    box: Box  # what its own program runs in: read-only for who is to look only, with a HOME of its own
    folder: Path  # the engine's side: raw logs
    bounds: AgentLimits
    system: str = ""
    answer: type[BaseModel] | None = None  # the shape its answer must have
    act: Act | None = None
    session: str | None = None  # of an earlier call that is gone on with
    step: str = ""
    attempt: int = 1

    @property
    def schema(self) -> Json | None:
        return self.answer.model_json_schema() if self.answer else None

    def faults_of(self, data: object) -> list[str]:
        """What is wrong with an answer, by place; our own look, whatever the agent's program promised."""
        if self.answer is None:
            return []
        try:
            self.answer.model_validate(data)
        except ValidationError as fault:
            return [f"{'.'.join(map(str, one['loc'])) or '(top)'}: {one['msg']}" for one in fault.errors()]
        return []


class Reply(NamedTuple):
    """`ok` needs a whole answer that ended well and, where a shape was asked for, has it."""

    status: Status
    text: str = ""
    data: Json | None = None
    session_id: str | None = None
    usage: TokenUsage = TokenUsage()
    cost_usd: float | None = None  # None: unknown, and never taken for nothing
    denials: tuple[str, ...] = ()  # what it was refused
    raw_log: Path | None = None
    reason: str = ""  # why it is not ok, in words
    duration_ms: int = 0

    @property
    def ok(self) -> bool:
        return self.status == "ok"


class Probe(NamedTuple):
    """What an installed agent is, and what it can do; `problem` says why it cannot be asked."""

    version: str | None = None
    schema_output: bool = False
    os_sandbox: bool = False
    resume: bool = False
    usage: bool = False
    problem: str | None = None
    next_step: str = "reflectloop agents"


class Backend(Protocol):
    """One kind of agent. `run` blocks; whoever wants it to end sets the cancel of the box it was given."""

    name: str

    def probe(self) -> Probe: ...
    def run(self, asking: AgentRequest) -> Reply: ...
