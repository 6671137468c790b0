"""The MCP server with many clients, dying clients, rubbish, the official tools, and real agents as clients."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from proof import mcp_clients, mcp_tools
from proof.paper import ROOT, Claim, Paper

_BIN = ROOT / ".venv" / "bin" / "reflectloop"
_CLIENTS = 50
_FRAMES = 1000
_ERAS = ("legacy", "2026-07-28")
_PLAN = {"plan": {"title": "Wait", "track": "direct", "steps": [{"id": "P-1", "commands": ["sleep 8"]}]}}
_TEST = (
    "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n"
    "    def test_one(self):\n        self.assertEqual(calc.one(), 1)\n"
)
# A client that starts a run and waits for its end, for longer than it lives.
_SHORT_LIVED = """
import sys, anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["mcp", "--project", sys.argv[2]])
    async with Client(stdio_client(server)) as client:
        await client.call_tool("run_plan", {"plan": "plan.json", "wait_s": 240})

anyio.run(main)
"""


class Site:
    """A project, a home folder, and ways to reach its server."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "project", folder / "home"
        self.root.mkdir(parents=True)
        self.home.mkdir()
        for name, text in (
            ("calc.py", "def one():\n    return 1\n"),
            ("test_calc.py", _TEST),
            ("plan.json", json.dumps(_PLAN)),
        ):
            (self.root / name).write_text(text)
        for words in (
            ("init", "-q", "-b", "main"),
            ("add", "-A"),
            ("-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qm", "a calculator"),
        ):
            subprocess.run(["git", *words], cwd=self.root, env=self.env(), check=True, capture_output=True)

    def env(self) -> dict[str, str]:
        paths = f"{_BIN.parent}:/usr/local/bin:/usr/bin:/bin"
        return {"PATH": paths, "HOME": str(self.home), "TERM": "dumb", "LANG": "C.UTF-8"}

    def stdio(self, mode: str = "auto") -> Client:
        server = StdioServerParameters(command=str(_BIN), args=["mcp", "--project", str(self.root)], env=self.env())
        return Client(stdio_client(server), mode=mode)

    def works(self) -> list[Path]:
        return sorted((self.root / ".reflectloop" / "work").glob("W-*/work.json"))

    def http(self) -> AbstractContextManager[tuple[str, str]]:
        """Serve over HTTP; yield the address and the token."""
        return mcp_clients.http_server(self.root, self.env())


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
    answer = await client.call_tool(tool, arguments)
    content = answer.structured_content
    return content if isinstance(content, dict) else {}


# Claims ------------------------------------------------------------------------------------------------------------


def _both_eras(site: Site) -> Claim:
    (site.root / "calc.py").write_text("def one():\n    return 3\n")
    seen = []

    async def talk(mode: str) -> None:
        async with site.stdio(mode) as client:
            tools = (await client.list_tools()).tools
            answer = await call(client, "verify", wait_s=240)
            seen.append((client.protocol_version, len(tools), answer.get("outcome"), answer.get("failures")))

    for mode in _ERAS:
        anyio.run(talk, mode)
    text = "; ".join(f"{version}: {count} tools, {word}" for version, count, word, _ in seen)
    holds = all(word == "REFUSED" and "AssertionError: 3 != 1" in str(failures) for *_, word, failures in seen)
    return Claim("the SDK's client over stdio, both eras: a wrong change is REFUSED with its failing test", text, holds)


_CONTRACT = {
    "track": "direct",
    "goal": "Return one by another way",
    "summary": "one() subtracts",
    "files_changed": ["calc.py"],
    "may_change": ["calc.py"],
    "must_not_change": [],
    "regression_risk": "none beyond one()",
    "behaviour_kept": "one() returns 1",
    "decisions": ["subtract"],
}


def _gates(site: Site) -> Claim:
    """A failed run is reflected on; the right change passes the gates; resources show both."""
    seen: dict[str, Any] = {}
    plan = json.dumps(_PLAN).replace("sleep 8", "python3 -c 'import no_such_module'")
    (site.root / "plan.json").write_text(plan)
    (site.root / "contract.json").write_text(json.dumps(_CONTRACT))
    subprocess.run(["git", "add", "-A"], cwd=site.root, env=site.env(), check=True)
    name = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    subprocess.run(["git", *name, "commit", "-qm", "a plan"], cwd=site.root, env=site.env(), check=True)

    async def main() -> None:
        async with site.stdio() as client:
            failed = await call(client, "run_plan", plan="plan.json", wait_s=240)
            blocker = await client.read_resource("reflectloop://blocker")
            reflected = await call(client, "reflect", name=str(failed.get("run_id")), wait_s=240)
            way = await call(client, "next")
            (site.root / "calc.py").write_text("def one():\n    return 2 - 1\n")
            judged = await call(client, "gate", contract="contract.json", wait_s=240)
            evidence = await client.read_resource("reflectloop://evidence")
            seen.update(
                run=failed["error"]["code"],
                blocker="no_such_module" in str(blocker.contents[0]),
                reflect=reflected.get("state"),
                rounds=bool(reflected.get("data")),
                route=way.get("route"),
                gate=judged.get("outcome"),
                evidence=str(judged.get("run_id")) in str(evidence.contents[0]),
                reasons=judged.get("reasons"),
            )

    anyio.run(main)
    holds = seen["run"] == "STEP_FAILED" and seen["blocker"] and seen["reflect"] == "ended" and seen["rounds"]
    return Claim(
        "a failed run leaves a blocker and is reflected on; the right change passes the four gates",
        ", ".join(f"{name} {value}" for name, value in seen.items()),
        holds=holds and bool(seen["route"]) and seen["gate"] == "PASS" and bool(seen["evidence"]),
    )


