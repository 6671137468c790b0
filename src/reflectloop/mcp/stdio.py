"""Serves one client over standard input and output, with a bound on the size of a message."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, cast

import anyio
from anyio import to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server

LARGEST = 16 << 20  # bytes of a message
_TOO_LONG = '{"too long"'  # no JSON, so that the message is dropped


class BoundedLines:
    """Lines of a stream; a line above the limit is read to its end in bounded memory, and replaced."""

    def __init__(self, stream: io.BufferedReader, largest: int = LARGEST) -> None:
        self._stream, self._largest = stream, largest

    def __aiter__(self) -> BoundedLines:
        return self

    async def __anext__(self) -> str:
        line = await to_thread.run_sync(self._line, abandon_on_cancel=True)
        if not line:
            raise StopAsyncIteration
        return line

    def _line(self) -> str:
        line = self._stream.readline(self._largest + 1)
        if len(line) <= self._largest:
            return line.decode("utf-8", "replace")
        while line and not line.endswith(b"\n"):
            line = self._stream.readline(self._largest + 1)
        return _TOO_LONG


def serve(server: MCPServer[Any]) -> None:
    """Answer messages until the client closes standard input. What else is printed goes to standard error."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    anyio.run(_serve, server, wire_in, wire_out)
    os._exit(0)  # a thread may still wait for a line


async def _serve(server: MCPServer[Any], wire_in: int, wire_out: int) -> None:
    lines = BoundedLines(io.BufferedReader(io.FileIO(wire_in, "rb")))
    out = anyio.wrap_file(io.TextIOWrapper(io.FileIO(wire_out, "wb"), encoding="utf-8", write_through=True))
    lowlevel = server._lowlevel_server  # noqa: SLF001 - its own run_stdio_async knows no bound
    async with stdio_server(cast("anyio.AsyncFile[str]", lines), out) as (read_stream, write_stream):
        await lowlevel.run(read_stream, write_stream, lowlevel.create_initialization_options())
