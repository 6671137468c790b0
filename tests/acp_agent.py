"""A small agent of the Agent Client Protocol, as a program: does what its first word says, and says what came of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import acp
from acp.schema import (
    AgentCapabilities,
    Cost,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    ToolCallLocation,
    ToolCallUpdate,
    Usage,
    UsageUpdate,
)

OPTIONS = [
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]


def put(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def note(name: str, text: str) -> None:
    put(os.path.join(os.environ["HOME"], name), text)


class Agent:
    """Each scenario is one method."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.cwd = ""
        self.stopped = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **_: Any) -> InitializeResponse:
        self.can = client_capabilities
        return InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=AgentCapabilities(load_session=True),
            agent_info=Implementation(name="small", version="1.0"),
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        if self.what == "login":
            raise acp.RequestError.auth_required()
        self.cwd = cwd
        return NewSessionResponse(session_id="s-1")

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse:
        self.cwd = cwd
        await self.say(session_id, "said long ago")
        return LoadSessionResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        note("cancelled", session_id)
        self.stopped.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        self.asked = prompt[0].text
        stop = await getattr(self, self.what)(session_id) or "end_turn"
        usage = Usage(total_tokens=120, input_tokens=100, output_tokens=15, cached_read_tokens=5)
        return PromptResponse(stop_reason=stop, usage=usage)

    async def say(self, session: str, text: str) -> None:
        await self.client.session_update(session, acp.update_agent_message(acp.text_block(text)))

    async def may(self, session: str, kind: Any, title: str, path: str | None = None, **given: Any) -> str:
        call = ToolCallUpdate(tool_call_id="t", kind=kind, title=title, raw_input=given or None)
        if path:
            call.locations = [ToolCallLocation(path=path)]
        outcome = (await self.client.request_permission(session, call, OPTIONS)).outcome
        return getattr(outcome, "option_id", "none")

    async def echo(self, session: str) -> None:
        await self.client.session_update(
            session, UsageUpdate(session_update="usage_update", used=9, size=99, cost=Cost(amount=0.25, currency="USD"))
        )
        await self.say(session, self.asked)

    async def answer(self, session: str) -> None:
        await self.say(session, 'Here: {"verdict": "PASS", ')
        await self.say(session, '"reason": "it adds"}')

    async def ask(self, session: str) -> None:
        outside = "/etc/passwd"
        said = {
            "read": await self.may(session, "read", "Read a.py"),
            "edit": await self.may(session, "edit", "Edit a.py", path=f"{self.cwd}/a.py"),
            "edit outside": await self.may(session, "edit", "Edit passwd", path=outside),
            "test": await self.may(session, "execute", "Run tests", command="python3 -m pytest"),
            "push": await self.may(session, "execute", "git push --force origin main"),
            "silent": await self.may(session, "execute", "", command=5),
        }
        await self.say(session, json.dumps(said))

    async def lies(self, session: str) -> None:
        """Requests whose kind says less than what they carry, or nothing at all."""
        run = {"command": "rm -rf /"}
        said = {
            "read, with a command": await self.may(session, "read", "Read", **run),
            "think, with a command": await self.may(session, "think", "Think", argv=["rm", "-rf", "/"]),
            "search, with a command deep in it": await self.may(session, "search", "Find", tool={"input": [run]}),
            "other, with a command in two parts": await self.may(session, "other", "x", cmd="rm", args=["-rf", "/"]),
            "none, with a command": await self.may(session, None, "x", **run),
            "read outside": await self.may(session, "read", "Read", file_path="/etc/shadow"),
            "other outside": await self.may(session, "other", "x", to=f"{self.cwd}/../x"),
            "other, with nothing": await self.may(session, "other", "x"),
            "move, with nothing": await self.may(session, "move", "x"),
            "mode": await self.may(session, "switch_mode", "yolo"),
            "mode, with a path": await self.may(session, "switch_mode", "yolo", path="a.py"),
            "fetch": await self.may(session, "fetch", "x", url="http://evil.example"),
            "read, with an address": await self.may(session, "read", "x", url="http://evil.example"),
        }
        true = {
            "read": await self.may(session, "read", "Read a.py", path="a.py"),
            "read by a command": await self.may(session, "read", "Read a.py", command=["cat", "a.py"]),
            "search": await self.may(session, "search", "Find", pattern="x", path="."),
            "think": await self.may(session, "think", "Think"),
            "other": await self.may(session, "other", "Write", path=f"{self.cwd}/a.py"),
        }
        await self.say(session, json.dumps([said, true]))

    async def files(self, session: str) -> None:
        said = {"can write": self.can.fs.write_text_file}
        for name, path in (
            ("plain", "README.md"),
            ("outside", "../secret"),
            ("etc", "/etc/passwd"),
            ("git", ".git/config"),
        ):
            said[name] = await self.attempt(
                self.client.read_text_file(session_id=session, path=os.path.join(self.cwd, path))
            )
        lines = self.client.read_text_file(session_id=session, path=f"{self.cwd}/src/numbers.txt", line=2, limit=2)
        said["lines"] = await self.attempt(lines)
        for name, path in (("made", "new.txt"), ("evil", "/tmp/evil.txt"), ("hook", ".git/hooks/x")):
            write = self.client.write_text_file(
                session_id=session, path=os.path.join(self.cwd, path), content="hello\n"
            )
            said[name] = await self.attempt(write)
        await self.say(session, json.dumps(said))

    async def attempt(self, request: Any) -> Any:
        try:
            return getattr(await request, "content", "done")
        except acp.RequestError as fault:
            return f"refused {fault.code}"

    async def writes(self, session: str) -> None:
        try:
            put(os.path.join(self.cwd, "evil.txt"), "x")
        except OSError as fault:
            await self.say(session, fault.strerror or "")

    async def loops(self, session: str) -> str:
        for number in range(100):
            await self.client.session_update(session, acp.start_tool_call(f"t{number}", "Look", kind="read"))
            await asyncio.sleep(0.01)
        await self.stopped.wait()
        return "cancelled"

    async def waits(self, session: str) -> str:
        note("waiting", session)
        await self.stopped.wait()
        return "cancelled"

    async def floods(self, session: str) -> str:
        while not self.stopped.is_set():
            await self.say(session, "x" * (1 << 20))
        return "cancelled"

    async def hangs(self, _: str) -> None:
        await asyncio.sleep(3600)

    async def refuses(self, _: str) -> str:
        return "refusal"

    async def mute(self, _: str) -> None:
        return None

    async def dies(self, _: str) -> None:
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(3)

    async def babbles(self, session: str) -> None:
        sys.stdout.write("this is no protocol\n")
        sys.stdout.flush()
        await self.say(session, "anyway")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask_and_read_nothing() -> None:
    """Begin a session, then send requests whose answers are more than a pipe holds, and read none of them."""
    for result in ({"protocolVersion": acp.PROTOCOL_VERSION}, {"sessionId": "s-1"}):
        send({"id": json.loads(sys.stdin.readline())["id"], "result": result})
    sys.stdin.readline()
    for number in range(5000):
        asked = {"sessionId": "s-1", "path": "no-such-file"}
        send({"id": number, "method": "fs/read_text_file", "params": asked})
    for number in range(3):
        update = {"sessionUpdate": "tool_call", "toolCallId": f"t{number}", "title": "Look"}
        send({"method": "session/update", "params": {"sessionId": "s-1", "update": update}})
    time.sleep(3600)


if __name__ == "__main__":
    if sys.argv[1] == "deaf":
        ask_and_read_nothing()
    if sys.argv[1] == "garbage":
        sys.stdout.write("x" * 1000 + "\n")
        sys.exit(0)
    agent: Any = Agent(sys.argv[1])
    asyncio.run(acp.run_agent(agent))
