"""A model that says what a script tells it to, on loopback, in the protocols that agents speak.

    with Model([call("read_file", path="a.py"), say("done")]) as model:
        … ask at model.url (or model.url + "/v1") …
    model.seen[0].body["messages"]

It stands for the maker's server in tests and proofs; no key it is shown is kept.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

import model_turns
from model_turns import Call, Tokens, Turn, call, say

__all__ = ["Call", "Model", "Seen", "Tokens", "Turn", "call", "say"]

Line = Turn | Callable[[dict[str, Any]], Turn]  # what is said may depend on what was asked
_KEYS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
_WIRES: dict[str, model_turns.Wire] = {"/messages": "messages", "/responses": "responses", "/chat/completions": "chat"}
_HTML = "<!doctype html><html><head><title>Sign in</title></head><body>The proxy wants you to sign in.</body></html>"
_ENDED = Turn(status=400, error="the script has no more turns")


class Seen(NamedTuple):
    """A request as it came, but for its key: of that only whether there was one."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    keyed: bool


class Model:
    """Answers each request with the next line of its script.

    With `aside`, requests that offer no tools are a CLI's own small talk (titles, topics): they get a word and use up
    no line.
    """

    def __init__(self, script: Iterable[Line] = (), *, aside: bool = False) -> None:
        self.seen: list[Seen] = []
        self._script, self._aside = iter(script), aside
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, seen: Seen) -> tuple[int, Turn]:
        """The next line, with its number."""
        with self._lock:
            self.seen.append(seen)
            if self._aside and not seen.body.get("tools"):
                return len(self.seen), say("an aside")
            line = next(self._script, _ENDED)
            return len(self.seen), line if isinstance(line, Turn) else line(seen.body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    model: Model

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.ended = threading.Event()

    def handle_error(self, *_: object) -> None:
        """Whoever asked has gone."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each small event waits for the last one's receipt
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(200, b"", "text/plain")

    def do_GET(self) -> None:
        known = {
            "id": "fake-model",
            "object": "model",
            "type": "model",
            "display_name": "Fake",
            "created_at": "2026-01-01",
        }
        self._json(200, {"object": "list", "data": [known], "models": []})

    def do_POST(self) -> None:
        raw = self._body()
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._json(200, {"input_tokens": len(raw) // 4})
            return
        wire = next((wire for end, wire in _WIRES.items() if path.endswith(end)), None)
        if wire is None:
            self._json(404, {"error": {"type": "not_found", "message": f"nothing at {path}"}})
            return
        seen = self._seen(raw)
        number, turn = self.server.model.answer(seen)
        self.server.ended.wait(turn.wait_s)
        self._say(wire, turn, seen.body, number)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return b"".join(self._chunks())

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _seen(self, raw: bytes) -> Seen:
        headers = {name.lower(): value for name, value in self.headers.items()}
        keyed = any(headers.pop(name, None) for name in _KEYS)
        return Seen(self.path, headers, json.loads(raw or b"{}"), keyed)

    def _say(self, wire: model_turns.Wire, turn: Turn, asked: dict[str, Any], number: int) -> None:
        if turn.fault == "html":
            self._send(turn.status, _HTML.encode(), "text/html; charset=utf-8")
        elif turn.fault == "blank":
            self._send(turn.status, b"", "application/json")
        elif turn.status != 200:
            self._refuse(turn)
        elif asked.get("stream") and not turn.whole:
            self._stream(wire, turn, model_turns.events(wire, turn, str(asked.get("model")), number))
        else:
            self._document(turn, model_turns.whole(wire, turn, str(asked.get("model")), number))

    def _refuse(self, turn: Turn) -> None:
        said = {"type": "error", "error": {"type": turn.error, "message": turn.error}}
        self._json(turn.status, said, {"Retry-After": turn.retry_after} if turn.retry_after else {})

    def _document(self, turn: Turn, said: dict[str, Any]) -> None:
        raw = json.dumps(said).encode()
        if turn.fault == "malformed":
            raw = raw[: len(raw) // 2]
        missing = 100 if turn.fault in ("cut", "short") else 0
        self._send(200, raw, "application/json", missing=missing)

    def _stream(self, wire: model_turns.Wire, turn: Turn, events: list[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        if turn.fault == "cut":
            self.send_header("Content-Length", "1000000000")
        self.end_headers()
        self.close_connection = True
        if turn.fault in ("cut", "short"):
            events = events[: len(events) // 2]
        for event in events:
            if turn.drip_s and self.server.ended.wait(turn.drip_s):
                return
            self._event(wire, event, broken=turn.fault == "malformed")
        if wire == "chat" and turn.fault not in ("cut", "short"):
            self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, wire: model_turns.Wire, event: dict[str, Any], *, broken: bool) -> None:
        name = b"" if wire == "chat" else f"event: {event['type']}\n".encode()
        data = json.dumps(event).encode()
        self.wfile.write(name + b"data: " + (data[: len(data) // 2] if broken else data) + b"\n\n")
        self.wfile.flush()

    def _json(self, status: int, said: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(said).encode(), "application/json", headers)

    def _send(
        self, status: int, raw: bytes, kind: str, headers: dict[str, str] | None = None, *, missing: int = 0
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw) + missing))
        self.end_headers()
        self.wfile.write(raw)
        self.close_connection = self.close_connection or bool(missing)
