"""Models behind HTTP: what they are sent, what is read out of what they say, and every way it goes wrong."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
import sys
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fileops_workspace import ROOT, TOKEN, Place
from http_agent import KEY, Verdict, asking, backend, hands, told
from model import Call, Model, Tokens, Turn, call, say
from reflectloop.agents import prices
from reflectloop.agents.backend import TokenUsage
from reflectloop.agents.registry import bind
from reflectloop.agents.wire import transport
from reflectloop.config import AgentConfig, Config
from reflectloop.errors import AgentUnavailable, SecretLeak
from reflectloop.system import process
from reflectloop.terms import Role

PROTOCOLS = ["anthropic", "openai"]


def look(place: Place, tmp_path: Path, **more: Any) -> Any:
    return asking(place, tmp_path / "raw", **{"role": Role.CRITIC, **more})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_calls_and_text_work_in_both_protocols_with_the_providers_usage(
    place: Place, tmp_path: Path, protocol: str
) -> None:
    script = [
        Turn("I look.", (Call("read_file", {"path": "README.md"}), Call("list_dir")), Tokens(100, 10, 7, 3)),
        call("write_file", path="new.txt", content="é" * 3000),
        call("step_done", summary="written"),
    ]
    ask = asking(place, tmp_path / "raw", act=hands(place), step="S-1")
    reply, model = told(script, ask, protocol=protocol)
    assert (reply.status, reply.reason) == ("ok", "")
    assert reply.data == {"control": "step_done", "summary": "written"}
    assert place.text("new.txt") == "é" * 3000
    written = 3 if protocol == "anthropic" else 0
    assert reply.usage == TokenUsage(100 + 2 * 1200, 10 + 2 * 40, 7, written, 3)
    assert reply.cost_usd == pytest.approx((2500 * 3.0 + 90 * 15.0 + 7 * 0.3 + written * 3.75) / 1e6)
    second = model.seen[1].body
    assert second["stream"] is True
    assert "# sample" in json.dumps(second["messages"][-2 if protocol == "openai" else -1])
    assert [one.keyed for one in model.seen] == [True] * 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_structured_answer_is_requested_by_a_tool_and_corrected_once(
    place: Place, tmp_path: Path, protocol: str
) -> None:
    ask = look(place, tmp_path, answer=Verdict)
    good = call("answer", verdict="PASS", score=3)
    reply, model = told([call("answer", verdict="PASS", score="many"), good], ask, protocol=protocol)
    assert (reply.status, reply.data) == ("ok", {"verdict": "PASS", "score": 3})
    correction = json.dumps(model.seen[1].body["messages"][-1])
    assert "score: must be a whole number" in correction
    assert "answer" in json.dumps(model.seen[0].body["tool_choice"])
    for bad in ([call("answer"), call("answer", verdict=1, score=1)], [say("PASS"), say("")]):
        reply, model = told([*bad, good], ask, protocol=protocol)
        assert (reply.status, reply.data, len(model.seen)) == ("error", None, 2)
        assert reply.reason.startswith("INVALID_ANSWER: the corrected answer is still faulty:")
    words = say('Here you are:\n```json\n{"verdict": "REVISE", "score": 1}\n```')
    reply, _ = told([words], ask, protocol=protocol)
    assert reply.data == {"verdict": "REVISE", "score": 1}


def test_an_answer_that_is_not_streamed_is_parsed_too(place: Place, tmp_path: Path) -> None:
    both = Turn("both", (Call("answer", {"verdict": "x", "score": 1}),), whole=True)
    for protocol, path in (("anthropic", "/v1/messages"), ("openai", "/v1/chat/completions")):
        reply, model = told([both], look(place, tmp_path, answer=Verdict), protocol=protocol)
        assert (reply.data, model.seen[0].path) == ({"verdict": "x", "score": 1}, path)
        assert reply.usage.tokens == 1240
        for turn in (both._replace(fault="malformed"), both._replace(fault="blank")):
            reply, _ = told([turn], look(place, tmp_path, answer=Verdict), protocol=protocol)
            assert reply.status == "error"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_transient_failures_are_retried_after_the_servers_delay(place: Place, tmp_path: Path, protocol: str) -> None:
    script = [
        Turn(status=429, retry_after="0.05"),
        Turn(status=529, error="overloaded_error"),
        say("x", fault="cut"),
        say("x" * 5000, fault="short"),
        say("at last"),
    ]
    reply, model = told(script, look(place, tmp_path), protocol=protocol)
    assert (reply.status, reply.text, len(model.seen)) == ("ok", "at last", 5)
    assert reply.raw_log is not None
    assert reply.raw_log.read_text().count('"again"') == 4
    reply, model = told(itertools.repeat(Turn(status=500)), look(place, tmp_path), protocol=protocol)
    assert (reply.status, len(model.seen)) == ("error", 5)
    assert "HTTP 500" in reply.reason
    late, model = told([Turn(status=429, retry_after="600")], look(place, tmp_path, timeout_s=5.0), protocol=protocol)
    assert (late.status, len(model.seen)) == ("timeout", 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_permanent_failures_are_explained_and_not_retried(place: Place, tmp_path: Path, protocol: str) -> None:
    named = "ANTHROPIC_API_KEY" if protocol == "anthropic" else "OPENAI_API_KEY"
    cases = [
        (Turn(status=401, error=f"no such key {KEY}"), "HTTP 401: ", f"the key in {named}"),
        (Turn(status=404, error="model not found"), "HTTP 404: ", "model not found"),
        (Turn(status=400, error="bad"), "HTTP 400: bad", ""),
        (Turn(status=307, error="gone"), "HTTP 307: the server redirects", "correct base_url"),
        (say("x", fault="html"), "answered with a web page ('Sign in'), as a proxy", ""),
        (say("x", fault="html", status=407), "HTTP 407: a proxy requires authentication", "'Sign in'"),
        (say("x", fault="malformed"), "not the protocol's", ""),
        (say("x", fault="blank"), "the answer is empty", ""),
        (say("y" * (10 << 20)), "the answer is longer than 4 MB", ""),
    ]
    for turn, words, more in cases:
        reply, model = told([turn, say("never")], look(place, tmp_path), protocol=protocol)
        assert (reply.status, len(model.seen)) == ("error", 1), turn
        assert words in reply.reason
        assert more in reply.reason
        assert KEY not in repr(reply)
    empty, model = told([Turn(), Turn()], look(place, tmp_path), protocol=protocol)
    assert (empty.status, len(model.seen)) == ("no_output", 2)


def test_a_missing_server_and_an_unknown_host_are_reported(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        reply = backend(f"http://127.0.0.1:{taken.getsockname()[1]}").run(look(place, tmp_path))
    assert reply.status == "error"
    assert "no connection to 127.0.0.1" in reply.reason
    assert "refused" in reply.reason

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    nowhere = backend("https://nowhere.invalid").run(look(place, tmp_path))
    assert nowhere.reason == "FAILED: no connection to nowhere.invalid: [Errno -2] Name or service not known"


def test_a_slow_model_ends_at_its_timeout_and_at_once_on_a_cancel(place: Place, tmp_path: Path) -> None:
    slow = say("z" * 500_000, drip_s=0.2)
    reply, _ = told([slow], look(place, tmp_path, timeout_s=2.0))
    assert (reply.status, reply.reason) == ("timeout", "TIMEOUT: the time limit is over")
    assert reply.usage.tokens > 0  # what was asked for is paid for
    place.hands.box.cancel = process.Cancel()
    try:
        timer = threading.Timer(0.2, place.hands.box.cancel.set)
        timer.start()
        for turn in (slow, say("x", wait_s=3600.0)):
            reply, _ = told([turn], look(place, tmp_path))
            assert reply.reason.startswith("CANCELLED: ")
        timer.join()
    finally:
        place.hands.box.cancel.close()


def test_without_a_key_only_a_local_server_is_called(place: Place, tmp_path: Path) -> None:
    with Model([say("hello")]) as model:
        local = backend(model.url, caller={}, protocol="openai", model="qwen")
        assert local.probe().problem is None
        reply = local.run(look(place, tmp_path))
    assert (reply.status, reply.cost_usd, model.seen[0].keyed) == ("ok", None, False)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"caller": {}}, "ANTHROPIC_API_KEY is not set"),
        ({"caller": {}, "key_env": "MINE"}, "MINE is not set"),
        ({"caller": {"MINE": "a\nb"}, "key_env": "MINE"}, "MINE contains characters that no key has"),
        ({"model": None}, "has no model"),
    ]
    for settings, words in cases:
        http = backend("https://models.invalid", **settings)
        assert words in (http.probe().problem or "")
        assert words in http.run(look(place, tmp_path)).reason
    assert "without encryption" in (backend("http://models.invalid").probe().problem or "")
    assert backend("http://models.invalid", caller={"MINE": "k"}, key_env="MINE").probe().problem is None
    assert "base_url" in (backend("ftp://models.invalid").probe().problem or "")
    assert AgentConfig().key_env is None


def test_a_key_is_in_no_log_no_prompt_and_no_answer(place: Place, tmp_path: Path) -> None:
    script = [
        say(f"I know {KEY}", calls=(Call("write_file", {"path": "a.txt", "content": "1"}),)),
        call("step_done", summary=KEY),
    ]
    ask = asking(place, tmp_path / "raw", prompt=f"use {KEY}", system=KEY, act=hands(place))
    reply, model = told(script, ask)
    assert reply.ok
    assert reply.raw_log is not None
    assert reply.data == {"control": "step_done", "summary": "[REDACTED]"}
    assert "[REDACTED]" in model.seen[0].body["messages"][0]["content"][0]["text"]
    assert KEY not in repr(reply)
    assert KEY not in json.dumps([one.body["system"] for one in model.seen])
    assert KEY not in json.dumps([one.body["messages"][0] for one in model.seen])
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert reply.raw_log in files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    lines = [json.loads(line) for line in reply.raw_log.read_text().splitlines()]
    assert lines[-1]["state"] == "VERIFYING"


def test_a_leak_by_the_model_stops_everything_and_is_in_no_log(place: Place, tmp_path: Path) -> None:
    ask = asking(place, tmp_path / "raw", act=hands(place))
    with pytest.raises(SecretLeak):
        told([call("write_file", path="a.txt", content=f"token = '{TOKEN}'\n"), call("step_done")], ask)
    (log,) = (tmp_path / "raw").iterdir()
    assert "REDACTED" in log.read_text()
    assert TOKEN not in log.read_text()
    assert not (place.repo / "a.txt").exists()


def test_an_agent_is_bound_with_the_prices_of_the_project(place: Place, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text("[models.mine]\ninput = 1000\noutput = 0\nwindow = 9000\n")
    before = prices.current()
    try:
        with Model([say("hello")]) as model:
            agent = {"kind": "http", "base_url": model.url, "protocol": "openai", "model": "mine"}
            settings = Config.model_validate({"agents": {"local": agent}, "cost": {"prices": "prices.toml"}})
            reply = bind("local", settings, {}, tmp_path).run(look(place, tmp_path))
    finally:
        prices.use(before)
    assert reply.text == "hello"
    assert reply.cost_usd == pytest.approx(1.2)


def test_a_missing_extra_is_reported_with_the_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("reflectloop.agents.http", "reflectloop.agents.wire.transport"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(AgentUnavailable) as caught:
        bind("http", Config(), {}, tmp_path)
    assert "uv tool install '.[http]'" in str(caught.value.next_step)
    assert "needs httpx" in caught.value.message


def test_only_one_module_opens_connections_to_models() -> None:
    sources = (ROOT / "src").rglob("*.py")
    named = [path.name for path in sources if re.search(r"^\s*(import|from) httpx\b", path.read_text(), re.MULTILINE)]
    assert named == ["transport.py"]


def gzipped(data: bytes) -> bytes:
    machine = zlib.compressobj(9, zlib.DEFLATED, 31)
    return machine.compress(data) + machine.flush()


@contextlib.contextmanager
def packing(raw: bytes, header: str, status: int = 200) -> Iterator[tuple[str, list[str | None]]]:
    """A server that packs its answer like this, whatever it was asked for; and what it was asked for."""
    wanted: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            wanted.append(self.headers["accept-encoding"])
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-encoding", header)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", wanted
        server.shutdown()


def test_compressed_answers_are_not_requested_and_are_bounded(place: Place, tmp_path: Path) -> None:
    said = {"content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn", "usage": {"output_tokens": 1}}
    plain = json.dumps({"type": "message", "role": "assistant", **said}).encode()
    bomb = gzipped(b"\0" * (80 << 20))
    for raw, header, status, words in (
        (gzipped(plain), "gzip", "ok", ""),
        (zlib.compress(plain), "deflate", "ok", ""),
        (plain, "identity", "ok", ""),
        (gzipped(gzipped(plain)), "gzip, gzip", "error", "was not requested"),
        (gzipped(plain), "br", "error", "was not requested"),
        (bomb, "gzip", "error", "longer than 64 MB"),
        (gzipped(plain)[:-9], "gzip", "error", "ends in the middle"),
        (plain, "gzip", "error", "not gzip"),
    ):
        with packing(raw, header) as (url, wanted):
            reply = backend(url).run(look(place, tmp_path))
        assert (reply.status, set(wanted)) == (status, {"identity"}), header
        assert words in reply.reason
    with packing(bomb, "gzip", status=400) as (url, _):
        assert "HTTP 400" in backend(url).run(look(place, tmp_path)).reason


def test_decompressed_data_comes_in_chunks_of_bounded_size() -> None:
    pieces = list(transport.unpack([gzipped(b"\0" * (32 << 20))], "gzip"))
    assert max(map(len, pieces)) <= 1 << 16
    assert sum(map(len, pieces)) == 32 << 20
