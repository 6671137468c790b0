"""Runs Claude Code as an agent: without a terminal, and without the user's HOME, settings and hooks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from reflectloop.agents import claude_stream, model_address, sessions, subprocess_agent
from reflectloop.agents.backend import AgentRequest, Probe, Reply
from reflectloop.agents.claude_stream import ClaudeStream
from reflectloop.agents.cli import Cli
from reflectloop.agents.sessions import ContextUse
from reflectloop.agents.subprocess_agent import ProgramCall
from reflectloop.config import AgentConfig

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
        return subprocess_agent.redact_reply(claude_stream.judge(stream, output, request))

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
