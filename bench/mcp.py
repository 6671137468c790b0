"""Measures what a call of our MCP server costs, beside an echo server of the SDK."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from bench.ground import Ground
from bench.table import Measure, Row, Section

_ECHO = """
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

class Echo(BaseModel):
    text: str

server = MCPServer("echo", log_level="WARNING")

@server.tool()
async def echo(text: str) -> Echo:
    return Echo(text=text)

server.run("stdio")
"""
_UNKNOWN = "W-20260101-00000000"


class Taken:
    """Times of one server: until it lists its tools, and of each call."""

    def __init__(self) -> None:
        self.start: list[float] = []
        self.call: list[float] = []
        self.real: list[float] = []


async def _measure(server: StdioServerParameters, taken: Taken, count: int, tool: str, **arguments: str) -> None:
    began = time.perf_counter()
    async with Client(stdio_client(server), mode="2026-07-28") as client:
        await client.list_tools()
        taken.start.append(time.perf_counter() - began)
        for name, values, times in ((tool, arguments, taken.call), ("next", {}, taken.real)):
            if name == "next" and tool == "echo":
                continue
            for number in range(count):
                began = time.perf_counter()
                await client.call_tool(name, values)
                if number > 2:
                    times.append(time.perf_counter() - began)


def measure(ground: Ground) -> Section:
    repository = ground.repository(100)
    rounds, count = (1, 20) if ground.quick else (5, 100)
    program = Path(sys.executable).with_name("reflectloop")
    ours, echo = Taken(), Taken()
    for _ in range(rounds):
        words = ["mcp", "--project", str(repository)]
        anyio.run(_ours, StdioServerParameters(command=str(program), args=words), ours, count)
        anyio.run(_echo, StdioServerParameters(command=sys.executable, args=["-c", _ECHO]), echo, count)
    rows = [
        Row("start, until the tools are listed", _median("", ours.start), _median("echo", echo.start), limit=2),
        Row("a call that does nothing", _median("", ours.call), _median("echo", echo.call), limit=2),
        Row("the tool next", _median("", ours.real), _median("echo", echo.call)),
    ]
    notes = [
        "One client of the SDK over stdio, era 2026-07-28; the echo server is the SDK's, with one typed tool. Medians.",
        "A call that does nothing: `cancel` with a handle that does not exist; its answer is validated and redacted.",
    ]
    return Section("mcp: a call beside the SDK's echo server", notes, rows)


async def _ours(server: StdioServerParameters, taken: Taken, count: int) -> None:
    await _measure(server, taken, count, "cancel", handle=_UNKNOWN)


async def _echo(server: StdioServerParameters, taken: Taken, count: int) -> None:
    await _measure(server, taken, count, "echo", text="hello")


def _median(name: str, values: list[float]) -> Measure:
    return Measure(name, statistics.median(values))
