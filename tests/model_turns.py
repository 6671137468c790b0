"""One turn of a model's script, said in each of the three wire protocols; pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

Json = dict[str, Any]
Wire = Literal["messages", "responses", "chat"]
Fault = Literal["cut", "short", "malformed", "html", "blank"]
_PIECE = 4096


class Call(NamedTuple):
    """A tool the model calls. Arguments that are text are sent as they are, sound or not."""

    name: str
    arguments: Mapping[str, Any] | str = {}
    custom: bool = False  # OpenAI Responses: a tool that takes free text
    namespace: str | None = None

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class Tokens(NamedTuple):
    """What the model's maker says was used; `input` is without what came from its cache, however a protocol counts."""

    input: int = 1200
    output: int = 40
    cache_read: int = 0
    cache_write: int = 0


class Turn(NamedTuple):
    """What one request is answered with. Neither text nor calls is an empty answer.

    Faults: `cut` breaks the connection half way, `short` ends the stream before its last event, `malformed` is no JSON,
    `html` is what a proxy says, `blank` is no body at all.
    """

    text: str | None = None
    calls: tuple[Call, ...] = ()
    tokens: Tokens = Tokens()
    status: int = 200
    error: str = "api_error"
    retry_after: str | None = None
    fault: Fault | None = None
    wait_s: float = 0.0  # before anything is said
    drip_s: float = 0.0  # before each event
    whole: bool = False  # one document, though a stream was asked for
    stop: str | None = None  # instead of the reason to stop that fits


def say(text: str, **more: Any) -> Turn:
    return Turn(text=text, **more)


def call(name: str, /, **arguments: Any) -> Turn:
    return Turn(calls=(Call(name, arguments),))


def whole(wire: Wire, turn: Turn, model: str, number: int) -> Json:
    """The answer as one document."""
    return {"messages": _message, "responses": _response, "chat": _completion}[wire](turn, model, number)


def events(wire: Wire, turn: Turn, model: str, number: int) -> list[Json]:
    """The same as a stream of events."""
    said = {"messages": _message_events, "responses": _response_events, "chat": _chunks}[wire]
    return list(said(turn, model, number))


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]


# Anthropic Messages --------------------------------------------------------------------------------------------------


def _blocks(turn: Turn, number: int) -> list[Json]:
    text = [] if turn.text is None else [{"type": "text", "text": turn.text}]
    return text + [
        {"type": "tool_use", "id": f"toolu_{number:04d}{place:02d}", "name": one.name, "input": _value(one)}
        for place, one in enumerate(turn.calls)
    ]


def _value(one: Call) -> Any:
    return one.arguments if isinstance(one.arguments, str) else dict(one.arguments)


def _message(turn: Turn, model: str, number: int) -> Json:
    usage = {
        "input_tokens": turn.tokens.input,
        "cache_creation_input_tokens": turn.tokens.cache_write,
        "cache_read_input_tokens": turn.tokens.cache_read,
        "output_tokens": turn.tokens.output,
    }
    said = {"id": f"msg_{number:04d}", "type": "message", "role": "assistant", "model": model}
    stop = turn.stop or ("tool_use" if turn.calls else "end_turn")
    more = {"stop_reason": stop, "stop_sequence": None, "usage": usage}
    return {**said, "content": _blocks(turn, number), **more}


