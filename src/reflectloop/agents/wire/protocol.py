"""What a protocol must be able to do, and what is common to reading all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn, Protocol

from reflectloop.agents.messages import AgentTurn, Json, ModelRequest, ToolCall

_LONE = re.compile("[\ud800-\udfff]")
LARGEST = 4 << 20  # characters of an answer, far more than any reply_tokens


class Malformed(Exception):
    """What came is not what the protocol says."""


class TooLarge(Exception):
    """More came than any answer is long."""


class ReplyReader(Protocol):
    """One answer as it comes. `turn` is there once the answer has come to its end."""

    def take(self, event: Json) -> None: ...
    @property
    def turn(self) -> AgentTurn | None: ...
    @property
    def length(self) -> int: ...


class Wire(Protocol):
    """How a talk is put into words of a protocol, and its answers read."""

    default_url: str
    default_key: str

    def url(self, base: str) -> str: ...
    def headers(self, key: str | None) -> dict[str, str]: ...
    def body(self, talk: ModelRequest) -> Json: ...
    def reading(self) -> ReplyReader: ...
    def whole(self, document: Json) -> AgentTurn: ...


def call(name: object, tool: object, arguments: object) -> ToolCall:
    """A call, its arguments as text or as an object; what is no JSON object is told to the model, not to us."""
    value: object = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments, parse_constant=_no_number) if arguments.strip() else {}
        except (ValueError, RecursionError) as fault:
            return ToolCall(str(name), str(tool), {}, f"the arguments are not JSON: {str(fault)[:200]}")
    if not isinstance(value, dict):
        return ToolCall(str(name), str(tool), {}, "the arguments must be a JSON object")
    if _LONE.search(json.dumps(value, ensure_ascii=False)):
        return ToolCall(str(name), str(tool), {}, "the arguments hold half of a surrogate pair, which is no text")
    return ToolCall(str(name), str(tool), value)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def text(pieces: Iterable[str]) -> str:
    """What was said, as text that can be written down."""
    return "".join(pieces).encode("utf-8", "replace").decode()


def count(value: object) -> int:
    """A number of tokens; whoever says something else says nothing."""
    return value if isinstance(value, int) and value > 0 else 0


def told(error: Any) -> str:  # noqa: ANN401 - any JSON value
    """What a server says is wrong, of the shapes they have for it."""
    if isinstance(error, dict):
        inner = error.get("error", error)
        if isinstance(inner, dict):
            return str(inner.get("message") or inner.get("type") or "")[:300]
        return str(inner)[:300]
    return ""
