"""Gemini CLI through the Agent Client Protocol, and a model on loopback that speaks Gemini's protocol to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from proof.agent_case import KEY, MODELS, Answer, Line, Scene, Seen, Tokens, Turn, Verdict, call, digest, holding, say
from proof.paper import Paper
from reflectloop.agents import AgentLimits, bind
from reflectloop.config import AgentConfig, Config
from reflectloop.terms import Role

PINNED = "@google/gemini-cli@0.61.0"
_QUIET = {"GEMINI_TELEMETRY_ENABLED": "false", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
_SETTINGS = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}


def program() -> Path | None:
    """Its one file, installed once for this version; None where there is no npm."""
    folder = Path(tempfile.gettempdir()) / f"reflectloop-proof-{PINNED.strip('@').replace('/', '-').replace('@', '-')}"
    npm = shutil.which("npm")
    if npm is None:
        return None
    if not (folder / "ready").exists():
        folder.mkdir(exist_ok=True)
        words = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), PINNED]
        done = subprocess.run([npm, *words], capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"Gemini CLI could not be installed: {done.stderr.decode('utf-8', 'replace')[-500:]}")
        (folder / "ready").touch()
    return folder / "node_modules/@google/gemini-cli/bundle/gemini.js"


class _Model(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script: tuple[Line, ...]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script, self.seen, self.ended = iter(script), list[Seen](), threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """Whoever asked has gone."""


class _Handler(BaseHTTPRequestHandler):
    server: _Model

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if "countTokens" in self.path:
            self._send(200, {"totalTokens": 100})
            return
        self.server.seen.append(Seen(self.path, {}, body, keyed="x-goog-api-key" in self.headers))
        line = next(self.server.script, Turn(status=400, error="the script has no more turns"))
        turn = line if isinstance(line, Turn) else line(body)
        self.server.ended.wait(turn.wait_s)
        if turn.status != 200:
            self._send(
                turn.status, {"error": {"code": turn.status, "message": turn.error, "status": "UNAUTHENTICATED"}}
            )
            return
        self._send(200, _said(turn), stream="stream" in self.path)

    def _send(self, status: int, said: dict[str, Any], *, stream: bool = False) -> None:
        raw = json.dumps(said).encode()
        raw = b"data: " + raw + b"\n\n" if stream else raw
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream" if stream else "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def _said(turn: Turn) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [] if turn.text is None else [{"text": turn.text}]
    parts += [{"functionCall": {"name": one.name, "args": one.arguments}} for one in turn.calls]
    used = turn.tokens
    told = {"promptTokenCount": used.input, "candidatesTokenCount": used.output}
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {**told, "totalTokenCount": used.input + used.output},
    }


class GeminiScene(Scene):
    def ask(
        self,
        *script: Line,
        role: Role = Role.EXECUTOR,
        under: tuple[str, ...] = (),
        nowhere: bool = False,  # noqa: ARG002
        **more: Any,  # noqa: ANN401
    ) -> Answer:
        model = _Model(script)
        url = f"http://127.0.0.1:{model.server_port}"
        env = {**_QUIET, "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY}
        run = (*under, str(shutil.which("node")), str(self.program), "--acp", "-m", MODELS["gemini"])
        agent = AgentConfig(kind="acp", run=run, env=tuple(env), base_url=url)
        backend = bind("gemini", Config(agents={"gemini": agent}), {**os.environ, **env})
        asked = self.asking(role, **more)
        (self.home / ".gemini").mkdir(exist_ok=True)
        (self.home / ".gemini" / "settings.json").write_text(json.dumps(_SETTINGS))
        began = time.monotonic()
        try:
            return Answer(backend.run(asked), model.seen, time.monotonic() - began)
        finally:
            model.ended.set()
            model.shutdown()
            model.server_close()

    def write(self, name: str) -> Turn:
        return call("write_file", file_path=str(self.root / name), content="x\n")

    def shell(self, command: str, tokens: Tokens | None = None) -> Turn:
        return call("run_shell_command", tokens, command=command, description="work")


def prove(scene: Scene, paper: Paper) -> None:
    before = digest(scene.place.repo)
    push = scene.shell("git push --force origin main")
    script = (scene.write("new.txt"), push, scene.shell("touch made"), say("Done."))
    done = scene.ask(*script, role=Role.PLANNER)
    paper.claim(
        "gemini, by ACP: a planner is denied a file, a push and a command",
        f"{done.told}; denials: {'; '.join(one[:60] for one in done.reply.denials)}",
        holds=done.reply.ok and len(done.reply.denials) == 3 and digest(scene.place.repo) == before,
    )
    done = scene.ask(*script)
    logged = done.reply.raw_log.read_text() if done.reply.raw_log else ""
    paper.claim(
        "gemini, by ACP: an executor writes through FileOps and runs a command; the policy denies the push",
        f"{done.told}; denials: {'; '.join(one[:90] for one in done.reply.denials)}",
        holds=done.reply.ok
        and "fs/write_text_file" in logged
        and scene.place.text("new.txt") == "x\n"
        and (scene.place.repo / "made").exists()
        and len(done.reply.denials) == 1,
    )
    _more(scene, paper)


def _more(scene: Scene, paper: Paper) -> None:
    first, last = Tokens(1500, 30), Tokens(2500, 50)
    done = scene.ask(scene.shell("true", first), say("Done.", tokens=last))
    paper.claim(
        "gemini, by ACP: what it used is what the model said",
        f"{done.reply.usage.input_tokens} in, {done.reply.usage.output_tokens} out",
        holds=done.reply.usage[:2] == (4000, 80),
    )
    done = scene.ask(say('{"verdict": "PASS", "reason": "it adds"}'), role=Role.REVIEWER, answer=Verdict)
    paper.claim(
        "gemini, by ACP: an answer of the right shape", done.told, holds=done.reply.ok and bool(done.reply.data)
    )
    done = scene.ask(say("It is fine."), role=Role.REVIEWER, answer=Verdict)
    paper.claim("gemini, by ACP: no such answer", done.told, holds=done.reply.status == "no_output")
    done = scene.ask(*[Turn(status=401, error="no such key")] * 5)
    paper.claim("gemini, by ACP: 401", done.told, holds=not done.reply.ok and "no such key" in done.reply.reason)
    done = scene.ask(*[scene.shell("true")] * 9, bounds=AgentLimits(3, 60.0))
    paper.claim("gemini, by ACP: more than 3 turns", done.told, holds=not done.reply.ok and len(done.seen) <= 4)
    timer = threading.Timer(8.0, scene.cancel.set)
    timer.start()
    done = scene.ask(say("Late.", wait_s=60))
    timer.join()
    os.read(scene.cancel.reader, 1)
    paper.claim("gemini, by ACP: slow, and cancelled after 8 s", done.told, holds=done.reply.reason == "cancelled")
    found = holding(scene.folder, KEY)
    paper.claim("gemini, by ACP: the key is in no file", ", ".join(found) or "none holds it", holds=not found)
