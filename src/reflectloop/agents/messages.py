"""The messages between the built-in loop and a model, independent of the wire protocol. Values only."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from reflectloop.agents.backend import TokenUsage

Json = dict[str, Any]
_PER_TOKEN = 3  # characters of English or code; in other scripts one character may be one token
_PER_MESSAGE = 8  # tokens that a message costs in addition to its text


class StopReason(StrEnum):
    """The reason a turn ended: the model's reasons first, then the loop's."""

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
    """A tool call by the model. If its arguments are not a JSON object, `fault` says so."""

    id: str
    name: str
    arguments: Json
    fault: str = ""


class ToolResult(NamedTuple):
    call_id: str
    text: str
    is_error: bool = False


class Message(NamedTuple):
    """One message. The model makes calls; the loop sends results, which answer the calls of the previous message."""

    role: str  # user or assistant
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def tokens(self) -> int:
        texts = [self.text, *(result.text for result in self.results)]
        arguments = [part for result in self.calls for part in (result.name, str(result.arguments))]
        return _PER_MESSAGE + sum(tokens(part) for part in (*texts, *arguments))


class ModelTool(NamedTuple):
    name: str
    description: str
    schema: Json


class ModelRequest(NamedTuple):
    """One complete request to a model."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ModelTool, ...]
    reply_tokens: int
    forced: str | None = None  # the tool it must call


class AgentTurn(NamedTuple):
    """One answer of a model."""

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
    """Estimate the tokens of a text, rather too many than too few."""
    return -(-len(text) // _PER_TOKEN) if text.isascii() else len(text)


class NoAnswer(Exception):
    """The model gave no answer, for this reason."""

    def __init__(
        self,
        why: StopReason,
        reason: str,
        *,
        transient: bool = False,  # a retry may succeed
        asked_s: float | None = None,  # the delay that the server asks for
        received: int | None = None,  # characters received before the failure: they are billed
        too_long: bool = False,  # the request exceeds the model's context window
    ) -> None:
        super().__init__(reason)
        self.why, self.reason, self.transient, self.asked_s = why, reason, transient, asked_s
        self.received, self.too_long = received, too_long
