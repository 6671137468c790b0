"""The interface of a wire protocol, and the parsing that all protocols share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NoReturn, Protocol

from reflectloop.agents.messages import AgentTurn, Json, ModelRequest, ToolCall
from reflectloop.system.patterns import lazy

_LONE = lazy("[\ud800-\udfff]")
LARGEST = 4 << 20  # characters of an answer, far more than any reply_tokens


class Malformed(Exception):
    """The server's answer does not follow the protocol."""


class TooLarge(Exception):
    """The server's answer is too long."""


class ReplyReader(Protocol):
    """Parses one streamed answer. `turn` is None until the answer is complete."""

    def take(self, event: Json) -> None: ...
    @property
    def turn(self) -> AgentTurn | None: ...
    @property
    def length(self) -> int: ...


class Wire(Protocol):
    """Builds requests of a protocol and parses its answers."""

    default_url: str
    default_key: str

    def url(self, base: str) -> str: ...
    def headers(self, key: str | None) -> dict[str, str]: ...
    def body(self, talk: ModelRequest) -> Json: ...
    def reader(self) -> ReplyReader: ...
    def parse_document(self, document: Json) -> AgentTurn: ...


def call(name: object, tool: object, arguments: object) -> ToolCall:
    """Return a tool call with parsed arguments. A fault in them is reported to the model, not raised."""
    value: object = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments, parse_constant=_no_number) if arguments.strip() else {}
        except (ValueError, RecursionError) as fault:
            return ToolCall(str(name), str(tool), {}, f"the arguments are not JSON: {str(fault)[:200]}")
    if not isinstance(value, dict):
        return ToolCall(str(name), str(tool), {}, "the arguments must be a JSON object")
    if _LONE.search(json.dumps(value, ensure_ascii=False)):
        return ToolCall(
            str(name), str(tool), {}, "the arguments contain half of a surrogate pair, which is not valid text"
        )
    return ToolCall(str(name), str(tool), value)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def text(pieces: Iterable[str]) -> str:
    """Join pieces of text and replace characters that UTF-8 cannot encode."""
    return "".join(pieces).encode("utf-8", "replace").decode()


def count(value: object) -> int:
    """Return a number of tokens, or 0 if the value is not a positive integer."""
    return value if isinstance(value, int) and value > 0 else 0


def error_message(error: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return the message in a server's error, in any of the usual forms."""
    if isinstance(error, dict):
        inner = error.get("error", error)
        if isinstance(inner, dict):
            return str(inner.get("message") or inner.get("type") or "")[:300]
        return str(inner)[:300]
    return ""
