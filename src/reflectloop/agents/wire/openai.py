"""The OpenAI Chat Completions protocol, as many servers implement it: builds requests and parses chunks. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

from reflectloop.agents.backend import TokenUsage
from reflectloop.agents.messages import AgentTurn, Json, Message, ModelRequest, StopReason
from reflectloop.agents.wire.protocol import Malformed, call, count, error_message, text

_REASONS = {
    "stop": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSED,
}


class OpenAI:
    default_url = "https://api.openai.com/v1"
    default_key = "OPENAI_API_KEY"

    def __init__(self, base: str | None = None) -> None:
        # OpenAI's newer models reject `max_tokens`; other servers know only that name.
        self._most = "max_tokens" if base else "max_completion_tokens"

    def url(self, base: str) -> str:
        return f"{base}/chat/completions" if urlsplit(base).path.strip("/") else f"{base}/v1/chat/completions"

    def headers(self, key: str | None) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, talk: ModelRequest) -> Json:
        system = [{"role": "system", "content": talk.system}] if talk.system else []
        body: Json = {
            "model": talk.model,
            "messages": [*system, *(part for message in talk.messages for part in _messages(message))],
            self._most: talk.reply_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if talk.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
                }
                for tool in talk.tools
            ]
        if talk.forced:
            body["tool_choice"] = {"type": "function", "function": {"name": talk.forced}}
        return body

    def reader(self) -> OpenAIReply:
        return OpenAIReply()

    def parse_document(self, document: Json) -> AgentTurn:
        """Parse an answer that is one document instead of a stream."""
        choices = document.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0].get("message"), dict):
            raise Malformed(error_message(document) or "an answer without choices")
        message = choices[0]["message"]
        calls = [
            (item.get("id") or f"call_{number}", item.get("function") or {})
            for number, item in enumerate(message.get("tool_calls") or [])
        ]
        return AgentTurn(
            text([str(message.get("content") or "")]),
            tuple(call(name, function.get("name"), function.get("arguments") or {}) for name, function in calls),
            _reason(choices[0].get("finish_reason"), called=bool(calls)),
            _usage(document.get("usage") or {}),
        )


def _messages(message: Message) -> Iterator[Json]:
    for result in message.results:
        yield {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
    if message.calls:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in message.calls
        ]
        yield {"role": message.role, "content": message.text or None, "tool_calls": calls}
    elif message.text:
        yield {"role": message.role, "content": message.text}


def _reason(word: object, *, called: bool) -> StopReason:
    # Some servers say "stop" although they call a tool.
    return StopReason.TOOL_USE if called and word == "stop" else _REASONS.get(str(word), StopReason.OTHER)


def _usage(counts: Json) -> TokenUsage:
    cached = count((counts.get("prompt_tokens_details") or {}).get("cached_tokens"))
    sent = count(counts.get("prompt_tokens"))
    return TokenUsage(max(0, sent - cached), count(counts.get("completion_tokens")), cached, 0, turns=1)


class OpenAIReply:
    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, Json] = {}
        self._reason: object = None
        self._usage: Json = {}
        self.length = 0

    def take(self, event: Json) -> None:
        if "error" in event:
            raise Malformed(error_message(event))
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices") or []:
            delta = choice.get("delta") or {}
            self._say(delta.get("content") or "")
            for delta_call in delta.get("tool_calls") or []:
                self._call(delta_call)
            self._reason = choice.get("finish_reason") or self._reason

    def _say(self, piece: str) -> None:
        self._text.append(piece)
        self.length += len(piece)

    def _call(self, delta: Json) -> None:
        number = delta.get("index", len(self._calls))
        entry = self._calls.setdefault(number, {"id": f"call_{number}", "name": "", "parts": []})
        function = delta.get("function") or {}
        entry["id"] = delta.get("id") or entry["id"]
        entry["name"] = function.get("name") or entry["name"]
        piece = function.get("arguments") or ""
        entry["parts"].append(piece if isinstance(piece, str) else json.dumps(piece))
        self.length += len(entry["parts"][-1])

    @property
    def turn(self) -> AgentTurn | None:
        if self._reason is None:
            return None
        entries = [self._calls[number] for number in sorted(self._calls)]
        calls = tuple(call(entry["id"], entry["name"], "".join(entry["parts"])) for entry in entries)
        return AgentTurn(text(self._text), calls, _reason(self._reason, called=bool(calls)), _usage(self._usage))
