"""Runs Codex CLI as an agent, with a HOME and a configuration that we write, and parses its JSON output."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reflectloop.agents import model_address, prices, sessions, subprocess_agent
from reflectloop.agents.backend import AgentRequest, Json, Probe, Reply, TokenUsage
from reflectloop.agents.cli import Cli
from reflectloop.agents.sessions import ContextUse
from reflectloop.agents.subprocess_agent import OutputLimitExceeded, ProgramCall, ProgramOutput
from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable
from reflectloop.sandbox.sandbox import Box
from reflectloop.system.patterns import lazy
from reflectloop.terms import Role

_DROPPED = frozenset(("default", "title"))


def strict_form(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the strict form, or None if the schema allows arbitrary keys."""
    if _is_open(schema):
        return None
    made = _strict(schema)
    return made if isinstance(made, dict) else None


def _is_open(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    if isinstance(value, list):
        return any(map(_is_open, value))
    if not isinstance(value, dict):
        return False
    if value.get("type") == "object" and not isinstance(value.get("properties"), dict):
        return True
    return any(map(_is_open, value.values()))


def _strict(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, list):
        return [_strict(item) for item in value]
    if not isinstance(value, dict):
        return value
    properties = value.get("properties")
    made = {
        key: {name: _strict(item) for name, item in entry.items()} if key in ("properties", "$defs") else _strict(entry)
        for key, entry in value.items()
        if key not in _DROPPED
    }
    if isinstance(properties, dict):
        made |= {"required": list(properties), "additionalProperties": False}
    return made


_TOOLS = ("command_execution", "file_change", "mcp_tool_call", "web_search")
_KEY_REFUSED = lazy(r"\b(401|403)\b")
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


def judge_stream(stream: CodexStream, output: ProgramOutput, request: AgentRequest) -> Reply:
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
        reply = judge_stream(stream, subprocess_agent.run(request, call), request)
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
    earlier = usage_of(before, 0)
    now = usage_of(total, stream.turns)
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
    return strict_form(request.schema) if request.schema else None


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
