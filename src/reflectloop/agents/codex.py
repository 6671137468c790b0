"""Runs Codex CLI as an agent: without a terminal, with a HOME and a configuration that we write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from reflectloop.agents import codex_stream, model_address, prices, sessions, strict_schema, subprocess_agent
from reflectloop.agents.backend import AgentRequest, Json, Probe, Reply, TokenUsage
from reflectloop.agents.cli import Cli
from reflectloop.agents.codex_stream import CodexStream
from reflectloop.agents.sessions import ContextUse
from reflectloop.agents.subprocess_agent import ProgramCall
from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable
from reflectloop.sandbox.sandbox import Box
from reflectloop.terms import Role

MINIMUM = (0, 140, 0)
HOW = "npm install -g @openai/codex"
KEYS = ("OPENAI_API_KEY", "CODEX_API_KEY")
_PROVIDER = "https://api.openai.com/v1"
_HOME, _SCHEMA = ".codex", ".codex/answer-schema.json"
# Not the default temp folder: Codex refuses to start if its home is below it.
_TEMP = ".reflectloop-tmp"
_RETRIES = 3
_CONFIG = """\
{model}model_provider = "reflectloop"
developer_instructions = {system}
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
unbounded_connection_retries = false
[history]
persistence = "none"
[shell_environment_policy]
exclude = [{keys}]
[model_providers.reflectloop]
name = "reflectloop"
base_url = {url}
{key}wire_api = "responses"
request_max_retries = {retries}
stream_max_retries = 1
"""


class CodexBackend(Cli):
    program, minimum, how = "codex", MINIMUM, HOW
    hosts = (_PROVIDER,)
    can = Probe(schema_output=True, os_sandbox=True, resume=True, usage=True)

    def run(self, request: AgentRequest) -> Reply:
        key, program = self._key(), self._command
        forward = self._forward()
        self._require_version(request)
        command = argv(program, self._agent, request)
        self._write_home(request, key)
        stream = CodexStream(request.bounds.turns)
        home = subprocess_agent.home_inside(request.box)
        env = {"CODEX_HOME": str(home / _HOME), "TMPDIR": str(home / _TEMP)}
        env |= subprocess_agent.passed_variables(self._agent, self._caller) | ({key: self._caller[key]} if key else {})
        call = ProgramCall(
            command, subprocess_agent.split_lines(stream.take), prompt_text(request).encode(), env, forward
        )
        home_outside = subprocess_agent.home_outside(request.box)
        before = sessions.codex_total(home_outside, request.session) if request.session else None
        reply = codex_stream.judge(stream, subprocess_agent.run(request, call), request)
        used = _call_usage(stream, home_outside, before)
        known = stream.completed or reply.status == "denied"  # the last request of an interrupted call is not counted
        return subprocess_agent.redact_reply(reply._replace(usage=used, cost_usd=self._cost(used) if known else None))

    def _cost(self, used: TokenUsage) -> float | None:
        """Compute the cost from the price list: Codex does not report it."""
        price = prices.current().of(self._agent.model) if self._agent.model else None
        return price.cost(used) if price else None

    def context(self, home: Path, session: str) -> ContextUse | None:
        """Return how full the context of a session is, read from the transcript in the agent's HOME."""
        return sessions.codex_context(home, session)

    def _key(self) -> str | None:
        """Return the name of the variable with the key, or None if a private server needs no key."""
        model_address.check_address(self.name, self._agent)
        names = (self._agent.key_env,) if self._agent.key_env else KEYS
        variable = next((name for name in names if self._caller.get(name)), None)
        if variable is None and (self._agent.key_env or not self._agent.base_url):
            raise subprocess_agent.no_key(self.name, names)
        return variable

    def _write_home(self, request: AgentRequest, key: str | None) -> None:
        subprocess_agent.write_home_file(
            request.box, f"{_HOME}/config.toml", configuration(self._agent, request.system, key)
        )
        subprocess_agent.write_home_file(request.box, f"{_TEMP}/.keep", "")
        if schema := strict_answer_schema(request):
            subprocess_agent.write_home_file(request.box, _SCHEMA, json.dumps(schema))


def _call_usage(stream: CodexStream, home: Path, before: Json | None) -> TokenUsage:
    """Return the usage of this call: the reported total covers the session. If interrupted, use the transcript."""
    total = stream.total or (sessions.codex_total(home, stream.session_id) if stream.session_id else None)
    earlier = codex_stream.usage_of(before, 0)
    now = codex_stream.usage_of(total, stream.turns)
    return TokenUsage(*(max(mine - theirs, 0) for mine, theirs in zip(now, earlier, strict=True)))


def argv(program: tuple[str, ...], agent: AgentConfig, request: AgentRequest) -> tuple[str, ...]:
    out = [*program, "exec", "--json", "--skip-git-repo-check", "--sandbox", sandbox_mode(request.box, request.role)]
    if agent.model:
        out += ["--model", agent.model]
    if strict_answer_schema(request):
        out += ["--output-schema", str(subprocess_agent.home_inside(request.box) / _SCHEMA)]
    if request.session:
        out += ["resume", request.session]
    return (*out, "-")


def sandbox_mode(box: Box, role: Role) -> str:
    """Return Codex's sandbox mode. Inside ours its sandbox cannot start, and every command would fail unnoticed."""
    if box.wall.by == "nothing":
        return "read-only" if role.looks_only else "workspace-write"
    if box.wall.mounted or box.wall.by == "landlock":
        return "danger-full-access"
    raise AgentUnavailable(
        f"codex cannot start its sandbox here, and isolation {box.wall.level} does not contain it: fs is needed",
        next_step="reflectloop doctor",
        missing=("isolation:fs",),
    )


def strict_answer_schema(request: AgentRequest) -> dict[str, object] | None:
    return strict_schema.strict_form(request.schema) if request.schema else None


def prompt_text(request: AgentRequest) -> str:
    """Return the prompt, with the schema in it if the server cannot enforce that schema."""
    if request.schema is None or strict_answer_schema(request):
        return request.prompt
    return f"{request.prompt}\n\nAnswer with one JSON object of this JSON Schema:\n{json.dumps(request.schema)}\n"


def configuration(agent: AgentConfig, system: str, key: str | None) -> str:
    """Return config.toml: the server's address and the name of the key variable, never the key itself."""
    return _CONFIG.format(
        model=f"model = {_toml(agent.model)}\n" if agent.model else "",
        system=_toml(system),
        keys=", ".join(_toml(name) for name in dict.fromkeys((*KEYS, *((key,) if key else ())))),
        url=_toml(agent.base_url or _PROVIDER),
        key=f"env_key = {_toml(key)}\n" if key else "",
        retries=_RETRIES,
    )


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def make(name: str, agent: AgentConfig, caller: Mapping[str, str]) -> CodexBackend:
    return CodexBackend(name, agent, caller)
