"""Claude Code as an agent: the CLI, asked without a person and without its user's HOME, settings and hooks."""

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
_NO_KEY_NEEDED = "none"  # a server of the user's own may ask for none, and the CLI does not start without
_RETRIES = "3"  # without a number, a refused key is tried for minutes
_LONGEST_REQUEST_S = 600.0
_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_MAX_RETRIES": _RETRIES,
}
# The commands it starts do not need its key. Its own option for that wants a sandbox that cannot be built in our box.
_SHELL, _SHELL_TEXT = ".reflectloop-shell", '#!/bin/sh\nunset {}\nexec bash -c "$@"\n'
_SYSTEM = ".reflectloop-system.md"
_GUIDES = ("CLAUDE.md", "AGENTS.md")


class ClaudeBackend(Cli):
    program, minimum, how = "claude", MINIMUM, HOW
    hosts = ("api.anthropic.com",)
    can = Probe(schema_output=True, os_sandbox=False, resume=True, usage=True)

    def run(self, asking: AgentRequest) -> Reply:
        key, words = self._key(), self._words
        reached = self._reach()
        self._refuse_old(asking)
        _lay_out(asking)
        stream = ClaudeStream(asking.bounds.tokens)
        env = {**subprocess_agent.passed_on(self._agent, self._caller), **self._environment(asking), **key}
        command = argv(words, self._agent, asking)
        call = ProgramCall(command, subprocess_agent.lines(stream.take), asking.prompt.encode(), env, reached)
        heard = subprocess_agent.run(asking, call)
        return subprocess_agent.clean(claude_stream.judge(stream, heard, asking))

    def context(self, home: Path, session: str) -> ContextUse | None:
        """How full its context is, by the transcript it keeps in its HOME."""
        found = sessions.of_claude(home, session)
        return found._replace(window=found.window or self._agent.window) if found else None

    def _key(self) -> dict[str, str]:
        model_address.refuse(self.name, self._agent)
        names = (self._agent.key_env,) if self._agent.key_env else KEYS
        found = next((name for name in names if self._caller.get(name)), None)
        if found:
            return {found if found in KEYS else KEYS[0]: self._caller[found]}
        if self._agent.base_url and not self._agent.key_env:
            return {KEYS[0]: _NO_KEY_NEEDED}
        raise subprocess_agent.no_key(self.name, names)

    def _environment(self, asking: AgentRequest) -> dict[str, str]:
        env = dict(_QUIET)
        env["API_TIMEOUT_MS"] = str(round(min(asking.bounds.timeout_s, _LONGEST_REQUEST_S) * 1000))
        env["CLAUDE_CODE_SHELL_PREFIX"] = str(subprocess_agent.home_inside(asking.box) / _SHELL)
        if self._agent.base_url:
            env["ANTHROPIC_BASE_URL"] = self._agent.base_url
        return env


def argv(words: tuple[str, ...], agent: AgentConfig, asking: AgentRequest) -> tuple[str, ...]:
    """Print mode, every event, and no settings, hooks or servers of anybody's: an earlier call can have left some."""
    out = [*words, "-p", "--output-format", "stream-json", "--verbose"]
    out += ["--setting-sources", "", "--strict-mcp-config"]
    out += ["--max-turns", str(asking.bounds.turns)]
    if asking.role.looks_only:
        out += ["--permission-mode", "plan"]
    else:
        out += ["--permission-mode", "acceptEdits", "--allowedTools", "Bash"]
    if agent.model:
        out += ["--model", agent.model]
    if asking.bounds.usd is not None:
        out += ["--max-budget-usd", f"{asking.bounds.usd:g}"]
    if asking.schema is not None:
        out += ["--json-schema", json.dumps(asking.schema)]
    if system_of(asking):
        out += ["--append-system-prompt-file", str(subprocess_agent.home_inside(asking.box) / _SYSTEM)]
    if asking.session:
        out += ["--resume", asking.session]
    return tuple(out)


def system_of(asking: AgentRequest) -> str:
    """It reads the project's own guides only with the project's settings, so it is told where they are."""
    guides = [name for name in _GUIDES if (asking.box.workspace.repo / name).is_file()]
    told = [f"Read {' and '.join(guides)} at the top of the project first."] if guides else []
    return "\n\n".join([*([asking.system] if asking.system else []), *told])


def _lay_out(asking: AgentRequest) -> None:
    subprocess_agent.lay(asking.box, _SHELL, _SHELL_TEXT.format(" ".join(KEYS)), executable=True)
    subprocess_agent.lay(asking.box, _SYSTEM, system_of(asking))


def make(name: str, agent: AgentConfig, caller: Mapping[str, str]) -> ClaudeBackend:
    return ClaudeBackend(name, agent, caller)
