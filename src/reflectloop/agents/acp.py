"""Any agent of the Agent Client Protocol: its program in the box, spoken to over its standard streams."""

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
    ProgramCall,
    ProgramOutput,
)
from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable
from reflectloop.system import process

_HOW = "set [agents.NAME] run in reflectloop.toml to the program and its first words"
_LARGEST = 256 << 20  # bytes of a whole conversation
_GRACE_S = 2.0  # to end by itself once it has answered, or was asked to stop
_STOPS = {
    "max_tokens": "its answer was cut at the longest it may be",
    "max_turn_requests": "took all of its turns",
    "refusal": "refused to answer",
    "cancelled": "cancelled",
}


class _Talk(NamedTuple):
    """What came of it: an answer, or why there is none."""

    session_id: str | None = None
    response: PromptResponse | None = None
    failure: str = ""
    needs_login: bool = False


class AcpBackend:
    def __init__(self, name: str, agent: AgentConfig, caller: Mapping[str, str]) -> None:
        self.name = name
        self._agent, self._caller = agent, caller

    def probe(self) -> Probe:
        try:
            words = self._words()
            network.of(self.name, self._agent)
        except AgentUnavailable as fault:
            return Probe(problem=fault.message, next_step=fault.next_step)
        return Probe(version=subprocess_agent.version_by_files(words[:1]), resume=True, usage=True)

    def run(self, asking: AgentRequest) -> Reply:
        words = self._words()
        root = asking.box.workspace.root
        rules = policy.of(config.load(root).policy, root).in_workspace
        client = Client(asking, rules, online=network.of(self.name, self._agent) is None)
        talk, heard = asyncio.run(self._hold(asking, words, client))
        reply = _judge(talk, heard, asking, client.text)
        if not reply.ok and (hint := network.hint(self.name, self._agent)):
            reply = reply._replace(reason=f"{reply.reason}; {hint}")
        return subprocess_agent.clean(
            reply._replace(
                text=client.text[:LARGEST_ANSWER],
                session_id=talk.session_id,
                usage=_usage(talk.response, client.calls + 1),
                cost_usd=None if asking.session else client.cost_usd,
                denials=(*client.denials, *reply.denials),
            )
        )

    def _words(self) -> tuple[str, ...]:
        if not self._agent.run:
            raise AgentUnavailable(f"agent {self.name} has no program", next_step=_HOW.replace("NAME", self.name))
        found = subprocess_agent.words_of(self._agent, self._caller)
        if found is None:
            raise subprocess_agent.missing(self.name, self._agent.run[0], _HOW.replace("NAME", self.name))
        return found

    async def _hold(self, asking: AgentRequest, words: tuple[str, ...], client: Client) -> tuple[_Talk, ProgramOutput]:
        """The program in a thread, the conversation here; whichever ends first ends the other."""
        stop = process.Cancel()
        pipe = os.pipe()
        try:
            line = _Line(asyncio.get_running_loop())
            env = subprocess_agent.passed_on_with_key(self._agent, self._caller)
            call = ProgramCall(words, line.hear, b"", env, network.of(self.name, self._agent))
            boxed = dataclasses.replace(asking, box=dataclasses.replace(asking.box, cancel=stop))
            running = asyncio.create_task(asyncio.to_thread(_run, boxed, call, pipe[0], line))
            try:
                talk = await self._until(asking, client, line, pipe[1], running)
                await asyncio.wait({running}, timeout=_GRACE_S)
            finally:
                stop.set()
                heard = await running
            return talk, heard
        finally:
            stop.close()
            os.close(pipe[0])

    async def _until(
        self, asking: AgentRequest, client: Client, line: _Line, pipe: int, running: asyncio.Task[ProgramOutput]
    ) -> _Talk:
        writer = await _writer(pipe)
        connection = acp.connect_to_agent(cast("AnyClient", client), writer, line.reader)
        talking = asyncio.create_task(_talk(asking, client, connection))
        stopped = asyncio.create_task(_watch(asking, client))
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
    """What the program writes, on its way from its thread to the conversation."""

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


def _run(asking: AgentRequest, call: ProgramCall, stdin: int, line: _Line) -> ProgramOutput:
    try:
        return subprocess_agent.run_reading(asking, call, stdin)
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
    """End the conversation. What is still to be written is given a moment: a program that does not read never takes it.

    When the moment is over, the connection is cancelled and the pipe closed with what it holds.
    """
    with contextlib.suppress(OSError):  # TimeoutError is one
        await asyncio.wait_for(connection.close(), _GRACE_S)
    writer.transport.abort()


