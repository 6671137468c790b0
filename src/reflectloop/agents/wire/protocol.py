"""What a protocol must be able to do, and what is common to reading all of them."""

from __future__ import annotations

import json
from typing import Any, Protocol

from reflectloop.agents.talk import AgentTurn, Call, Json, Talk

LARGEST = 4 << 20  # characters of an answer, far more than any reply_tokens


class Malformed(Exception):
    """What came is not what the protocol says."""


class TooLarge(Exception):
    """More came than any answer is long."""


class Reading(Protocol):
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
    def body(self, talk: Talk) -> Json: ...
    def reading(self) -> Reading: ...
    def whole(self, document: Json) -> AgentTurn: ...


def call(name: str, tool: str, text: str) -> Call:
    """A call whose arguments came as text; what is no JSON object is told to the model, not to us."""
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as fault:
        return Call(name, tool, {}, f"the arguments are not JSON: {str(fault)[:200]}")
    if not isinstance(value, dict):
        return Call(name, tool, {}, "the arguments must be a JSON object")
    return Call(name, tool, value)


def told(error: Any) -> str:  # noqa: ANN401 - any JSON value
    """What a server says is wrong, of the shapes they have for it."""
    if isinstance(error, dict):
        inner = error.get("error", error)
        if isinstance(inner, dict):
            return str(inner.get("message") or inner.get("type") or "")[:300]
        return str(inner)[:300]
    return ""
