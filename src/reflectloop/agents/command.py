"""Any program as an agent: a request as JSON on its standard input, a result as JSON on its standard output."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import ConfigDict, Field, ValidationError

from reflectloop.agents import network, subprocess_agent
from reflectloop.agents.backend import AgentRequest, Json, Probe, Reply, TokenUsage
from reflectloop.agents.subprocess_agent import ProgramCall
from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable
from reflectloop.fileops import json_from_text
from reflectloop.fileops.plan_ops import PlanOpModel
from reflectloop.fileops.response import Response
from reflectloop.fileops.schema import DIALECT
from reflectloop.terms import Role

PROTO: Literal["reflectloop.agent.v1"] = "reflectloop.agent.v1"
MOST_TOKENS = 10**12
_HOW = "set [agents.NAME] run in reflectloop.toml to the program and its first words"


class CommandLimits(PlanOpModel):
    """What the call may use; None: no limit of its own."""

    turns: int
    timeout_s: float
    tokens: int | None = None
    usd: float | None = None


class ProgramRequest(PlanOpModel):
    """What the program reads."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, json_schema_serialization_defaults_required=True
    )

    proto: Literal["reflectloop.agent.v1"] = PROTO
    role: Role
    prompt: str
    system: str = ""
    answer_schema: Json | None = Field(default=None, alias="schema", description="JSON Schema that `data` must satisfy")
    step: str = ""
    attempt: int = 1
    turn: int = 1
    bounds: CommandLimits
    session: str | None = Field(default=None, description="the session_id it gave earlier, where it is to go on")
    response: Json | None = Field(default=None, description="what came of the ops of the turn before")


class Tokens(PlanOpModel):
    input_tokens: int = Field(default=0, ge=0, le=MOST_TOKENS)
    output_tokens: int = Field(default=0, ge=0, le=MOST_TOKENS)
    cache_read_tokens: int = Field(default=0, ge=0, le=MOST_TOKENS)
    cache_write_tokens: int = Field(default=0, ge=0, le=MOST_TOKENS)


class ProgramResult(PlanOpModel):
    """What the program writes."""

    status: Literal["ok", "error", "denied", "no_output"] = "ok"
    text: str = ""
    data: Json | None = None
    ops: tuple[Json, ...] = Field(default=(), description="FileOps ops that the engine carries out, all or none")
    more: bool = Field(default=False, description="whether it wants to be asked again, with what came of its ops")
    session_id: str | None = None
    usage: Tokens = Tokens()
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    denials: tuple[str, ...] = ()
    reason: str = ""


class _Turn(NamedTuple):
    reply: Reply
    result: ProgramResult | None = None  # whose ops are still to be carried out


class CommandBackend:
    def __init__(self, name: str, agent: AgentConfig, caller: Mapping[str, str]) -> None:
        self.name = name
        self._agent, self._caller = agent, caller

    def probe(self) -> Probe:
        try:
            self._words()
            network.of(self.name, self._agent)
        except AgentUnavailable as fault:
            return Probe(problem=fault.message, next_step=fault.next_step)
        return Probe(version=None, schema_output=True, resume=True, usage=True)

    def run(self, asking: AgentRequest) -> Reply:
        words, request = self._words(), _request(asking)
        replies: list[Reply] = []
        for number in range(1, asking.bounds.turns + 1):
            turn = self._turn(_with_what_is_left(asking, replies), words, request.model_copy(update={"turn": number}))
            replies.append(turn.reply)
            if turn.result is None:
                return _summed(replies)
            if asking.act is None:
                refusal = f"asked for {len(turn.result.ops)} op(s), and nothing may be done for {asking.role}"
                return _summed(replies)._replace(status="denied", reason=refusal, denials=(refusal,))
            response = asking.act(turn.result.ops)
            if not turn.result.more:
                return _judged(asking, _summed(replies), response)
            session = turn.result.session_id or request.session
            request = request.model_copy(update={"response": response.as_json(), "session": session})
        return _summed(replies)._replace(status="error", reason=f"wanted more than {asking.bounds.turns} turns")

    def _words(self) -> tuple[str, ...]:
        if not self._agent.run:
            raise AgentUnavailable(f"agent {self.name} has no program", next_step=_HOW.replace("NAME", self.name))
        found = subprocess_agent.words_of(self._agent, self._caller)
        if found is None:
            raise subprocess_agent.missing(self.name, self._agent.run[0], _HOW.replace("NAME", self.name))
        return found

    def _turn(self, asking: AgentRequest, words: Sequence[str], request: ProgramRequest) -> _Turn:
        said = bytearray()

        def hear(chunk: bytes) -> None:
            said.extend(chunk)
            subprocess_agent.refuse_long(said)

        raw = request.model_dump_json(by_alias=True).encode()
        heard = subprocess_agent.run(
            asking,
            ProgramCall(
                tuple(words),
                hear,
                raw,
                subprocess_agent.passed_on_with_key(self._agent, self._caller),
                network.of(self.name, self._agent),
            ),
        )
        if (broken := heard.broken_off()) is not None:
            return _Turn(broken)
        if heard.done.exit_code:
            why = f"exit {heard.done.exit_code}: {heard.last_line}".rstrip(": ")
            return _Turn(heard.reply("error", "; ".join(filter(None, (why, network.hint(self.name, self._agent))))))
        if not said.strip():
            return _Turn(heard.reply("no_output", "ended without a word"))
        base = heard.reply("ok", "")
        try:
            return _turned(asking, base, read(bytes(said)))
        except json_from_text.NoJsonObject as fault:
            return _Turn(base._replace(status="error", reason=f"its result {fault.words}"))


