"""Runs Claude Code as an agent, without the user's HOME, settings and hooks, and parses its stream-json output."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reflectloop.agents import model_address, sessions, subprocess_agent
from reflectloop.agents.backend import AgentRequest, Json, Probe, Reply, TokenUsage
from reflectloop.agents.cli import Cli
from reflectloop.agents.sessions import ContextUse
from reflectloop.agents.subprocess_agent import OutputLimitExceeded, ProgramCall, ProgramOutput, refuse_long_answer
from reflectloop.config import AgentConfig

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


def judge_stream(stream: ClaudeStream, output: ProgramOutput, request: AgentRequest) -> Reply:
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


MINIMUM = (2, 1, 0)
HOW = "npm install -g @anthropic-ai/claude-code"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_NO_KEY_NEEDED = "none"  # a private server may need no key, but the CLI does not start without one
_RETRIES = "3"  # without a limit, a rejected key is retried for minutes
_LONGEST_REQUEST_S = 600.0
_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_MAX_RETRIES": _RETRIES,
}
# Hides the key from the commands it starts. Its built-in option needs a sandbox that cannot nest in ours.
_SHELL, _SHELL_TEXT = ".reflectloop-shell", '#!/bin/sh\nunset {}\nexec bash -c "$@"\n'
_SYSTEM = ".reflectloop-system.md"
_GUIDES = ("CLAUDE.md", "AGENTS.md")


class ClaudeBackend(Cli):
    program, minimum, how = "claude", MINIMUM, HOW
    hosts = ("api.anthropic.com",)
    can = Probe(schema_output=True, os_sandbox=False, resume=True, usage=True)

    def run(self, request: AgentRequest) -> Reply:
        key, program = self._key(), self._command
        forward = self._forward()
        self._require_version(request)
        _write_home(request)
        stream = ClaudeStream(request.bounds.tokens)
        env = {**subprocess_agent.passed_variables(self._agent, self._caller), **self._environment(request), **key}
        command = argv(program, self._agent, request)
        call = ProgramCall(command, subprocess_agent.split_lines(stream.take), request.prompt.encode(), env, forward)
        output = subprocess_agent.run(request, call)
        return subprocess_agent.redact_reply(judge_stream(stream, output, request))

    def context(self, home: Path, session: str) -> ContextUse | None:
        """Return how full the context of a session is, read from the transcript in the agent's HOME."""
        use = sessions.claude_context(home, session)
        return use._replace(window=use.window or self._agent.window) if use else None

    def _key(self) -> dict[str, str]:
        model_address.check_address(self.name, self._agent)
        names = (self._agent.key_env,) if self._agent.key_env else KEYS
        variable = next((name for name in names if self._caller.get(name)), None)
        if variable:
            return {variable if variable in KEYS else KEYS[0]: self._caller[variable]}
        if self._agent.base_url and not self._agent.key_env:
            return {KEYS[0]: _NO_KEY_NEEDED}
        raise subprocess_agent.no_key(self.name, names)

    def _environment(self, request: AgentRequest) -> dict[str, str]:
        env = dict(_QUIET)
        env["API_TIMEOUT_MS"] = str(round(min(request.bounds.timeout_s, _LONGEST_REQUEST_S) * 1000))
        env["CLAUDE_CODE_SHELL_PREFIX"] = str(subprocess_agent.home_inside(request.box) / _SHELL)
        if self._agent.base_url:
            env["ANTHROPIC_BASE_URL"] = self._agent.base_url
        return env


def argv(program: tuple[str, ...], agent: AgentConfig, request: AgentRequest) -> tuple[str, ...]:
    """Return the command line: print mode, all events, and no settings, hooks or servers that an earlier call left."""
    out = [*program, "-p", "--output-format", "stream-json", "--verbose"]
    out += ["--setting-sources", "", "--strict-mcp-config"]
    out += ["--max-turns", str(request.bounds.turns)]
    if request.role.looks_only:
        out += ["--permission-mode", "plan"]
    else:
        out += ["--permission-mode", "acceptEdits", "--allowedTools", "Bash"]
    if agent.model:
        out += ["--model", agent.model]
    if request.bounds.usd is not None:
        out += ["--max-budget-usd", f"{request.bounds.usd:g}"]
    if request.schema is not None:
        out += ["--json-schema", json.dumps(request.schema)]
    if system_prompt(request):
        out += ["--append-system-prompt-file", str(subprocess_agent.home_inside(request.box) / _SYSTEM)]
    if request.session:
        out += ["--resume", request.session]
    return tuple(out)


def system_prompt(request: AgentRequest) -> str:
    """Return the system prompt, naming the project's guides: the CLI reads them only with the project's settings."""
    guides = [name for name in _GUIDES if (request.box.workspace.repo / name).is_file()]
    hint = [f"Read {' and '.join(guides)} at the top of the project first."] if guides else []
    return "\n\n".join([*([request.system] if request.system else []), *hint])


def _write_home(request: AgentRequest) -> None:
    subprocess_agent.write_home_file(request.box, _SHELL, _SHELL_TEXT.format(" ".join(KEYS)), executable=True)
    subprocess_agent.write_home_file(request.box, _SYSTEM, system_prompt(request))


def make(name: str, agent: AgentConfig, caller: Mapping[str, str]) -> ClaudeBackend:
    return ClaudeBackend(name, agent, caller)
