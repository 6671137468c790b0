"""Parses the output of `codex exec --json` into a reply. Runs nothing."""

from __future__ import annotations

import contextlib
import json
import re

from reflectloop.agents import subprocess_agent
from reflectloop.agents.backend import AgentRequest, Json, Reply, TokenUsage
from reflectloop.agents.subprocess_agent import OutputLimitExceeded, ProgramOutput

_TOOLS = ("command_execution", "file_change", "mcp_tool_call", "web_search")
_KEY_REFUSED = re.compile(r"\b(401|403)\b")
_ACCESS_ERRORS = ("Read-only file system", "Operation not permitted", "Permission denied")


class CodexStream:
    """The events read so far. Lines of unknown kinds are skipped: each release adds some."""

    def __init__(self, most_turns: int) -> None:
        self.session_id: str | None = None
        self.text = ""
        self.total: Json | None = None  # usage of all calls of the session, reported at its end
        self.failure = ""
        self.completed = False
        self.denials: list[str] = []
        self._most_turns, self._tools = most_turns, 0

    def take(self, line: bytes) -> None:
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict):
                self._take(event)

    def _take(self, event: Json) -> None:
        kind, item = event.get("type"), event.get("item") or {}
        if kind == "thread.started":
            self.session_id = event.get("thread_id")
        elif kind == "item.started" and item.get("type") in _TOOLS:
            self._count()
        elif kind == "item.completed":
            self._item(item)
        elif kind == "turn.completed":
            self.completed, self.total = True, event.get("usage")
        elif kind in ("turn.failed", "error"):
            self.failure = _error_message(event) or self.failure or "failed"

    @property
    def turns(self) -> int:
        return self._tools + self.completed

    def _count(self) -> None:
        """Count a tool call as a turn, since Codex has no turn limit; the answer takes the last turn."""
        self._tools += 1
        if self._tools >= self._most_turns:
            raise OutputLimitExceeded(f"took more than {self._most_turns} turns")

    def _item(self, item: Json) -> None:
        kind = item.get("type")
        if kind == "agent_message":
            text = str(item.get("text") or "")
            subprocess_agent.refuse_long_answer(text)
            self.text = text
        elif kind == "file_change" and item.get("status") in ("failed", "declined"):
            paths = [str(change.get("path")) for change in item.get("changes") or [] if isinstance(change, dict)]
            self.denials.append(f"file_change: {', '.join(paths)}")
        elif kind == "command_execution":
            self._command(item)

    def _command(self, item: Json) -> None:
        output = str(item.get("aggregated_output") or "")
        if item.get("status") == "declined" or (
            item.get("exit_code") and any(word in output for word in _ACCESS_ERRORS)
        ):
            last = output.strip().splitlines()[-1:] or ["declined"]
            self.denials.append(f"command: {item.get('command')}: {last[0]}"[:500])


def _error_message(event: Json) -> str:
    error = event.get("error")
    message = error.get("message") if isinstance(error, dict) else event.get("message")
    return str(message or "")


def usage_of(total: Json | None, turns: int) -> TokenUsage:
    """Return the usage; Codex includes cached tokens in its input count."""
    counts = total or {}
    read, written = int(counts.get("cached_input_tokens") or 0), int(counts.get("cache_write_input_tokens") or 0)
    fresh = max(int(counts.get("input_tokens") or 0) - read - written, 0)
    return TokenUsage(fresh, int(counts.get("output_tokens") or 0), read, written, turns)


def judge(stream: CodexStream, output: ProgramOutput, request: AgentRequest) -> Reply:
    """Turn the stream into a reply. The exit code alone proves nothing: it is 0 even if every command failed."""
    reply = output.interrupted_reply() or _finished(stream, output, request)
    return reply._replace(
        text=stream.text,
        session_id=stream.session_id,
        denials=(*stream.denials, *reply.denials),
    )


def _finished(stream: CodexStream, output: ProgramOutput, request: AgentRequest) -> Reply:
    code = output.done.exit_code
    if stream.failure and not stream.completed:
        return output.reply("denied" if _KEY_REFUSED.search(stream.failure) else "error", stream.failure[:500])
    if not stream.completed or code:
        return output.reply("error", f"ended without a result (exit {code}): {output.last_line}".rstrip(": "))
    if not stream.text.strip():
        return output.reply("no_output", "gave no answer")
    if request.answer is None:
        return output.reply("ok", "")
    return subprocess_agent.reply_with_object(output, request, stream.text)
