"""Runs any program as an agent: a JSON request on its standard input, a JSON result on its standard output."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import ConfigDict, Field, ValidationError

from reflectloop.agents import network, subprocess_agent
from reflectloop.agents.backend import AgentRequest, Json, Probe, Reply, TokenUsage
from reflectloop.agents.subprocess_agent import ProgramBackend, ProgramCall
from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable
from reflectloop.fileops import json_from_text
from reflectloop.fileops.plan_ops import PlanOpModel
from reflectloop.fileops.response import Response
from reflectloop.terms import Role, dotted

PROTO: Literal["reflectloop.agent.v1"] = "reflectloop.agent.v1"
MOST_TOKENS = 10**12


class CommandLimits(PlanOpModel):
    """The limits of a call; None means no limit."""

    turns: int
    timeout_s: float
    tokens: int | None = None
    usd: float | None = None


class ProgramRequest(PlanOpModel):
    """The request that the program reads."""

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
    session: str | None = Field(
        default=None, description="the session_id of an earlier result, to continue that session"
    )
    response: Json | None = Field(default=None, description="the response to the ops of the previous turn")


class Tokens(PlanOpModel):
    input_tokens: int = Field(default=0, ge=0, le=MOST_TOKENS)
    output_tokens: int = Field(default=0, ge=0, le=MOST_TOKENS)
    cache_read_tokens: int = Field(default=0, ge=0, le=MOST_TOKENS)
    cache_write_tokens: int = Field(default=0, ge=0, le=MOST_TOKENS)


class ProgramResult(PlanOpModel):
    """The result that the program writes."""

    status: Literal["ok", "error", "denied", "no_output"] = "ok"
    text: str = ""
    data: Json | None = None
    ops: tuple[Json, ...] = Field(default=(), description="FileOps ops that the engine executes, all or none")
    more: bool = Field(default=False, description="true to be called again with the response to its ops")
    session_id: str | None = None
    usage: Tokens = Tokens()
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    denials: tuple[str, ...] = ()
    reason: str = ""


class _Turn(NamedTuple):
    reply: Reply
    result: ProgramResult | None = None  # its ops are still to be executed


class CommandBackend(ProgramBackend):
    def probe(self) -> Probe:
        try:
            self._command()
            network.forward_for(self.name, self._agent)
        except AgentUnavailable as fault:
            return Probe(problem=fault.message, next_step=fault.next_step)
        return Probe(version=None, schema_output=True, resume=True, usage=True)

    def run(self, request: AgentRequest) -> Reply:
        program, message = self._command(), _request(request)
        replies: list[Reply] = []
        for number in range(1, request.bounds.turns + 1):
            turn = self._turn(
                _with_remaining_time(request, replies), program, message.model_copy(update={"turn": number})
            )
            replies.append(turn.reply)
            if turn.result is None:
                return _summed(replies)
            if request.act is None:
                refusal = f"asked for {len(turn.result.ops)} op(s), but {request.role} may not change files"
                return _summed(replies)._replace(status="denied", reason=refusal, denials=(refusal,))
            response = request.act(turn.result.ops)
            if not turn.result.more:
                return _judged(request, _summed(replies), response)
            session = turn.result.session_id or message.session
            message = message.model_copy(update={"response": response.as_json(), "session": session})
        return _summed(replies)._replace(status="error", reason=f"needs more than {request.bounds.turns} turns")

    def _turn(self, request: AgentRequest, program: Sequence[str], message: ProgramRequest) -> _Turn:
        output = bytearray()

        def hear(chunk: bytes) -> None:
            output.extend(chunk)
            subprocess_agent.refuse_long_answer(output)

        raw = message.model_dump_json(by_alias=True).encode()
        ended = subprocess_agent.run(
            request,
            ProgramCall(
                tuple(program),
                hear,
                raw,
                subprocess_agent.passed_variables_with_key(self._agent, self._caller),
                network.forward_for(self.name, self._agent),
            ),
        )
        if (broken := ended.interrupted_reply()) is not None:
            return _Turn(broken)
        if ended.done.exit_code:
            why = f"exit {ended.done.exit_code}: {ended.last_line}".rstrip(": ")
            return _Turn(ended.reply("error", "; ".join(filter(None, (why, network.hint(self.name, self._agent))))))
        if not output.strip():
            return _Turn(ended.reply("no_output", "ended without any output"))
        base = ended.reply("ok", "")
        try:
            return _turn_of(request, base, parse_result(bytes(output)))
        except json_from_text.NoJsonObject as fault:
            return _Turn(base._replace(status="error", reason=f"its result {fault.message}"))


def _turn_of(request: AgentRequest, base: Reply, result: ProgramResult) -> _Turn:
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
        return _Turn(reply._replace(reason=result.reason or f"it reported {result.status}"))
    return _Turn(reply, result) if result.ops else _Turn(_judged(request, reply))


def parse_result(raw: bytes) -> ProgramResult:
    """Parse the program's result. Prose and code fences around the JSON are skipped; nothing is guessed."""
    value, faults = json_from_text.read_object(raw, frozenset(ProgramResult.model_fields))
    if faults:
        raise json_from_text.NoJsonObject(f"is faulty: {dotted(faults[0].place)} {faults[0].message}")
    try:
        return ProgramResult.model_validate(value)
    except ValidationError as fault:
        faults_text = "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in fault.errors()[:5])
        raise json_from_text.NoJsonObject(f"is faulty: {faults_text}") from fault


def _judged(request: AgentRequest, reply: Reply, response: Response | None = None) -> Reply:
    """Turn a reply into an error unless it has content, validates against the model, and its ops succeeded."""
    if response is not None and response.status != "ok":
        why = response.fail.reason if response.fail else "; ".join(f"{e.field}: {e.error}" for e in response.errors)
        return reply._replace(status="error", reason=f"its ops: {response.status} {why}".rstrip())
    if request.answer is not None:
        if reply.data is None:
            return reply._replace(status="no_output", reason="gave no structured answer")
        if faults := request.faults_of(reply.data):
            return reply._replace(status="error", reason="; ".join(faults))
    elif response is None and not reply.text.strip() and reply.data is None:
        return reply._replace(status="no_output", reason="gave no answer")
    return reply


def _summed(replies: Sequence[Reply]) -> Reply:
    """Return the last reply with the summed usage; the cost is unknown if one reply's cost is unknown."""
    costs = [reply.cost_usd for reply in replies if reply.cost_usd is not None]
    return subprocess_agent.redact_reply(replies[-1])._replace(
        usage=functools.reduce(TokenUsage.plus, (reply.usage for reply in replies)),
        cost_usd=sum(costs) if len(costs) == len(replies) else None,
        duration_ms=sum(reply.duration_ms for reply in replies),
    )


def _with_remaining_time(request: AgentRequest, replies: Sequence[Reply]) -> AgentRequest:
    left = request.bounds.timeout_s - sum(reply.duration_ms for reply in replies) / 1000
    return dataclasses.replace(request, bounds=request.bounds._replace(timeout_s=max(left, 0.1)))


def _request(request: AgentRequest) -> ProgramRequest:
    return ProgramRequest(
        role=request.role,
        prompt=request.prompt,
        system=request.system,
        answer_schema=request.schema,
        step=request.step,
        attempt=request.attempt,
        bounds=CommandLimits(**request.bounds._asdict()),
        session=request.session,
    )


def make(name: str, agent: AgentConfig, caller: Mapping[str, str]) -> CommandBackend:
    return CommandBackend(name, agent, caller)