def _many(site: Site) -> Claim:
    seconds: list[float] = []
    wrong: list[str] = []

    async def one_client(url: str, token: str, mode: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=120) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            for tool in ("context", "status", "next", "recall"):
                began = time.monotonic()
                answer = await call(client, tool, **({"query": "calculator"} if tool == "recall" else {}))
                seconds.append(time.monotonic() - began)
                if not answer or answer.get("error"):
                    wrong.append(f"{tool}: {answer}")

    async def main(url: str, token: str) -> None:
        async with anyio.create_task_group() as group:
            for number in range(_CLIENTS):
                group.start_soon(one_client, url, token, _ERAS[number % 2])

    with site.http() as (url, token):
        began = time.monotonic()
        anyio.run(main, url, token)
        took = time.monotonic() - began
    ordered = sorted(seconds)
    text = f"{len(seconds)} calls in {took:.1f} s, {len(wrong)} failed, slowest call {ordered[-1]:.2f} s"
    return Claim(
        f"{_CLIENTS} clients at once over HTTP, half of each era, four calls each",
        text,
        holds=len(seconds) == 4 * _CLIENTS and not wrong,
    )


def _many_works(site: Site) -> Claim:
    """Many clients that start work at once: some are started, the others are told so."""
    words: list[str] = []

    async def main(url: str, token: str) -> None:
        async def one_client() -> None:
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=240) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                answer = await call(client, "verify", wait_s=200)
                words.append(str(answer.get("outcome") or answer.get("error", {}).get("code")))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(one_client)

    (site.root / "calc.py").write_text("def one():\n    return 2 - 1\n")
    with site.http() as (url, token):
        anyio.run(main, url, token)
    passed, locked = words.count("PASS"), words.count("LOCKED")
    return Claim(
        "20 clients verify at once: eight do, and the others get LOCKED",
        f"PASS {passed}, LOCKED {locked}",
        holds=passed + locked == 20 and passed >= 8,
    )


def _killed(site: Site, *, server_too: bool) -> Claim:
    """Kill a client with -9 while its call waits; a second client reads the end of the run."""
    client = subprocess.Popen(
        [sys.executable, "-c", _SHORT_LIVED, str(_BIN), str(site.root)],
        env=site.env(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    mcp_clients.wait_for(site.works)
    (path,) = site.works()
    mcp_clients.wait_for((site.root / ".reflectloop" / "workspaces").exists)
    servers = [int(name) for name in _children(client.pid)]
    client.kill()
    client.wait()
    if server_too:
        for pid in servers:
            os.kill(pid, signal.SIGKILL)
    else:
        mcp_clients.wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in servers))
    work: dict[str, Any] = {}

    async def look() -> None:
        async with site.stdio() as second:
            first = await call(second, "status", handle=path.parent.name)
            answer = await call(second, "status", handle=path.parent.name, wait_s=120)
            work.update(answer["work"][0], was=first["work"][0]["state"])

    anyio.run(look)
    what = "client and server are" if server_too else "client is"
    return Claim(
        f"the {what} killed with -9 in the middle of a call: the run goes on, and another client gets its end",
        f"then {work.get('was')}, at the end {work.get('state')}, ok {work.get('ok')}",
        holds=work.get("was") == "running" and work.get("ok") is True,
    )


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _polled(site: Site) -> Claim:
    """Work that takes longer than a call waits is finished by polling, and can be cancelled."""
    seen: dict[str, Any] = {}

    async def main() -> None:
        async with site.stdio() as client:
            answer = await call(client, "run_plan", plan="plan.json", wait_s=1)
            handle, calls, longest = answer["handle"], 0, 0.0
            while answer.get("state") == "running":
                began = time.monotonic()
                answer = (await call(client, "status", handle=handle, wait_s=2))["work"][0]
                calls, longest = calls + 1, max(longest, time.monotonic() - began)
            seen.update(calls=calls, longest=longest, ok=answer.get("ok"))
            (site.root / "plan.json").write_text(json.dumps(_PLAN).replace("sleep 8", "sleep 987654"))
            answer = await call(client, "run_plan", plan="plan.json", wait_s=3, new_task=True)
            mcp_clients.wait_for(_sleeps)
            ended = await call(client, "cancel", handle=answer["handle"])
            seen.update(cancelled=ended.get("state"), left=_sleeps())

    anyio.run(main)
    return Claim(
        "work that takes longer than a call is finished by polling; cancel ends it with its processes",
        f"{seen['calls']} polls, longest call {seen['longest']:.1f} s, ok {seen['ok']}; {seen['cancelled']}, "
        f"processes left {seen['left']}",
        holds=seen["ok"] is True and seen["longest"] < 10 and seen["cancelled"] == "cancelled" and not seen["left"],
    )


