"""The request and the reply of an agent, the same for every backend. A reply is a claim that the engine verifies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ValidationError

from reflectloop.fileops.response import Response
from reflectloop.sandbox.sandbox import Box
from reflectloop.terms import Role, wrong_shape

Json = dict[str, Any]
# Executes FileOps ops for an agent that cannot edit files itself: validated, journalled, all or nothing.
Act = Callable[[Sequence[Mapping[str, Any]]], Response]
Status = Literal["ok", "error", "denied", "timeout", "no_output"]


class TokenUsage(NamedTuple):
    """Tokens by kind, as the provider of the model counts them, and the number of turns."""

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
    """The limits of one call; an agent that does not stop at them is stopped."""

    turns: int
    timeout_s: float
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True)
class AgentRequest:
    """One call of an agent: its role, its prompt, its sandbox and its limits."""

    role: Role
    prompt: str
    box: Box  # the sandbox of its program, with a separate HOME; read-only for a role that may not change files
    folder: Path  # raw logs; outside the sandbox
    bounds: AgentLimits
    system: str = ""
    answer: type[BaseModel] | None = None  # the model its answer must validate against
    act: Act | None = None
    session: str | None = None  # the session of an earlier call to continue
    step: str = ""
    attempt: int = 1
    tools: tuple[str, ...] = ()  # that the plan names for the step; none: all

    @property
    def schema(self) -> Json | None:
        return self.answer.model_json_schema() if self.answer else None

    def faults_of(self, data: object) -> list[str]:
        """Validate an answer and return each fault with its place, even if the agent's program validated it already."""
        if self.answer is None:
            return []
        try:
            self.answer.model_validate(data)
        except ValidationError as fault:
            return [
                f"{'.'.join(map(str, error['loc'])) or '(top)'}: "
                + wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
                for error in fault.errors()
            ]
        return []


class Reply(NamedTuple):
    """The result of one call. `ok` means a complete answer that validates against the requested model, if any."""

    status: Status
    text: str = ""
    data: Json | None = None
    session_id: str | None = None
    usage: TokenUsage = TokenUsage()
    cost_usd: float | None = None  # None: unknown, which is never counted as zero
    denials: tuple[str, ...] = ()  # actions that were refused
    raw_log: Path | None = None
    reason: str = ""  # why the status is not ok
    duration_ms: int = 0

    @property
    def ok(self) -> bool:
        return self.status == "ok"


class Probe(NamedTuple):
    """The version and the abilities of an installed agent; `problem` says why it cannot be called."""

    version: str | None = None
    schema_output: bool = False
    os_sandbox: bool = False
    resume: bool = False
    usage: bool = False
    problem: str | None = None
    next_step: str = "reflectloop agents"


class Backend(Protocol):
    """One kind of agent. `run` blocks; set the cancel of the request's sandbox to end it."""

    name: str

    def probe(self) -> Probe: ...
    def run(self, request: AgentRequest) -> Reply: ...
