"""Codex CLI as an agent: asked without a person, with a HOME and a configuration of our making."""

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
_MAKER = "https://api.openai.com/v1"
_HOME, _SCHEMA = ".codex", ".codex/answer-schema.json"
# Elsewhere than its home: where that lies under the temp folder, it refuses to set itself up.
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
    hosts = (_MAKER,)
    can = Probe(schema_output=True, os_sandbox=True, resume=True, usage=True)

    def run(self, asking: AgentRequest) -> Reply:
        key, words = self._key(), self._words
        reached = self._reach()
        self._refuse_old(asking)
        command = argv(words, self._agent, asking)
        self._lay_out(asking, key)
        stream = CodexStream(asking.bounds.turns)
        home = subprocess_agent.home_inside(asking.box)
        env = {"CODEX_HOME": str(home / _HOME), "TMPDIR": str(home / _TEMP)}
        env |= subprocess_agent.passed_on(self._agent, self._caller) | ({key: self._caller[key]} if key else {})
        call = ProgramCall(command, subprocess_agent.lines(stream.take), prompt_of(asking).encode(), env, reached)
        own = subprocess_agent.own_home(asking.box)
        before = sessions.total_of_codex(own, asking.session) if asking.session else None
        reply = codex_stream.judge(stream, subprocess_agent.run(asking, call), asking)
        used = _used(stream, own, before)
        known = stream.completed or reply.status == "denied"  # of what was broken off, the last request is not
        return subprocess_agent.clean(reply._replace(usage=used, cost_usd=self._cost(used) if known else None))

    def _cost(self, used: TokenUsage) -> float | None:
        """It does not tell what it cost."""
        price = prices.current().of(self._agent.model) if self._agent.model else None
        return price.cost(used) if price else None

    def context(self, home: Path, session: str) -> ContextUse | None:
        """How full its context is, by the transcript it keeps in its HOME."""
        return sessions.of_codex(home, session)

    def _key(self) -> str | None:
        """The variable that holds it; None where a server of the user's own asks for none."""
        model_address.refuse(self.name, self._agent)
        names = (self._agent.key_env,) if self._agent.key_env else KEYS
        found = next((name for name in names if self._caller.get(name)), None)
        if found is None and (self._agent.key_env or not self._agent.base_url):
            raise subprocess_agent.no_key(self.name, names)
        return found

    def _lay_out(self, asking: AgentRequest, key: str | None) -> None:
        subprocess_agent.lay(asking.box, f"{_HOME}/config.toml", configuration(self._agent, asking.system, key))
        subprocess_agent.lay(asking.box, f"{_TEMP}/.keep", "")
        if shape := shape_of(asking):
            subprocess_agent.lay(asking.box, _SCHEMA, json.dumps(shape))


def _used(stream: CodexStream, home: Path, before: Json | None) -> TokenUsage:
    """Of this call alone: what is told is of the whole session. Where it was broken off, its transcript knows."""
    total = stream.total or (sessions.total_of_codex(home, stream.session_id) if stream.session_id else None)
    earlier = codex_stream.usage_of(before, 0)
    now = codex_stream.usage_of(total, stream.turns)
    return TokenUsage(*(max(mine - theirs, 0) for mine, theirs in zip(now, earlier, strict=True)))


def argv(words: tuple[str, ...], agent: AgentConfig, asking: AgentRequest) -> tuple[str, ...]:
    out = [*words, "exec", "--json", "--skip-git-repo-check", "--sandbox", sandbox_of(asking.box, asking.role)]
    if agent.model:
        out += ["--model", agent.model]
    if shape_of(asking):
        out += ["--output-schema", str(subprocess_agent.home_inside(asking.box) / _SCHEMA)]
    if asking.session:
        out += ["resume", asking.session]
    return (*out, "-")


def sandbox_of(box: Box, role: Role) -> str:
    """Its own sandbox cannot be built inside ours, where every command would fail with exit code 0 at the end."""
    if box.wall.by == "nothing":
        return "read-only" if role.looks_only else "workspace-write"
    if box.wall.mounted or box.wall.by == "landlock":
        return "danger-full-access"
    raise AgentUnavailable(
        f"codex cannot build its sandbox here, and isolation {box.wall.level} does not hold it: fs is needed",
        next_step="reflectloop doctor",
        missing=("isolation:fs",),
    )


def shape_of(asking: AgentRequest) -> dict[str, object] | None:
    return strict_schema.of(asking.schema) if asking.schema else None


def prompt_of(asking: AgentRequest) -> str:
    """A shape that the model's server cannot be held to is asked for in words."""
    if asking.schema is None or shape_of(asking):
        return asking.prompt
    return f"{asking.prompt}\n\nAnswer with one JSON object of this JSON Schema:\n{json.dumps(asking.schema)}\n"


def configuration(agent: AgentConfig, system: str, key: str | None) -> str:
    """Where the model is and which variable holds its key; never the key. Commands do not get to see it."""
    return _CONFIG.format(
        model=f"model = {_toml(agent.model)}\n" if agent.model else "",
        system=_toml(system),
        keys=", ".join(_toml(name) for name in dict.fromkeys((*KEYS, *((key,) if key else ())))),
        url=_toml(agent.base_url or _MAKER),
        key=f"env_key = {_toml(key)}\n" if key else "",
        retries=_RETRIES,
    )


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def make(name: str, agent: AgentConfig, caller: Mapping[str, str]) -> CodexBackend:
    return CodexBackend(name, agent, caller)
