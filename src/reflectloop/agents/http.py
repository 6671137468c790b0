"""Runs the built-in loop on an HTTP server: Anthropic Messages or any OpenAI-compatible API."""

from __future__ import annotations

import contextlib
import json
import select
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from reflectloop import secrets
from reflectloop.agents import model_address, prices
from reflectloop.agents.backend import AgentRequest, Probe, Reply, Status
from reflectloop.agents.loop.engine import AGAIN, AgentLoop, LoopEnvironment, Model
from reflectloop.agents.loop.repetition import RepetitionDetector
from reflectloop.agents.loop.states import LoopEnd
from reflectloop.agents.messages import AgentTurn, ModelRequest, NoAnswer, StopReason
from reflectloop.agents.wire.anthropic import Anthropic
from reflectloop.agents.wire.openai import OpenAI
from reflectloop.agents.wire.protocol import Wire
from reflectloop.agents.wire.transport import Endpoint, Transport
from reflectloop.config import AgentConfig
from reflectloop.diagnosis.retry_policy import RetryPolicy
from reflectloop.system import clock


class Transcript:
    """A new file of JSON lines; each line is flushed before the next is written."""

    def __init__(self, folder: Path, name: str, known: Iterable[str] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._known = [secret.encode() for secret in known if secret]
        self.path = _unused(folder, name)
        self._file = self.path.open("x", encoding="utf-8")

    def line(self, record: dict[str, Any]) -> None:
        text = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace").decode()
        self._file.write(secrets.current_detector().redact(text, self._known).replace("\n", " ") + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _unused(folder: Path, name: str) -> Path:
    plain = "".join(char if char.isalnum() or char in "-_" else "_" for char in name)[:100]
    number = 1
    while (path := folder / f"{plain}-{number}.jsonl").exists():
        number += 1
    return path


UNKNOWN_WINDOW = 32_768  # tokens; the context window assumed for an unknown model
_STATUSES: dict[StopReason, Status] = {StopReason.TIMEOUT: "timeout", StopReason.EMPTY: "no_output"}


def make(name: str, agent: AgentConfig, caller: Mapping[str, str]) -> Http:
    return Http(name, agent, caller)


@dataclass
class Http:
    name: str
    agent: AgentConfig
    caller: Mapping[str, str]
    again: RetryPolicy = AGAIN
    _counts: Counter[str] = field(default_factory=Counter, init=False)

    def probe(self) -> Probe:
        """Return what is known without a request to the server."""
        about = f"{self.agent.protocol} {self.agent.model or '(no model)'}"
        fault = self._fault()
        return Probe(about, schema_output=True, usage=True, problem=fault[0] if fault else None, next_step=_next(fault))

    def run(self, request: AgentRequest) -> Reply:
        fault = self._fault()
        if fault:
            return Reply("error", reason=f"{fault[0]}; next: {fault[1]}")
        begun = clock.monotonic()
        name = f"{request.role.value}-{request.step or 'call'}-{request.attempt}"
        with Transcript(request.folder, name, [self._key or ""]) as transcript:
            reply = self._converse(request, transcript, begun + request.bounds.timeout_s)
        return reply._replace(raw_log=transcript.path, duration_ms=round((clock.monotonic() - begun) * 1000))

    def _converse(self, request: AgentRequest, transcript: Transcript, deadline: float) -> Reply:
        wire, place = self._wire, self._place
        cancel = request.box.cancel
        transport = Transport(wire, place, clock.now, cancel.reader if cancel else None)

        def left_s() -> float:
            return deadline - clock.monotonic()

        def ask(talk: ModelRequest) -> AgentTurn:
            return transport.ask(wire.body(talk), left_s())._replace(trace_id=trace)

        def wait(seconds: float) -> None:
            if seconds >= left_s():
                raise NoAnswer(StopReason.TIMEOUT, f"the next retry would be in {seconds:.0f} s, after the time limit")
            if select.select([cancel.reader] if cancel else [], [], [], seconds)[0]:
                raise NoAnswer(StopReason.CANCELLED, "cancelled")

        trace = clock.trace_id()
        around = LoopEnvironment(
            left_s,
            wait=wait,
            policy=self.again,
            cancelled=lambda: cancel is not None and cancel.is_set,
            record=transcript.line,
            clean=self._clean,
        )
        with contextlib.closing(transport):
            loop = AgentLoop(request, ask, self._model, around, RepetitionDetector(self._counts, request.step))
            ending = loop.run()
        return self._reply(ending, loop, trace)

    def _reply(self, ending: LoopEnd, loop: AgentLoop, trace: str) -> Reply:
        return Reply(
            "ok" if ending.completed else _STATUSES.get(ending.stop_reason, "error"),
            text=self._clean(ending.text),
            data=_cleaned(ending.data, self._clean),
            session_id=trace,
            usage=loop.budget.used,
            cost_usd=loop.budget.cost_usd,
            denials=tuple(self._clean(denial) for denial in loop.denials),
            reason=self._clean(ending.reason),
        )

    def _clean(self, text: str) -> str:
        """Redact every secret, including this agent's key."""
        return secrets.current_detector().redact(text, [self._key.encode()] if self._key else []) if text else text

    # Settings ---------------------------------------------------------------------------------------------------------

    @property
    def _wire(self) -> Wire:
        return OpenAI(self.agent.base_url) if self.agent.protocol == "openai" else Anthropic()

    @property
    def _base(self) -> str:
        return (self.agent.base_url or self._wire.default_url).rstrip("/")

    @property
    def _key_env(self) -> str:
        return self.agent.key_env or self._wire.default_key

    @property
    def _key(self) -> str | None:
        return self.caller.get(self._key_env, "").strip() or None

    @property
    def _place(self) -> Endpoint:
        url = self._wire.url(self._base)
        return Endpoint(url, self._wire.headers(self._key), self._key_env, model_address.is_loopback(self._base))

    @property
    def _model(self) -> Model:
        name = self.agent.model or ""
        price = prices.current().of(name)
        window = self.agent.window or (price.window if price else None) or UNKNOWN_WINDOW
        return Model(name, window, min(self.agent.reply_tokens, window // 2), price)

    def _fault(self) -> tuple[str, str] | None:
        """Return why the agent cannot be called and what to do about it, or None."""
        if not self.agent.model:
            return f"agent {self.name} has no model", f"set model in [agents.{self.name}] of reflectloop.toml"
        url = urlsplit(self._base)
        if url.scheme not in ("http", "https") or not url.hostname or url.username or url.password:
            return f"agent {self.name}: base_url is not an http address without a user name", "correct base_url"
        return self._key_fault(url.scheme)

    def _key_fault(self, scheme: str) -> tuple[str, str] | None:
        if model_address.is_loopback(self._base):
            return None
        set_it = f"export {self._key_env}=…"
        if self._key is None:
            return f"agent {self.name} has no key: {self._key_env} is not set", set_it
        if not self._key.isascii() or not self._key.isprintable():
            return f"{self._key_env} contains characters that no key has", set_it
        if scheme == "http" and not self.agent.key_env:
            why = f"agent {self.name}: {self._key_env} would be sent without encryption"
            return why, "use https, or name the variable in key_env if that is intended"
        return None


def _next(fault: tuple[str, str] | None) -> str:
    return fault[1] if fault else "reflectloop agents"


def _cleaned(value: Any, clean: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(item, clean) for item in value]
    return {key: _cleaned(item, clean) for key, item in value.items()} if isinstance(value, dict) else value