def _turned(asking: AgentRequest, base: Reply, result: ProgramResult) -> _Turn:
    reply = base._replace(
        status=result.status,
        text=result.text,
        data=result.data,
        session_id=result.session_id,
        usage=TokenUsage(**result.usage.model_dump(), turns=1),
        cost_usd=result.cost_usd,
        denials=(*result.denials, *base.denials),
        reason=result.reason,
    )
    if result.status != "ok":
        return _Turn(reply._replace(reason=result.reason or f"it says {result.status}"))
    return _Turn(reply, result) if result.ops else _Turn(_judged(asking, reply))


def read(raw: bytes) -> ProgramResult:
    """A result as it was written, prose and fences around it passed over, nothing in it guessed."""
    value, faults = json_from_text.read(raw, frozenset(ProgramResult.model_fields))
    if faults:
        raise json_from_text.NoJsonObject(f"is faulty: {json_from_text.dotted(faults[0].place)} {faults[0].words}")
    try:
        return ProgramResult.model_validate(value)
    except ValidationError as fault:
        told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in fault.errors()[:5])
        raise json_from_text.NoJsonObject(f"is faulty: {told}") from fault


def _judged(asking: AgentRequest, reply: Reply, response: Response | None = None) -> Reply:
    """`ok` is what says something, has the shape that was asked for, and whose ops were carried out."""
    if response is not None and response.status != "ok":
        why = response.fail.reason if response.fail else "; ".join(f"{e.field}: {e.error}" for e in response.errors)
        return reply._replace(status="error", reason=f"its ops: {response.status} {why}".rstrip())
    if asking.answer is not None:
        if reply.data is None:
            return reply._replace(status="no_output", reason="gave no data of the shape that was asked for")
        if faults := asking.faults_of(reply.data):
            return reply._replace(status="error", reason="; ".join(faults))
    elif response is None and not reply.text.strip() and reply.data is None:
        return reply._replace(status="no_output", reason="said nothing")
    return reply


def _summed(replies: Sequence[Reply]) -> Reply:
    """The last one, with what all of them used; a cost that is unknown of one is unknown of all."""
    costs = [one.cost_usd for one in replies if one.cost_usd is not None]
    return subprocess_agent.clean(replies[-1])._replace(
        usage=functools.reduce(TokenUsage.plus, (one.usage for one in replies)),
        cost_usd=sum(costs) if len(costs) == len(replies) else None,
        duration_ms=sum(one.duration_ms for one in replies),
    )


def _with_what_is_left(asking: AgentRequest, replies: Sequence[Reply]) -> AgentRequest:
    left = asking.bounds.timeout_s - sum(one.duration_ms for one in replies) / 1000
    return dataclasses.replace(asking, bounds=asking.bounds._replace(timeout_s=max(left, 0.1)))


def _request(asking: AgentRequest) -> ProgramRequest:
    return ProgramRequest(
        role=asking.role,
        prompt=asking.prompt,
        system=asking.system,
        answer_schema=asking.schema,
        step=asking.step,
        attempt=asking.attempt,
        bounds=CommandLimits(**asking.bounds._asdict()),
        session=asking.session,
    )


def request_schema() -> Json:
    return {**DIALECT, **ProgramRequest.model_json_schema(mode="serialization")}


def result_schema() -> Json:
    return {**DIALECT, **ProgramResult.model_json_schema()}


def make(name: str, agent: AgentConfig, caller: Mapping[str, str]) -> CommandBackend:
    return CommandBackend(name, agent, caller)
