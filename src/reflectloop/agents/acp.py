"""Runs any agent of the Agent Client Protocol: its program in the sandbox, connected by its standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import acp
from acp.interfaces import Client as AnyClient
from acp.schema import ClientCapabilities, FileSystemCapabilities, Implementation, InitializeResponse, PromptResponse

import reflectloop
from reflectloop import config, policy
from reflectloop.agents import network, subprocess_agent
from reflectloop.agents.acp_client import Client
from reflectloop.agents.backend import AgentRequest, Json, Probe, Reply, TokenUsage
from reflectloop.agents.subprocess_agent import (
    LARGEST_ANSWER,
    LARGEST_LINE,
    OutputLimitExceeded,
    ProgramBackend,
    ProgramCall,
    ProgramOutput,
)
from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable
from reflectloop.system import process

_LARGEST = 256 << 20  # bytes of one conversation
_GRACE_S = 2.0  # for the program to exit once it has answered, or was asked to stop
_STOPS = {
    "max_tokens": "the answer was cut at the maximum length",
    "max_turn_requests": "used all of its turns",
    "refusal": "refused to answer",
    "cancelled": "cancelled",
}


class _Talk(NamedTuple):
    """The end of a conversation: an answer, or the reason why there is none."""

    session_id: str | None = None
    response: PromptResponse | None = None
    failure: str = ""
    needs_login: bool = False


class AcpBackend(ProgramBackend):
    def probe(self) -> Probe:
        try:
            program = self._command()
            network.forward_for(self.name, self._agent)
        except AgentUnavailable as fault:
            return Probe(problem=fault.message, next_step=fault.next_step)
        return Probe(version=subprocess_agent.version_by_files(program[:1]), resume=True, usage=True)

    def run(self, request: AgentRequest) -> Reply:
        program = self._command()
        root = request.box.workspace.root
        rules = policy.of(config.load(root).policy, root).in_workspace
        client = Client(request, rules, online=network.forward_for(self.name, self._agent) is None)
        talk, output = asyncio.run(self._converse(request, program, client))
        reply = _judge(talk, output, request, client.text)
        if not reply.ok and (hint := network.hint(self.name, self._agent)):
            reply = reply._replace(reason=f"{reply.reason}; {hint}")
        return subprocess_agent.redact_reply(
            reply._replace(
                text=client.text[:LARGEST_ANSWER],
                session_id=talk.session_id,
                usage=_usage(talk.response, client.calls + 1),
                cost_usd=None if request.session else client.cost_usd,
                denials=(*client.denials, *reply.denials),
            )
        )

    async def _converse(
        self, request: AgentRequest, program: tuple[str, ...], client: Client
    ) -> tuple[_Talk, ProgramOutput]:
        """Run the program in a thread and the conversation in the event loop; when one ends, end the other."""
        stop = process.Cancel()
        pipe = os.pipe()
        try:
            line = _Line(asyncio.get_running_loop())
            env = subprocess_agent.passed_variables_with_key(self._agent, self._caller)
            call = ProgramCall(program, line.hear, b"", env, network.forward_for(self.name, self._agent))
            boxed = dataclasses.replace(request, box=dataclasses.replace(request.box, cancel=stop))
            running = asyncio.create_task(asyncio.to_thread(_run, boxed, call, pipe[0], line))
            try:
                talk = await self._until(request, client, line, pipe[1], running)
                await asyncio.wait({running}, timeout=_GRACE_S)
            finally:
                stop.set()
                output = await running
            return talk, output
        finally:
            stop.close()
            os.close(pipe[0])

    async def _until(
        self, request: AgentRequest, client: Client, line: _Line, pipe: int, running: asyncio.Task[ProgramOutput]
    ) -> _Talk:
        writer = await _writer(pipe)
        connection = acp.connect_to_agent(cast("AnyClient", client), writer, line.reader)
        talking = asyncio.create_task(_talk(request, client, connection))
        stopped = asyncio.create_task(_watch(request, client))
        try:
            await asyncio.wait({talking, running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done() and client.session:
                await _ask_to_stop(connection, client.session)
            if not talking.done():
                await asyncio.wait({talking}, timeout=_GRACE_S)
            if stopped.done():
                return _Talk(client.session, failure=stopped.result())
            return talking.result() if talking.done() else _Talk(client.session)
        finally:
            for task in (talking, stopped):
                task.cancel()
            await asyncio.gather(talking, stopped, return_exceptions=True)
            await _close(connection, writer)


class _Line:
    """Passes the program's output from its thread to the conversation."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.reader = asyncio.StreamReader(limit=LARGEST_LINE, loop=loop)
        self._loop, self._size = loop, 0

    def hear(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > _LARGEST:
            raise OutputLimitExceeded(f"wrote more than {_LARGEST >> 20} MB")
        self._loop.call_soon_threadsafe(self.reader.feed_data, chunk)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self.reader.feed_eof)


def _run(request: AgentRequest, call: ProgramCall, stdin: int, line: _Line) -> ProgramOutput:
    try:
        return subprocess_agent.run_reading(request, call, stdin)
    finally:
        line.end()


