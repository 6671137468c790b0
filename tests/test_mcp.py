"""The server for agents: tools of both eras of the protocol, work that outlives a call, and a person's own answers."""

from __future__ import annotations

import functools
import io
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.session import ElicitationFnT
from mcp_types import CallToolResult, ElicitResult

from reflectloop.errors import InvalidInput, SandboxEscape
from reflectloop.mcp import http, stdio, tools
from reflectloop.mcp.results import CodedServer
from reflectloop.mcp.server import make_server
from reflectloop.mcp.tools import CommandWords
from reflectloop.trust import person
from support import Repo, wait_until
from test_approve import SETTINGS, TESTS, WEAKER
from test_domain import INIT, PREFLIGHT, Desk

pytestmark = pytest.mark.usefixtures("without_probing")

KEY = "AKIA" + "QYLPMN5HFIQR7XYA"  # looks like a key, and is none
ERAS = ("legacy", "2026-07-28")
Asked = ElicitationFnT


@pytest.fixture
def by_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite itself may have been started by an agent."""
    monkeypatch.setattr(person, "ancestor_signs", lambda **_: iter(()))
    monkeypatch.setattr(person, "agent_sign", lambda _: None)


@functools.lru_cache(2)
def served(path: Path, local: bool) -> CodedServer:
    return make_server(path, local=local)


def session(
    repo: Repo,
    talk: Callable[[Client], Awaitable[None]],
    era: str = ERAS[1],
    *,
    local: bool = True,
    asked: Asked | None = None,
) -> None:
    """Let a client of this process talk to the server of a project."""

    async def main() -> None:
        async with Client(served(repo.path, local), mode=era, elicitation_callback=asked) as client:
            await talk(client)

    anyio.run(main)


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert isinstance(answer, CallToolResult)
    content = answer.structured_content
    assert isinstance(content, dict), answer
    return {"ok": None, "error": None, **content, "refused": bool(answer.is_error)}


def code(answer: dict[str, Any]) -> str:
    return str((answer["error"] or {}).get("code"))


@pytest.mark.parametrize("era", ERAS)
def test_both_eras_have_the_same_tools_resources_and_prompts(repo: Repo, era: str) -> None:
    async def talk(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"run_plan", "status", "next", "fileops", "verify", "gate", "scan", "diagnose", "reflect"} < set(tools)
        assert {"recall", "context", "answer", "approve", "cancel"} < set(tools)
        assert all(tool.output_schema and tool.annotations and tool.description for tool in tools.values())
        assert set(tools["approve"].input_schema["properties"]) == {"run", "findings"}  # no yes, no reason
        resources = [str(item.uri) for item in (await client.list_resources()).resources]
        names = ("state", "todo", "blocker", "evidence", "lessons", "brief")
        assert resources == [f"reflectloop://{name}" for name in names]
        prompts = (await client.list_prompts()).prompts
        assert [item.name for item in prompts] == ["tp", "tr", "review", "reflect", "take_over"]
        assert all(item.description for item in prompts)
        state = (await client.read_resource("reflectloop://state")).contents[0]
        assert json.loads(getattr(state, "text", ""))["next"] == "reflectloop init"
        assert (await call(client, "next"))["next"] == "reflectloop init"
        text = (await call(client, "context"))["text"]
        assert "Only PASS is done" in text
        assert getattr((await client.read_resource("reflectloop://brief")).contents[0], "text", "") == text
        given = (await client.get_prompt("take_over")).messages[0].content
        assert getattr(given, "text", "").startswith(text)

    session(repo, talk, era)


def test_every_refusal_has_a_code_and_a_next_step(repo: Repo) -> None:
    async def talk(client: Client) -> None:
        for tool, arguments, expected in (
            ("scan", {"paths": ["../.."]}, "SANDBOX_ESCAPE"),
            ("run_plan", {"plan": "/etc/passwd"}, "SANDBOX_ESCAPE"),
            ("scan", {"everything": True}, "INVALID_INPUT"),
            ("verify", {"wait_s": 10_000}, "INVALID_INPUT"),
            ("verify", {"patch": "a.patch", "branch": "main"}, "INVALID_INPUT"),
            ("diagnose", {}, "INVALID_INPUT"),
            ("status", {"handle": "../../x"}, "INVALID_INPUT"),
            ("cancel", {"handle": "W-20260101-00000000"}, "NOTHING_TO_DO"),
            ("answer", {"step": "P-1"}, "NEEDS_INPUT"),
            ("approve", {"run": "latest"}, "NEEDS_INPUT"),
        ):
            answer = await call(client, tool, **arguments)
            assert answer["refused"], (tool, answer)
            assert code(answer) == expected, (tool, answer)
            assert answer["error"]["next"], (tool, answer)
        assert not (repo.path / ".reflectloop" / "work").exists()  # nothing was started

    session(repo, talk)


def test_a_path_or_a_word_of_a_client_never_leaves_the_project_nor_becomes_an_option(repo: Repo) -> None:
    (repo.path / "way-out").symlink_to("/etc")
    for name in ("..", "/etc/passwd", "way-out/passwd", "src/../../x"):
        with pytest.raises(SandboxEscape):
            tools.inside(repo.path, name)
    with pytest.raises(InvalidInput):
        tools.inside(repo.path, "a\0b")
    assert tools.inside(repo.path, "src/app.py") == os.fspath(repo.path / "src" / "app.py")
    words = CommandWords(repo.path)
    assert "--base=--trust-project" in words.verify(
        words.change("--trust-project", None, None), track=None, checks=[], session=None
    )
    reflect = words.reflect("--yes", revised=None, agents=False)
    assert reflect.index("--") < reflect.index("--yes")


# A person ----------------------------------------------------------------------------------------------------------


def reviewed(repo: Repo) -> str:
    """Return a verification that waits for a person."""
    repo.write("reflectloop.toml", SETTINGS)
    repo.write("check.sh", "test ! -e broken\n")
    repo.write("app.py", "def f():\n    return 1\n")
    repo.write("tests/test_app.py", TESTS)
    repo.commit("a project with tests")
    repo.write("tests/test_app.py", WEAKER)
    answer = repo.run("verify", "--json")
    assert answer.json["data"]["outcome"] == "REVIEW"
    return str(answer.envelope["run_id"])


def outcome(repo: Repo, run: str) -> str:
    receipt = json.loads((repo.path / ".reflectloop" / "verifications" / run / "receipt.json").read_text())
    return str(receipt["outcome"])


@pytest.mark.usefixtures("by_a_person")
def test_an_approval_needs_the_yes_of_the_user_in_both_eras(repo: Repo) -> None:
    run = reviewed(repo)
    questions: list[str] = []

    def user(action: Any, **fields: Any) -> Asked:
        async def reply(context: Any, params: Any) -> ElicitResult:
            assert context is not None
            questions.append(params.message)
            return ElicitResult(action=action, content=fields or None)

        return reply

    async def refused(client: Client) -> None:
        assert code(await call(client, "approve", run=run)) == "NEEDS_INPUT"
        assert outcome(repo, run) == "REVIEW"

    async def accepted(client: Client) -> None:
        answer = await call(client, "approve", run=run)
        assert (answer["done"], answer["outcome"], answer["remaining"]) == (True, "PASS", [])

    for era in ERAS:
        session(repo, refused, era)  # a client that cannot ask
        session(repo, refused, era, asked=user("decline"))
    session(repo, refused, asked=user("accept", approve=False, reason="no"))
    session(repo, refused, local=False, asked=user("accept", approve=True, reason="yes"))  # over HTTP
    assert len(questions) == 3
    assert all(run in question and "tests/test_app.py" in question for question in questions)
    session(repo, accepted, asked=user("accept", approve=True, reason="f may return anything"))
    assert outcome(repo, run) == "PASS"


def test_an_agent_behind_the_server_cannot_approve_even_if_its_client_says_yes(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = reviewed(repo)
    monkeypatch.setenv("CLAUDECODE", "1")

    async def yes(context: Any, params: Any) -> ElicitResult:
        raise AssertionError(f"nobody may be asked: {context} {params}")

    async def talk(client: Client) -> None:
        answer = await call(client, "approve", run=run)
        assert code(answer) == "NEEDS_INPUT"
        assert "CLAUDECODE" in answer["error"]["message"]

    session(repo, talk, asked=yes)
    assert outcome(repo, run) == "REVIEW"


@pytest.mark.parametrize("era", ERAS)
def test_a_blocked_step_gets_the_answer_of_the_user(repo: Repo, era: str) -> None:
    questions: list[str] = []

    async def user(context: Any, params: Any) -> ElicitResult:
        assert context is not None
        questions.append(params.message)
        return ElicitResult(action="accept", content={"answer": "the second"})

    async def talk(client: Client) -> None:
        assert (await call(client, "answer", step="2"))["error"]["code"] == "NOTHING_TO_DO"
        assert (await call(client, "answer", step="1"))["done"] is True

    desk = Desk(repo)
    desk.good(INIT, PREFLIGHT, {"op": "triflow_state_mark_blocked", "reason": "which table?", "unblock": "name it"})
    session(repo, talk, era, asked=user)
    assert desk.good(PREFLIGHT)["answer"] == "the second"
    assert questions == ["Step 1 is blocked: which table?\nname it"]


# Work that outlives a call -----------------------------------------------------------------------------------------


def test_a_work_outlives_its_client_and_can_be_cancelled(repo: Repo) -> None:
    gate = repo.gate()
    repo.steps(gate.wait).rename(repo.path / "plan.yaml")
    handles: list[str] = []

    async def begin(client: Client) -> None:
        answer = await call(client, "run_plan", plan="plan.yaml", wait_s=0)
        assert (answer["state"], answer["ok"], answer["error"]) == ("running", None, None)
        handles.append(answer["handle"])

    async def end(client: Client) -> None:
        assert wait_until(lambda: repo.workspaces() != [])
        answer = await call(client, "status", handle=handles[0])
        assert answer["work"][0]["state"] == "running"
        assert (await call(client, "cancel", handle=handles[0]))["state"] == "cancelled"
        assert (await call(client, "cancel", handle=handles[0]))["state"] == "cancelled"
        answer = (await call(client, "status"))["work"][0]
        assert (answer["handle"], answer["error"]["code"]) == (handles[0], "INTERRUPTED")

    session(repo, begin)
    session(repo, end, ERAS[0])
    repo.no_process_left()


def test_a_result_is_the_answer_of_the_command(repo: Repo) -> None:
    repo.write("log.txt", "src/app.py:1:1: F401 `os` imported but unused\nFound 1 error.\n")

    async def talk(client: Client) -> None:
        answer = await call(client, "diagnose", log="log.txt", exit_code=1)
        assert (answer["state"], answer["ok"]) == ("ended", False)
        assert answer["data"]["result"]["details"][0]["file"] == "src/app.py"
        text = (repo.path / "log.txt").read_text() + f"{KEY}\n"
        same = await call(client, "diagnose", text=text, exit_code=1)
        assert same["data"]["result"]["details"][0]["error"] == answer["data"]["result"]["details"][0]["error"]
        stored = (repo.path / ".reflectloop" / "work" / same["handle"]).iterdir()
        assert not any(KEY in path.read_text() for path in stored)
        request = {"proto": "triflow.fileops.v1", "id": "R-1", "purpose": "execute_step", "ops": [INIT, PREFLIGHT]}
        opened = await call(client, "fileops", request=request)
        assert (opened["ok"], opened["data"]["status"]) == (True, "ok")

    session(repo, talk)


def test_a_record_that_names_a_foreign_process_ends_nobody(repo: Repo) -> None:
    repo.run("status")
    folder = repo.path / ".reflectloop" / "work" / "W-20260101-00000000"

    async def talk(client: Client) -> None:
        await call(client, "status")
        folder.mkdir(parents=True)
        (folder / "work.json").write_text(json.dumps({"tool": "verify", "pid": os.getpid(), "start": 1, "began": 0}))
        assert (await call(client, "cancel", handle=folder.name))["state"] == "lost"

    session(repo, talk)


# The wire ----------------------------------------------------------------------------------------------------------


def test_rubbish_on_the_wire_is_dropped_and_the_next_message_is_answered(repo: Repo) -> None:
    def request(number: int, method: str, **params: Any) -> str:
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        "not JSON",
        "[]",
        '{"jsonrpc": "2.0"',
        '{"jsonrpc": "2.0", "id": 7, "result": {}}',  # an answer to nothing
        '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}',
        request(1, "no/such"),
        "\x00\x01\x02",
        request(2, "tools/call", name="next"),  # before the handshake
        "[" * 100_000,
        request(3, "initialize", **hello),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        request(4, "tools/call", name=5),
        request(5, "tools/call", name="next"),
    ]
    argv = [sys.executable, "-m", "reflectloop", "mcp", "--project", os.fspath(repo.path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write("\n".join([*lines, ""]).encode())
        server.stdin.flush()
        answers: dict[Any, Any] = {}
        while 5 not in answers:
            answer = json.loads(server.stdout.readline())
            answers[answer.get("id")] = answer
        server.stdin.close()
        assert server.wait(60) == 0
    assert all("error" in answers[number] for number in (1, 2, 4))
    assert answers[3]["result"]["protocolVersion"] == "2025-06-18"
    assert answers[5]["result"]["structuredContent"]["next"] == "reflectloop init"


def test_a_message_above_the_limit_is_read_to_its_end_and_replaced() -> None:
    stream: Any = io.BufferedReader(io.BytesIO(b"short\n" + b"x" * 1000 + b"\nnext\n"))

    async def read() -> list[str]:
        return [line async for line in stdio.BoundedLines(stream, 100)]

    first, second, third = anyio.run(read)
    assert (first, third) == ("short\n", "next\n")
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(second)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 401),
        ([(b"authorization", b"Bearer wrong")], 401),
        ([(b"authorization", b"Basic right")], 401),
        ([(b"authorization", b"Bearer right"), (b"authorization", b"Bearer right")], 401),
        ([(b"authorization", b"Bearer right")], 204),
    ],
)
def test_a_request_over_http_needs_the_token(headers: list[tuple[bytes, bytes]], status: int) -> None:
    sent: list[dict[str, Any]] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def ask() -> None:
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
        await http.TokenGuard(app, "right")(scope, receive, send)

    anyio.run(ask)
    assert sent[0]["status"] == status


def test_a_port_that_is_taken_is_named() -> None:
    with http.listen(0) as place, pytest.raises(InvalidInput, match="cannot be used"):
        http.listen(place.getsockname()[1])


def test_the_token_is_private_and_stays_until_it_is_renewed() -> None:
    token = http.token()
    assert len(token) >= 32
    assert (token, http.token_file().stat().st_mode & 0o077) == (http.token(), 0)
    assert http.token(renew=True) != token