def _message_events(turn: Turn, model: str, number: int) -> Iterator[Json]:
    message = _message(turn, model, number)
    begun = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    yield {"type": "ping"}
    texts = [*([] if turn.text is None else [turn.text]), *(one.text for one in turn.calls)]
    for index, (block, text) in enumerate(zip(message["content"], texts, strict=True)):
        empty: Json = {"text": ""} if block["type"] == "text" else {"input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        for piece in _pieces(text):
            delta = (
                {"type": "text_delta", "text": piece}
                if block["type"] == "text"
                else {"type": "input_json_delta", "partial_json": piece}
            )
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": turn.tokens.output}}
    yield {"type": "message_stop"}


# OpenAI Responses ----------------------------------------------------------------------------------------------------


def _items(turn: Turn, number: int) -> list[Json]:
    content: list[Json] = [{"type": "output_text", "text": turn.text, "annotations": []}]
    message = {"type": "message", "id": f"msg_{number:04d}", "role": "assistant", "status": "completed"}
    items: list[Json] = [] if turn.text is None else [{**message, "content": content}]
    return items + [_item(one, f"{number:04d}{place:02d}") for place, one in enumerate(turn.calls)]


def _item(one: Call, name: str) -> Json:
    said = {"call_id": f"call_{name}", "name": one.name, "status": "completed"}
    if one.custom:
        return {"type": "custom_tool_call", "id": f"ctc_{name}", "input": one.text, **said}
    space = {"namespace": one.namespace} if one.namespace else {}
    return {"type": "function_call", "id": f"fc_{name}", "arguments": one.text, **said, **space}


def _response(turn: Turn, model: str, number: int) -> Json:
    used = turn.tokens
    usage = {
        "input_tokens": used.input + used.cache_read,
        "input_tokens_details": {"cached_tokens": used.cache_read},
        "output_tokens": used.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.input + used.cache_read + used.output,
    }
    return {
        "id": f"resp_{number:04d}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": model,
        "status": "completed",
        "output": _items(turn, number),
        "usage": usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
    }


def _response_events(turn: Turn, model: str, number: int) -> Iterator[Json]:
    for place, event in enumerate(_unnumbered(_response(turn, model, number))):
        yield {**event, "sequence_number": place}


def _unnumbered(final: Json) -> Iterator[Json]:
    yield {"type": "response.created", "response": {**final, "status": "in_progress", "output": [], "usage": None}}
    for place, item in enumerate(final["output"]):
        empty: Json = {"content": []} if item["type"] == "message" else {}
        added = {**item, "status": "in_progress", **empty}
        yield {"type": "response.output_item.added", "output_index": place, "item": added}
        text = item["content"][0]["text"] if item["type"] == "message" else ""
        where = {"item_id": item["id"], "output_index": place, "content_index": 0}
        yield from ({"type": "response.output_text.delta", **where, "delta": piece} for piece in _pieces(text))
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": "response.completed", "response": final}


# OpenAI Chat Completions ---------------------------------------------------------------------------------------------


def _tool_calls(turn: Turn, number: int) -> list[Json]:
    return [
        {
            "id": f"call_{number:04d}{place:02d}",
            "type": "function",
            "function": {"name": one.name, "arguments": one.text},
        }
        for place, one in enumerate(turn.calls)
    ]


def _chat_usage(used: Tokens) -> Json:
    return {
        "prompt_tokens": used.input + used.cache_read,
        "completion_tokens": used.output,
        "total_tokens": used.input + used.cache_read + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cache_read},
    }


def _completion(turn: Turn, model: str, number: int) -> Json:
    calls = _tool_calls(turn, number)
    message = {"role": "assistant", "content": turn.text, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": turn.stop or ("tool_calls" if calls else "stop")}
    return {**_head(model, number), "object": "chat.completion", "choices": [choice], "usage": _chat_usage(turn.tokens)}


def _head(model: str, number: int) -> Json:
    return {"id": f"chatcmpl-{number:04d}", "created": 1_700_000_000, "model": model}


def _chunks(turn: Turn, model: str, number: int) -> Iterator[Json]:
    head = {**_head(model, number), "object": "chat.completion.chunk"}
    for delta in _deltas(turn, number):
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    stop = turn.stop or ("tool_calls" if turn.calls else "stop")
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}]}
    yield {**head, "choices": [], "usage": _chat_usage(turn.tokens)}


def _deltas(turn: Turn, number: int) -> Iterator[Json]:
    yield {"role": "assistant", "content": None if turn.text is None else ""}
    yield from ({"content": piece} for piece in _pieces(turn.text or ""))
    for index, one in enumerate(_tool_calls(turn, number)):
        text = one["function"]["arguments"]
        yield {"tool_calls": [{**one, "index": index, "function": {**one["function"], "arguments": ""}}]}
        for piece in _pieces(text):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
