"""The model that tests and proofs ask: it says what its script says, in every protocol, and breaks as it is told to."""

from __future__ import annotations

import contextlib
import http.client
import json
from typing import Any, NamedTuple

import pytest

from model import Call, Model, Tokens, Turn, call, say

PATHS = ["/v1/messages", "/v1/responses", "/v1/chat/completions"]


class Answer(NamedTuple):
    status: int
    retry_after: str | None
    raw: bytes


def answer(model: Model, path: str, **body: Any) -> Answer:
    connection = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=10)
    headers = {"Content-Type": "application/json", "x-api-key": "not a key"}
    with contextlib.closing(connection):
        connection.request("POST", path, json.dumps({"model": "m", **body}), headers)
        response = connection.getresponse()
        return Answer(response.status, response.getheader("Retry-After"), response.read())


def ask(model: Model, path: str, **body: Any) -> bytes:
    return answer(model, path, **body).raw


def events(raw: bytes) -> list[Any]:
    lines = [line.removeprefix(b"data: ") for line in raw.splitlines() if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


@pytest.mark.parametrize("path", PATHS)
def test_a_turn_is_the_same_streamed_or_as_a_document(path: str) -> None:
    turn = Turn("z" * 10_000, (Call("read_file", {"path": "a" * 5000}),), Tokens(7, 5, 3, 2))
    with Model([turn, turn]) as model:
        whole, streamed = json.loads(ask(model, path)), events(ask(model, path, stream=True))
    assert "z" * 10_000 in json.dumps(whole)
    assert "a" * 4000 in json.dumps(whole)
    texts = json.dumps(streamed)
    assert texts.count("z") >= 10_000
    assert len(streamed) > 5
    assert [(one.path, one.keyed, "x-api-key" in one.headers) for one in model.seen] == [(path, True, False)] * 2


def test_message_events_come_in_the_providers_order() -> None:
    with Model([Turn("hi", (Call("a", {"x": 1}),))]) as model:
        kinds = [one["type"] for one in events(ask(model, "/v1/messages", stream=True))]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert kinds == ["message_start", "ping", *block, *block, "message_delta", "message_stop"]


def test_a_finished_script_is_reported_and_other_requests_use_no_line() -> None:
    with Model([say("first"), lambda asked: say(asked["model"])], aside=True) as model:
        assert b"an aside" in ask(model, "/v1/messages")
        assert b"first" in ask(model, "/v1/messages", tools=[{}])
        assert b'"text": "m"' in ask(model, "/v1/messages", tools=[{}])
        over = answer(model, "/v1/messages", tools=[{}])
    assert over.status == 400
    assert b"no more turns" in over.raw


def test_faults_are_what_they_are_called() -> None:
    script = [
        Turn(status=429, retry_after="7"),
        say("x", fault="html"),
        say("x", fault="malformed"),
        say("x", fault="cut"),
        say("x", fault="short"),
        call("f"),
    ]
    with Model(script) as model:
        assert answer(model, "/v1/messages")[:2] == (429, "7")
        assert ask(model, "/v1/messages").startswith(b"<!doctype html>")
        with pytest.raises(json.JSONDecodeError):
            events(ask(model, "/v1/messages", stream=True))
        with pytest.raises(http.client.IncompleteRead):
            ask(model, "/v1/messages", stream=True)
        assert events(ask(model, "/v1/messages", stream=True))[-1]["type"] != "message_stop"
        assert json.loads(ask(model, "/v1/messages"))["stop_reason"] == "tool_use"
