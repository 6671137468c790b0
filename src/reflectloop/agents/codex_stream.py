"""Reads what `codex exec --json` writes, and says what came of it. Runs nothing."""

from __future__ import annotations

import contextlib
import json
import re

from reflectloop.agents import subprocess_agent
from reflectloop.agents.backend import AgentRequest, Json, Reply, TokenUsage
from reflectloop.agents.subprocess_agent import OutputLimitExceeded, ProgramOutput

_TOOLS = ("command_execution", "file_change", "mcp_tool_call", "web_search")
_KEY_REFUSED = re.compile(r"\b(401|403)\b")
_BARRED = ("Read-only file system", "Operation not permitted", "Permission denied")


class CodexStream:
    """What was said so far. Lines of kinds we do not know are passed over: each release has more of them."""

    def __init__(self, most_turns: int) -> None:
        self.session_id: str | None = None
        self.text = ""
        self.total: Json | None = None  # what all calls of the session used, told at its end
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
            self.failure = _words(event) or self.failure or "failed"

    @property
    def turns(self) -> int:
        return self._tools + self.completed

    def _count(self) -> None:
        """It has no limit of its own: each use of a tool is a turn, and the last one is its answer."""
        self._tools += 1
        if self._tools >= self._most_turns:
            raise OutputLimitExceeded(f"took more than {self._most_turns} turns")

    def _item(self, item: Json) -> None:
        kind = item.get("type")
        if kind == "agent_message":
            said = str(item.get("text") or "")
            subprocess_agent.refuse_long(said)
            self.text = said
        elif kind == "file_change" and item.get("status") in ("failed", "declined"):
            paths = [str(one.get("path")) for one in item.get("changes") or [] if isinstance(one, dict)]
            self.denials.append(f"file_change: {', '.join(paths)}")
        elif kind == "command_execution":
            self._command(item)

    def _command(self, item: Json) -> None:
        said = str(item.get("aggregated_output") or "")
        if item.get("status") == "declined" or (item.get("exit_code") and any(word in said for word in _BARRED)):
            last = said.strip().splitlines()[-1:] or ["declined"]
            self.denials.append(f"command: {item.get('command')}: {last[0]}"[:500])


def _words(event: Json) -> str:
    error = event.get("error")
    said = error.get("message") if isinstance(error, dict) else event.get("message")
    return str(said or "")


def usage_of(total: Json | None, turns: int) -> TokenUsage:
    """Its input counts what came from the cache too."""
    said = total or {}
    read, written = int(said.get("cached_input_tokens") or 0), int(said.get("cache_write_input_tokens") or 0)
    fresh = max(int(said.get("input_tokens") or 0) - read - written, 0)
    return TokenUsage(fresh, int(said.get("output_tokens") or 0), read, written, turns)


def judge(stream: CodexStream, heard: ProgramOutput, asking: AgentRequest) -> Reply:
    """Its exit code alone says nothing: it is 0 where every command failed."""
    reply = heard.broken_off() or _ended(stream, heard, asking)
    return reply._replace(
        text=stream.text,
        session_id=stream.session_id,
        denials=(*stream.denials, *reply.denials),
    )


def _ended(stream: CodexStream, heard: ProgramOutput, asking: AgentRequest) -> Reply:
    code = heard.done.exit_code
    if stream.failure and not stream.completed:
        return heard.reply("denied" if _KEY_REFUSED.search(stream.failure) else "error", stream.failure[:500])
    if not stream.completed or code:
        return heard.reply("error", f"ended without a result (exit {code}): {heard.last_line}".rstrip(": "))
    if not stream.text.strip():
        return heard.reply("no_output", "said nothing")
    if asking.answer is None:
        return heard.reply("ok", "")
    return subprocess_agent.shaped(heard, asking, stream.text)
