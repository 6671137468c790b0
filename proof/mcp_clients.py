"""Real Claude Code and Codex as clients of the MCP server; the model is a script on loopback."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from proof.clis import programs
from proof.hooks import CODEX_SETTINGS, Scene, Session
from proof.paper import ROOT, Claim

from model import Call, Line, Model, Turn, say  # isort: skip - its folder is on the path after proof.hooks

_WRONG, _RIGHT = "def one():\n    return 3\n", "def one():\n    return 2 - 1\n"
_WEAK = "import unittest\n\n\nclass Calc(unittest.TestCase):\n    def test_one(self):\n        pass\n"


_BIN = ROOT / ".venv" / "bin" / "reflectloop"


def wait_for(condition: Callable[[], object], timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)


@contextmanager
def http_server(root: Path, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Serve a project over HTTP; yield the address and the token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [str(_BIN), "mcp", "--http", str(port), "--project", str(root)]
    with subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(lambda: _answers(port))
            token = (Path(env["HOME"]) / ".local" / "state" / "reflectloop" / "mcp-token").read_text().strip()
            yield f"http://127.0.0.1:{port}/mcp", token
        finally:
            server.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class McpScene(Scene):
    """A project whose agent has our server, and no hooks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reflectloop("install", "claude", "--uninstall")
        self.settings = folder / "mcp.json"
        server = {"command": "reflectloop", "args": ["mcp"]}
        self.settings.write_text(json.dumps({"mcpServers": {"reflectloop": server}}))

    def by_claude(self, *script: Line) -> Session:
        options = ("--mcp-config", str(self.settings), "--strict-mcp-config", "--allowedTools", "mcp__reflectloop")
        return self.claude(*script, options=options)

    def by_codex(self, *script: Line) -> Session:
        home = self.home / ".codex"
        home.mkdir()
        with Model(script, aside=True) as model:
            server = '[mcp_servers.reflectloop]\ncommand = "reflectloop"\nargs = ["mcp"]\nrequired = true\n'
            approval = 'default_tools_approval_mode = "approve"\n'
            text = CODEX_SETTINGS.format(root=self.root, url=model.url) + server + approval
            (home / "config.toml").write_text(text)
            done = subprocess.run(
                [str(programs()["codex"]), "exec", "--json", "--sandbox", "danger-full-access", "Make the test pass."],
                cwd=self.root,
                env=self.env(CODEX_HOME=str(home), TMPDIR=str(self.home), FAKE_API_KEY="dummy"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=600,
            )
            return Session(model.seen, {}, done.returncode)


def _claude(name: str, **arguments: object) -> Turn:
    return Turn(calls=(Call(f"mcp__reflectloop__{name}", arguments),))


def _codex(name: str, **arguments: object) -> Turn:
    return Turn(calls=(Call(name, arguments, namespace="mcp__reflectloop"),))


def _results(session: Session) -> str:
    """Return what the client told the model, as one text without escapes."""
    return json.dumps([request.body for request in session.seen], ensure_ascii=False).replace("\\", "")


def _has(text: str, *words: str) -> bool:
    return all(word in text for word in words)


def claims(folder: Path) -> Iterator[Claim]:
    """Play the same story with both clients."""
    for client in ("claude", "codex"):
        scene = McpScene(folder / client)
        version = subprocess.run(
            [str(programs()[client]), "--version"], capture_output=True, text=True, check=False, env=scene.env()
        ).stdout.strip()
        yield from _stories(scene, client, version)
    yield _over_http(McpScene(folder / "http"))
    yield _added(McpScene(folder / "added"))


def _over_http(scene: McpScene) -> Claim:
    """Claude Code as a client over HTTP, with the token in its settings."""
    (scene.root / "calc.py").write_text(_WRONG)
    with http_server(scene.root, scene.env()) as (url, token):
        server = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}
        scene.settings.write_text(json.dumps({"mcpServers": {"reflectloop": server}}))
        session = scene.by_claude(_claude("verify", wait_s=200), _claude("approve", run="latest"), say("Done."))
    text = _results(session)
    refused, over_http = "AssertionError: 3 != 1" in text, "cannot come over HTTP" in text
    cannot = over_http or "this client cannot ask its user" in text
    return Claim(
        "Claude Code over HTTP with the token: verify gives the failing test, approve is refused",
        f"failing test {refused}, approve refused {cannot}",
        refused and cannot,
    )