def _sleeps() -> int:
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _readable(path)]
    return sum(1 for line in lines if line.startswith(b"sleep\x00987654"))


def _readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def _fuzzed(site: Site) -> Claim:
    """Send frames of rubbish and broken messages, and then a real one."""
    chance = random.Random(20261116)
    base = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "next", "arguments": {}}}'
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}}
    with subprocess.Popen(
        [str(_BIN), "mcp", "--project", str(site.root)],
        env=site.env(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        if server.stdin is None or server.stdout is None:
            raise TypeError("there are no pipes")
        lines = [json.dumps({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello}).encode()]
        lines += [b'{"jsonrpc": "2.0", "method": "notifications/initialized"}']
        lines += [_mutated(base, chance) for _ in range(_FRAMES)]
        lines += [b'"' + b"x" * (40 << 20) + b'"']
        lines += [base.replace('"id": 1', '"id": "last"').encode()]
        reader = subprocess.Popen(
            [sys.executable, "-c", _READER], stdin=server.stdout, stdout=subprocess.PIPE, text=True
        )
        for line in lines:
            server.stdin.write(line + b"\n")
        server.stdin.flush()
        answered, _ = reader.communicate(timeout=300)
        memory = _memory_mb(server.pid)
        server.stdin.close()
        code = server.wait(60)
    return Claim(
        f"{_FRAMES} broken messages and one of 40 MB over stdio: the next one is answered, the server ends properly",
        f"{answered.strip()}, {memory} MB at most, exit {code}",
        holds=answered.strip() == "answered" and code == 0 and memory < 400,
    )


_READER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("id") == "last":
        print("answered" if message["result"]["structuredContent"]["next"] else "wrong")
        break
"""


def _mutated(text: str, chance: random.Random) -> bytes:
    raw = bytearray(text.encode())
    for _ in range(chance.randint(1, 8)):
        place = chance.randrange(len(raw))
        match chance.randrange(3):
            case 0:
                raw[place] = chance.randrange(256)
            case 1:
                del raw[place : place + chance.randint(1, 20)]
            case _:
                raw[place:place] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 20)))
        raw = raw or bytearray(b"{")
    return bytes(raw).replace(b"\n", b" ")


def _memory_mb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10


def _guarded(site: Site) -> Claim:
    """Requests over HTTP that must not come through."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    seen: dict[str, int] = {}
    with site.http() as (url, token):
        right = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        for name, headers, content in (
            ("no token", {}, None),
            ("wrong token", {"Authorization": "Bearer " + "x" * 43}, None),
            ("foreign host", {**right, "Host": "attacker.test"}, None),
            ("foreign origin", {**right, "Origin": "http://attacker.test"}, None),
            ("17 MB", right, b'"' + b"x" * (17 << 20) + b'"'),
            ("not JSON", {**right, "Content-Type": "application/json"}, b"{{{"),
        ):
            sent = content if content is not None else json.dumps(body).encode()
            seen[name] = httpx.post(
                url, headers={"Content-Type": "application/json", **headers}, content=sent
            ).status_code
        after = httpx.post(url, headers={"Content-Type": "application/json"}, json=body).status_code
    text = ", ".join(f"{name} {status}" for name, status in seen.items())
    return Claim(
        "over HTTP nothing passes without the token, from a foreign host or origin, above 16 MB, or without JSON",
        text,
        holds=list(seen.values()) == [401, 401, 421, 403, 413, 400] and after == 401,
    )


def main() -> None:
    paper = Paper("mcp", "`reflectloop mcp` with the SDK's client, the official tools, and real agents as clients.")
    wanted = os.environ.get("PROOF_ONLY", "")
    stories = {
        "eras": _both_eras,
        "gates": _gates,
        "many": _many,
        "works": _many_works,
        "killed": lambda site: _killed(site, server_too=False),
        "dead": lambda site: _killed(site, server_too=True),
        "polled": _polled,
        "fuzzed": _fuzzed,
        "guarded": _guarded,
    }
    with tempfile.TemporaryDirectory(prefix="mcp-") as folder:
        for name, story in stories.items():
            if wanted in name:
                claim = story(Site(Path(folder) / name))
                paper.claim(claim.text, claim.seen, holds=claim.holds)
        for part, claims in (("agents", mcp_clients.claims), ("tools", mcp_tools.claims)):
            if wanted in part:
                for claim in claims(Path(folder) / part):
                    paper.claim(claim.text, claim.seen, holds=claim.holds)
    if not wanted:
        paper.write()


if __name__ == "__main__":
    main()
