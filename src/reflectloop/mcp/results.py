"""Turns replies into results of the protocol: redacted, as data by the schema and as short text."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent
from pydantic import ValidationError

from reflectloop import secrets
from reflectloop.errors import Internal, InvalidInput, NeedsInput, ReflectloopError
from reflectloop.mcp.replies import ToolReply, fault_of
from reflectloop.system import files


def result(reply: ToolReply, *, refused: bool = False) -> CallToolResult:
    """Return a reply as a result; `refused` marks a call that was not carried out."""
    redact = secrets.current_detector().redact
    short = reply.model_dump(mode="json", exclude_defaults=True)
    # Clients show it to their model, so it has no fields that say nothing.
    complete = json.loads(redact(files.json_text(reply.model_dump(mode="json", exclude_none=True), indent=None)))
    text = TextContent(type="text", text=redact(files.json_text(short, indent=None)))
    return CallToolResult(content=[text], structured_content=complete, is_error=refused)


async def guarded(kind: type[ToolReply], act: Callable[[], Awaitable[ToolReply]]) -> CallToolResult:
    """Return what `act` replies; an error of ours is a reply that names its code and the next command."""
    try:
        return result(await act())
    except ReflectloopError as error:
        return result(kind(error=fault_of(error), next=error.next_step), refused=True)


class CodedServer(MCPServer[Any]):
    """A server whose errors all have a code and a next command."""

    _known: dict[str, set[str]] | None = None  # the arguments of each tool, once one was called

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:  # noqa: ANN401
        if not self._known:
            self._known = {tool.name: set(tool.input_schema.get("properties", {})) for tool in await self.list_tools()}
        if name not in self._known:
            return await super().call_tool(name, arguments, context)  # an error of the protocol
        unknown = sorted(set(arguments) - self._known[name])
        if unknown:
            return _refusal(InvalidInput(f"{name} has no argument {unknown[0][:60]!r}", next_step="read tools/list"))
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as fault:
            return _refusal(_error_of(name, fault))


def _error_of(name: str, fault: ToolError) -> ReflectloopError:
    cause = fault.__cause__
    if isinstance(cause, ValidationError):
        wrong = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in cause.errors(include_input=False)]
        return InvalidInput(f"the arguments of {name} are not valid: {'; '.join(wrong)}", next_step="read tools/list")
    if isinstance(cause, ToolError):
        return NeedsInput(str(cause), next_step="ask the user, then call it again")
    return Internal(f"{name} failed: {type(cause).__name__}", next_step="call it again, or use the command line")


def _refusal(error: ReflectloopError) -> CallToolResult:
    return result(ToolReply(error=fault_of(error), next=error.next_step), refused=True)