def _added(scene: McpScene) -> Claim:
    """The commands of docs/mcp.md."""
    home = scene.home / ".codex"
    home.mkdir()
    quiet = {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "DISABLE_TELEMETRY": "1"}
    quiet |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "CODEX_HOME": str(home)}
    seen = {}
    for client, sign in (("claude", "Connected"), ("codex", "enabled")):
        for words in (("add", "reflectloop", "--", "reflectloop", "mcp"), ("list",)):
            done = subprocess.run(
                [str(programs()[client]), "mcp", *words],
                cwd=scene.root,
                env=scene.env(**quiet),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
        seen[client] = sign in done.stdout
    return Claim(
        "`claude mcp add` and `codex mcp add` as docs/mcp.md has them",
        f"claude: Connected {seen['claude']}; codex: enabled {seen['codex']}",
        all(seen.values()),
    )


def _stories(scene: McpScene, client: str, version: str) -> Iterator[Claim]:
    call = _claude if client == "claude" else _codex
    (scene.root / "calc.py").write_text(_WRONG)
    script: Sequence[Line] = [
        call("context"),
        call("status"),
        call("next"),
        call("recall", query="calculator"),
        call("verify", wait_s=200),
        call("scan", paths=["calc.py"]),
        call("scan", paths=["/etc"]),
        call("diagnose", text="E   AssertionError: 3 != 1\n", exit_code=1),
        call("verify", wait_s=0),
        call("approve", run="latest"),
        say("Done."),
    ]
    session = scene.by_claude(*script) if client == "claude" else scene.by_codex(*script)
    text = _results(session)
    parts = {
        "brief": _has(text, "Only PASS is done"),
        "REFUSED with the failing test": _has(text, '"outcome":"REFUSED"', "AssertionError: 3 != 1"),
        "path outside": _has(text, "SANDBOX_ESCAPE"),
        "handle": _has(text, '"state":"running"', "poll_after_s"),
        "approve refused": _has(text, "approving is for a person") or _has(text, "this client cannot ask its user"),
    }
    seen = ", ".join(f"{name} {'yes' if holds else 'no'}" for name, holds in parts.items())
    yield Claim(f"{version} calls the tools", f"{len(session.seen)} requests; {seen}", all(parts.values()))
    (scene.root / "calc.py").write_text(_RIGHT)
    weak = scene.root / "test_calc.py"
    weak.write_text(_WEAK)
    scene.reflectloop("verify", "--wait")
    outcomes = _outcomes(scene)
    again: Sequence[Line] = [call("approve", run="latest"), say("Done.")]
    if client == "codex":
        (scene.home / ".codex").rename(scene.home / ".codex-before")
    session = scene.by_claude(*again) if client == "claude" else scene.by_codex(*again)
    refused = "NEEDS_INPUT" in _results(session)
    yield Claim(
        f"{version} cannot approve a change in REVIEW for its user",
        f"before {outcomes[-1:]}, NEEDS_INPUT {refused}, after {_outcomes(scene)[-1:]}",
        outcomes[-1:] == ["REVIEW"] and refused and _outcomes(scene) == outcomes,
    )


def _outcomes(scene: McpScene) -> list[str]:
    """Return the outcomes of the verifications of a project, oldest first."""
    receipts = (scene.root / ".reflectloop").glob("verifications/*/receipt.json")
    ordered = sorted(receipts, key=lambda path: path.stat().st_mtime_ns)
    return [str(json.loads(path.read_text()).get("outcome")) for path in ordered]
