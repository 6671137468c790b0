"""What is said between the built-in loop and a model, whatever protocol carries it. Values only."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from reflectloop.agents.backend import TokenUsage

Json = dict[str, Any]
_PER_TOKEN = 3  # characters of English or code; of other writing one character may be one token
_PER_MESSAGE = 8  # tokens that a message costs beside its words


class StopReason(StrEnum):
    """Why a turn ended: the model's own reasons first, then the loop's."""

    END_TURN = "END_TURN"
    TOOL_USE = "TOOL_USE"
    MAX_TOKENS = "MAX_TOKENS"
    REFUSED = "REFUSED"
    OTHER = "OTHER"
    MAX_ITER = "MAX_ITER"
    STUTTERING = "E_STUTTERING"
    MONOLOGUE = "MONOLOGUE"
    NO_PROGRESS = "NO_PROGRESS"
    BUDGET_SPENT = "BUDGET_SPENT"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    INVALID_ANSWER = "INVALID_ANSWER"
    NEEDS_INPUT = "NEEDS_INPUT"
    EMPTY = "EMPTY"
    FAILED = "FAILED"


class ToolCall(NamedTuple):
    """A tool the model wants used. Where what it wrote is no JSON object, `fault` says so."""

    id: str
    name: str
    arguments: Json
    fault: str = ""


class ToolResult(NamedTuple):
    call_id: str
    text: str
    is_error: bool = False


class Message(NamedTuple):
    """One side's words. Calls are the model's; results are ours, and belong to the calls of the message before."""

    role: str  # user or assistant
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def tokens(self) -> int:
        said = [self.text, *(one.text for one in self.results)]
        wanted = [part for one in self.calls for part in (one.name, str(one.arguments))]
        return _PER_MESSAGE + sum(tokens(part) for part in (*said, *wanted))


class ModelTool(NamedTuple):
    name: str
    description: str
    schema: Json


class ModelRequest(NamedTuple):
    """All a model is sent at once."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ModelTool, ...]
    reply_tokens: int
    forced: str | None = None  # the tool it must call


class AgentTurn(NamedTuple):
    """What a model answered."""

    text: str
    calls: tuple[ToolCall, ...]
    stop_reason: StopReason
    usage: TokenUsage
    trace_id: str = ""

    @property
    def message(self) -> Message:
        return Message("assistant", self.text, self.calls)


Ask = Callable[[ModelRequest], AgentTurn]


def tokens(text: str) -> int:
    """Rather too many than too few: what is reserved must hold."""
    return -(-len(text) // _PER_TOKEN) if text.isascii() else len(text)


class NoAnswer(Exception):
    """No answer came, and why."""

    def __init__(
        self,
        why: StopReason,
        reason: str,
        *,
        transient: bool = False,  # the same may go well a little later
        asked_s: float | None = None,  # how long the server asks to wait
        received: int | None = None,  # characters that came before it broke off: they are paid for
        too_long: bool = False,  # what was sent is more than the model can hold
    ) -> None:
        super().__init__(reason)
        self.why, self.reason, self.transient, self.asked_s = why, reason, transient, asked_s
        self.received, self.too_long = received, too_long
