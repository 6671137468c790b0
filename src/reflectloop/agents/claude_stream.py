"""Parses the output of Claude Code with `--output-format stream-json` into a reply. Runs nothing."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from reflectloop.agents.backend import AgentRequest, Json, Reply, TokenUsage
from reflectloop.agents.subprocess_agent import OutputLimitExceeded, ProgramOutput, refuse_long_answer

_KEY_REFUSED = (401, 403)
_SINCE = "model_usage_since_last_result"
_LIMITS = {"error_max_turns": "used all of its turns", "error_max_budget_usd": "spent all of its budget"}


class ClaudeStream:
    """The events read so far. Lines of unknown kinds are skipped: each release adds some."""

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
            refuse_long_answer(str(event.get("result") or ""))
            self.result = event
        elif kind == "system" and event.get("subtype") == "permission_denied":
            self._denied.append(f"{event.get('tool_name')}: {event.get('message', '')}")
        elif kind == "assistant":
            self._count(event.get("message") or {})

    def _count(self, message: Json) -> None:
        """Count a message's tokens by its id: one message comes in several lines with the same numbers."""
        self._usage[str(message.get("id"))] = _usage(message.get("usage") or {})
        if self._most_tokens is not None and self.usage.tokens > self._most_tokens:
            raise OutputLimitExceeded(f"used more than {self._most_tokens} tokens")

    @property
    def usage(self) -> TokenUsage:
        """Return the usage of the finished call, or the input counted so far."""
        if self.result is not None:
            return _total_usage(self.result)._replace(turns=int(self.result.get("num_turns") or 0))
        total = TokenUsage(turns=len(self._usage))
        for usage in self._usage.values():
            total = total.plus(usage)
        return total

    @property
    def denials(self) -> tuple[str, ...]:
        denials = (self.result or {}).get("permission_denials") or []
        return tuple(self._denied) or tuple(_denial(denial) for denial in denials if isinstance(denial, dict))


def _usage(counts: Json) -> TokenUsage:
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return TokenUsage(*(int(counts.get(name) or 0) for name in names))


def _total_usage(result: Json) -> TokenUsage:
    """Sum the usage of all models if the result lists them: the plain numbers leave out sub-agents."""
    by_model = result.get(_SINCE)
    if not isinstance(by_model, dict):
        return _usage(result.get("usage") or {})
    names = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    return TokenUsage(*(sum(int(counts.get(name) or 0) for counts in by_model.values()) for name in names))


def _denial(denial: Json) -> str:
    tool_input = denial.get("tool_input") or {}
    return f"{denial.get('tool_name')}: {tool_input.get('file_path') or tool_input.get('command') or ''}"


def judge(stream: ClaudeStream, output: ProgramOutput, request: AgentRequest) -> Reply:
    """Turn the stream into a reply. Exit code, last line and error flag must all agree on success."""
    reply = output.interrupted_reply() or _finished(stream.result, output, request)
    return reply._replace(
        session_id=stream.session_id,
        usage=stream.usage,
        cost_usd=_cost(stream.result, resumed=request.session is not None),
        denials=(*stream.denials, *reply.denials),
    )


def _finished(result: Json | None, output: ProgramOutput, request: AgentRequest) -> Reply:
    code = output.done.exit_code
    if result is None:
        return output.reply("error", f"ended without a result (exit {code}): {output.last_line}".rstrip(": "))
    text = str(result.get("result") or "")
    if result.get("is_error") or str(result.get("subtype")) != "success" or code:
        refused = result.get("api_error_status") in _KEY_REFUSED
        return output.reply("denied" if refused else "error", _why(result, text, code))._replace(text=text)
    if request.answer is None:
        return output.reply("ok" if text.strip() else "no_output", "" if text.strip() else "gave no answer")._replace(
            text=text
        )
    return _structured(result.get("structured_output"), output, request)._replace(text=text)


def _structured(data: Any, output: ProgramOutput, request: AgentRequest) -> Reply:  # noqa: ANN401 - any JSON value
    if not isinstance(data, dict):
        return output.reply("no_output", "gave no structured answer")
    faults = request.faults_of(data)
    return output.reply("error" if faults else "ok", "; ".join(faults))._replace(data=data)


def _why(result: Json, text: str, code: int) -> str:
    subtype = str(result.get("subtype"))
    if subtype in _LIMITS:
        return _LIMITS[subtype]
    errors = [str(error) for error in result.get("errors") or []]
    detail = text or "; ".join(errors) or str(result.get("terminal_reason") or "")
    return f"{subtype if subtype != 'success' else 'failed'} (exit {code}): {detail[:500]}".rstrip(": ")


def _cost(result: Json | None, *, resumed: bool) -> float | None:
    """Return the cost of this call; the total of a resumed session covers all its calls, so it is not used."""
    if result is None:
        return None
    by_model = result.get(_SINCE)
    if isinstance(by_model, dict):
        return float(sum(usage.get("costUSD") or 0 for usage in by_model.values()))
    total = result.get("total_cost_usd")
    return float(total) if isinstance(total, (int, float)) and not resumed else None
