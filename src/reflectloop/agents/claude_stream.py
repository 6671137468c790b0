"""Reads what Claude Code writes with `--output-format stream-json`, and says what came of it. Runs nothing."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from reflectloop.agents.backend import AgentRequest, Json, Reply, TokenUsage
from reflectloop.agents.subprocess_agent import OutputLimitExceeded, ProgramOutput, refuse_long

_KEY_REFUSED = (401, 403)
_SINCE = "model_usage_since_last_result"
_LIMITS = {"error_max_turns": "took all of its turns", "error_max_budget_usd": "spent all of its money"}


class ClaudeStream:
    """What was said so far. Lines of kinds we do not know are passed over: each release has more of them."""

    def __init__(self, most_tokens: int | None = None) -> None:
        self.session_id: str | None = None
        self.result: Json | None = None
        self._most_tokens = most_tokens
        self._denied: list[str] = []
        self._usage: dict[str, TokenUsage] = {}

    def take(self, line: bytes) -> None:
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict):
                self._take(event)

    def _take(self, event: Json) -> None:
        self.session_id = event.get("session_id") or self.session_id
        kind = event.get("type")
        if kind == "result":
            refuse_long(str(event.get("result") or ""))
            self.result = event
        elif kind == "system" and event.get("subtype") == "permission_denied":
            self._denied.append(f"{event.get('tool_name')}: {event.get('message', '')}")
        elif kind == "assistant":
            self._count(event.get("message") or {})

    def _count(self, message: Json) -> None:
        """One message comes in several lines, each with the same numbers; its output is not counted before the end."""
        self._usage[str(message.get("id"))] = _usage(message.get("usage") or {})
        if self._most_tokens is not None and self.usage.tokens > self._most_tokens:
            raise OutputLimitExceeded(f"used more than {self._most_tokens} tokens")

    @property
    def usage(self) -> TokenUsage:
        """Of the whole call where it came to its end, else what is known of its input."""
        if self.result is not None:
            return _used(self.result)._replace(turns=int(self.result.get("num_turns") or 0))
        total = TokenUsage(turns=len(self._usage))
        for one in self._usage.values():
            total = total.plus(one)
        return total

    @property
    def denials(self) -> tuple[str, ...]:
        told = (self.result or {}).get("permission_denials") or []
        return tuple(self._denied) or tuple(_denial(one) for one in told if isinstance(one, dict))


def _usage(said: Json) -> TokenUsage:
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return TokenUsage(*(int(said.get(name) or 0) for name in names))


def _used(result: Json) -> TokenUsage:
    """By every model it asked, where that is told: the plain numbers leave out what sub-agents used."""
    by_model = result.get(_SINCE)
    if not isinstance(by_model, dict):
        return _usage(result.get("usage") or {})
    names = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    return TokenUsage(*(sum(int(one.get(name) or 0) for one in by_model.values()) for name in names))


def _denial(said: Json) -> str:
    given = said.get("tool_input") or {}
    return f"{said.get('tool_name')}: {given.get('file_path') or given.get('command') or ''}"


def judge(stream: ClaudeStream, heard: ProgramOutput, asking: AgentRequest) -> Reply:
    """Exit code, last line and flag must agree that it went well; a word of success in it alone says nothing."""
    reply = heard.broken_off() or _ended(stream.result, heard, asking)
    return reply._replace(
        session_id=stream.session_id,
        usage=stream.usage,
        cost_usd=_money(stream.result, resumed=asking.session is not None),
        denials=(*stream.denials, *reply.denials),
    )


def _ended(result: Json | None, heard: ProgramOutput, asking: AgentRequest) -> Reply:
    code = heard.done.exit_code
    if result is None:
        return heard.reply("error", f"ended without a result (exit {code}): {heard.last_line}".rstrip(": "))
    text = str(result.get("result") or "")
    if result.get("is_error") or str(result.get("subtype")) != "success" or code:
        refused = result.get("api_error_status") in _KEY_REFUSED
        return heard.reply("denied" if refused else "error", _why(result, text, code))._replace(text=text)
    if asking.answer is None:
        return heard.reply("ok" if text.strip() else "no_output", "" if text.strip() else "said nothing")._replace(
            text=text
        )
    return _shaped(result.get("structured_output"), heard, asking)._replace(text=text)


def _shaped(data: Any, heard: ProgramOutput, asking: AgentRequest) -> Reply:  # noqa: ANN401 - any JSON value
    if not isinstance(data, dict):
        return heard.reply("no_output", "gave no answer of the shape that was asked for")
    faults = asking.faults_of(data)
    return heard.reply("error" if faults else "ok", "; ".join(faults))._replace(data=data)


def _why(result: Json, text: str, code: int) -> str:
    subtype = str(result.get("subtype"))
    if subtype in _LIMITS:
        return _LIMITS[subtype]
    errors = [str(one) for one in result.get("errors") or []]
    said = text or "; ".join(errors) or str(result.get("terminal_reason") or "")
    return f"{subtype if subtype != 'success' else 'failed'} (exit {code}): {said[:500]}".rstrip(": ")


def _money(result: Json | None, *, resumed: bool) -> float | None:
    """Of this call: a session that is gone on with says as its total what all its calls cost."""
    if result is None:
        return None
    by_model = result.get(_SINCE)
    if isinstance(by_model, dict):
        return float(sum(one.get("costUSD") or 0 for one in by_model.values()))
    said = result.get("total_cost_usd")
    return float(said) if isinstance(said, (int, float)) and not resumed else None