async def _writer(pipe: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    file = os.fdopen(pipe, "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), loop=loop), file
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _close(connection: Any, writer: asyncio.StreamWriter) -> None:  # noqa: ANN401
    """End the conversation. Wait a moment for pending writes: a program that does not read never takes them.

    After that moment, cancel the connection and close the pipe with its unwritten data.
    """
    with contextlib.suppress(OSError):  # TimeoutError is one
        await asyncio.wait_for(connection.close(), _GRACE_S)
    writer.transport.abort()


async def _ask_to_stop(connection: Any, session: str) -> None:  # noqa: ANN401 - its type is not public
    """Ask the program to stop, without waiting for a program that does not read."""
    with contextlib.suppress(OSError):
        await asyncio.wait_for(connection.cancel(session_id=session), _GRACE_S)


async def _watch(request: AgentRequest, client: Client) -> str:
    """Return the reason to stop: cancelled, too many tool calls, or an answer that is too long."""
    cancel = request.box.cancel
    while client.calls < request.bounds.turns:
        if cancel and cancel.is_set:
            return "cancelled"
        if client.length > LARGEST_ANSWER:
            return f"answered with more than {LARGEST_ANSWER >> 20} MB"
        await asyncio.sleep(0.05)
    return f"took more than {request.bounds.turns} turns"


async def _talk(request: AgentRequest, client: Client, connection: Any) -> _Talk:  # noqa: ANN401 - its type is not public
    try:
        begun = await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            # The agent reads the workspace itself, and some agents treat "no such file" from a client as an error.
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=False, write_text_file=request.act is not None), terminal=False
            ),
            client_info=Implementation(name="reflectloop", version=reflectloop.__version__),
        )
        client.begin(await _session(request, connection, begun))
        response = await connection.prompt(session_id=client.session, prompt=[acp.text_block(_prompt(request))])
        return _Talk(client.session, response)
    except acp.RequestError as fault:
        detail = json.dumps(fault.data)[:300] if fault.data else ""
        return _Talk(client.session, failure=f"{fault} {detail}".strip(), needs_login=fault.code in _LOGIN)
    except ConnectionError:  # how the program ended says more
        return _Talk(client.session)
    except ValueError as fault:
        return _Talk(client.session, failure=f"broke the protocol: {str(fault)[:300]}")


_LOGIN = (acp.RequestError.auth_required().code, 401, 403)


async def _session(request: AgentRequest, connection: Any, begun: InitializeResponse) -> str:  # noqa: ANN401
    cwd = os.fspath(request.box.view.root if request.box.view else request.box.workspace.repo)
    if request.session is None:
        return str((await connection.new_session(cwd=cwd, mcp_servers=[])).session_id)
    if not (begun.agent_capabilities and begun.agent_capabilities.load_session):
        raise ValueError("it cannot continue an earlier session")
    await connection.load_session(cwd=cwd, session_id=request.session, mcp_servers=[])
    return request.session


def _prompt(request: AgentRequest) -> str:
    """Return the prompt with the system text and the schema, which the protocol has no fields for."""
    shape = f"Answer with one JSON object of this JSON Schema:\n{json.dumps(request.schema)}" if request.schema else ""
    return "\n\n".join(part for part in (request.system, request.prompt, shape) if part)


def _usage(response: PromptResponse | None, turns: int) -> TokenUsage:
    usage = response.usage if response else None
    if usage is None:
        counts = _usage_in_metadata(response)
        return TokenUsage(int(counts.get("input_tokens") or 0), int(counts.get("output_tokens") or 0), turns=turns)
    return TokenUsage(
        usage.input_tokens, usage.output_tokens, usage.cached_read_tokens or 0, usage.cached_write_tokens or 0, turns
    )


def _usage_in_metadata(response: PromptResponse | None) -> Json:
    """Return the token counts that Gemini CLI puts into the response's metadata."""
    value: Any = (response.field_meta if response else None) or {}
    for name in ("quota", "token_count"):
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _judge(talk: _Talk, output: ProgramOutput, request: AgentRequest, text: str) -> Reply:
    """Turn the conversation into a reply. An answer counts even if the program had to be ended after it."""
    if talk.response is None:
        broken = None if output.done.cancelled else output.interrupted_reply()
        if broken is not None:
            return broken
        code = output.done.exit_code
        reason = talk.failure or f"ended without an answer (exit {code}): {output.last_line}".rstrip(": ")
        return output.reply("denied" if talk.needs_login else "error", reason)
    stop = talk.response.stop_reason
    if stop != "end_turn":
        return output.reply("denied" if stop == "refusal" else "error", _STOPS.get(stop, stop))
    if not text.strip():
        return output.reply("no_output", "gave no answer")
    return (
        output.reply("ok", "") if request.answer is None else subprocess_agent.reply_with_object(output, request, text)
    )


def make(name: str, agent: AgentConfig, caller: Mapping[str, str]) -> AcpBackend:
    return AcpBackend(name, agent, caller)
