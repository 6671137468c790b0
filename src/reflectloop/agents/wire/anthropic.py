"""The Anthropic Messages protocol: builds requests and parses events into a turn. Pure."""

from __future__ import annotations

from reflectloop.agents.backend import TokenUsage
from reflectloop.agents.messages import AgentTurn, Json, Message, ModelRequest, StopReason
from reflectloop.agents.wire.protocol import Malformed, call, count, error_message, text

_VERSION = "2023-06-01"
_REASONS = {
    "end_turn": StopReason.END_TURN,
    "stop_sequence": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSED,
}
_CACHED: Json = {"cache_control": {"type": "ephemeral"}}  # the provider may cache the prompt up to here


class Anthropic:
    default_url = "https://api.anthropic.com"
    default_key = "ANTHROPIC_API_KEY"

    def url(self, base: str) -> str:
        return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        return {"anthropic-version": _VERSION, **({"x-api-key": key} if key else {})}

    def body(self, talk: ModelRequest) -> Json:
        messages: list[Json] = [{"role": message.role, "content": _blocks(message)} for message in talk.messages]
        if messages and messages[-1]["content"]:
            messages[-1]["content"][-1] |= _CACHED
        body: Json = {"model": talk.model, "max_tokens": talk.reply_tokens, "stream": True, "messages": messages}
        if talk.system:
            body["system"] = [{"type": "text", "text": talk.system, **_CACHED}]
        if talk.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in talk.tools
            ]
        if talk.forced:
            body["tool_choice"] = {"type": "tool", "name": talk.forced}
        return body

    def reader(self) -> AnthropicReply:
        return AnthropicReply()

    def parse_document(self, document: Json) -> AgentTurn:
        """Parse an answer that is one document instead of a stream."""
        if document.get("type") == "error" or "content" not in document:
            raise Malformed(error_message(document) or "an answer without content")
        blocks = [block for block in document["content"] if isinstance(block, dict)]
        content = text(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
        calls = tuple(
            call(block.get("id"), block.get("name"), block.get("input")) for block in blocks if _is_call(block)
        )
        return AgentTurn(content, calls, _reason(document.get("stop_reason")), _usage(document.get("usage") or {}))


def _blocks(message: Message) -> list[Json]:
    results: list[Json] = [
        {
            "type": "tool_result",
            "tool_use_id": result.call_id,
            "content": [{"type": "text", "text": result.text}],
            **({"is_error": True} if result.is_error else {}),
        }
        for result in message.results
    ]
    texts: list[Json] = [{"type": "text", "text": message.text}] if message.text.strip() else []
    calls = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in message.calls]
    return [*results, *texts, *calls]


def _is_call(block: Json) -> bool:
    return block.get("type") == "tool_use"


def _reason(word: object) -> StopReason:
    return _REASONS.get(str(word), StopReason.OTHER)


def _usage(counts: Json) -> TokenUsage:
    return TokenUsage(
        input_tokens=count(counts.get("input_tokens")),
        output_tokens=count(counts.get("output_tokens")),
        cache_read_tokens=count(counts.get("cache_read_input_tokens")),
        cache_write_tokens=count(counts.get("cache_creation_input_tokens")),
        turns=1,
    )


class AnthropicReply:
    def __init__(self) -> None:
        self._blocks: dict[int, Json] = {}
        self._parts: dict[int, list[str]] = {}
        self._usage: Json = {}
        self._reason: object = None
        self._ended = False
        self.length = 0

    def take(self, event: Json) -> None:
        match event.get("type"):
            case "message_start":
                self._usage |= event["message"].get("usage") or {}
            case "content_block_start":
                self._blocks[event["index"]] = event["content_block"]
            case "content_block_delta":
                self._add(event["index"], event["delta"])
            case "message_delta":
                self._reason = event["delta"].get("stop_reason")
                self._usage |= event.get("usage") or {}
            case "message_stop":
                self._ended = True
            case "error":
                raise Malformed(error_message(event))

    def _add(self, index: int, delta: Json) -> None:
        piece = delta.get("text") or delta.get("partial_json") or ""
        self._parts.setdefault(index, []).append(piece)
        self.length += len(piece)

    @property
    def turn(self) -> AgentTurn | None:
        if not self._ended:
            return None
        blocks = [(block, self._content(index)) for index, block in sorted(self._blocks.items())]
        answer = text(content for block, content in blocks if block.get("type") == "text")
        # Some servers send the complete arguments at the start, and no deltas.
        calls = tuple(
            call(block.get("id"), block.get("name"), content or block.get("input"))
            for block, content in blocks
            if _is_call(block)
        )
        return AgentTurn(answer, calls, _reason(self._reason), _usage(self._usage))

    def _content(self, index: int) -> str:
        return "".join(self._parts.get(index, ()))