async def _ask_to_stop(connection: Any, session: str) -> None:  # noqa: ANN401 - its type is not public
    """Tell the program to stop; one that does not read is not waited for."""
    with contextlib.suppress(OSError):
        await asyncio.wait_for(connection.cancel(session_id=session), _GRACE_S)


async def _watch(asking: AgentRequest, client: Client) -> str:
    """Until somebody cancels, more tools were used than turns may be taken, or more was said than anybody reads."""
    cancel = asking.box.cancel
    while client.calls < asking.bounds.turns:
        if cancel and cancel.is_set:
            return "cancelled"
        if client.length > LARGEST_ANSWER:
            return f"answered with more than {LARGEST_ANSWER >> 20} MB"
        await asyncio.sleep(0.05)
    return f"took more than {asking.bounds.turns} turns"


async def _talk(asking: AgentRequest, client: Client, connection: Any) -> _Talk:  # noqa: ANN401 - its type is not public
    try:
        begun = await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            # It sees the workspace itself, and some take "there is no such file" from a client for a fault.
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=False, write_text_file=asking.act is not None), terminal=False
            ),
            client_info=Implementation(name="reflectloop", version=reflectloop.__version__),
        )
        client.begin(await _session(asking, connection, begun))
        response = await connection.prompt(session_id=client.session, prompt=[acp.text_block(_prompt(asking))])
        return _Talk(client.session, response)
    except acp.RequestError as fault:
        told = json.dumps(fault.data)[:300] if fault.data else ""
        return _Talk(client.session, failure=f"{fault} {told}".strip(), needs_login=fault.code in _LOGIN)
    except ConnectionError:  # its end says more
        return _Talk(client.session)
    except ValueError as fault:
        return _Talk(client.session, failure=f"broke the protocol: {str(fault)[:300]}")


_LOGIN = (acp.RequestError.auth_required().code, 401, 403)


async def _session(asking: AgentRequest, connection: Any, begun: InitializeResponse) -> str:  # noqa: ANN401
    cwd = os.fspath(asking.box.view.root if asking.box.view else asking.box.workspace.repo)
    if asking.session is None:
        return str((await connection.new_session(cwd=cwd, mcp_servers=[])).session_id)
    if not (begun.agent_capabilities and begun.agent_capabilities.load_session):
        raise ValueError("it cannot go on with an earlier session")
    await connection.load_session(cwd=cwd, session_id=asking.session, mcp_servers=[])
    return asking.session


def _prompt(asking: AgentRequest) -> str:
    """The protocol knows neither a system's words nor a shape."""
    shape = f"Answer with one JSON object of this JSON Schema:\n{json.dumps(asking.schema)}" if asking.schema else ""
    return "\n\n".join(part for part in (asking.system, asking.prompt, shape) if part)


def _usage(response: PromptResponse | None, turns: int) -> TokenUsage:
    said = response.usage if response else None
    if said is None:
        told = _told_aside(response)
        return TokenUsage(int(told.get("input_tokens") or 0), int(told.get("output_tokens") or 0), turns=turns)
    return TokenUsage(
        said.input_tokens, said.output_tokens, said.cached_read_tokens or 0, said.cached_write_tokens or 0, turns
    )


def _told_aside(response: PromptResponse | None) -> Json:
    """Where Gemini CLI puts it."""
    found: Any = (response.field_meta if response else None) or {}
    for name in ("quota", "token_count"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _judge(talk: _Talk, heard: ProgramOutput, asking: AgentRequest, text: str) -> Reply:
    """An answer counts though the program had to be ended after it; without one, its own end says why."""
    if talk.response is None:
        own = None if heard.done.cancelled else heard.broken_off()
        if own is not None:
            return own
        code = heard.done.exit_code
        said = talk.failure or f"ended without an answer (exit {code}): {heard.last_line}".rstrip(": ")
        return heard.reply("denied" if talk.needs_login else "error", said)
    stop = talk.response.stop_reason
    if stop != "end_turn":
        return heard.reply("denied" if stop == "refusal" else "error", _STOPS.get(stop, stop))
    if not text.strip():
        return heard.reply("no_output", "said nothing")
    return heard.reply("ok", "") if asking.answer is None else subprocess_agent.shaped(heard, asking, text)


def make(name: str, agent: AgentConfig, caller: Mapping[str, str]) -> AcpBackend:
    return AcpBackend(name, agent, caller)
