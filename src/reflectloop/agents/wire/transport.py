"""The only module that opens connections to models. What went wrong is said in words a person can act on."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import httpx

from reflectloop.agents.messages import AgentTurn, Json, NoAnswer, StopReason
from reflectloop.agents.wire import encoding, sse
from reflectloop.agents.wire.protocol import LARGEST, Malformed, ReplyReader, TooLarge, Wire, told
from reflectloop.diagnosis.retrying import retry_after

_CONNECT_S = 15.0
_SILENCE_S = 300.0  # a model may think for long before it says anything
_MOST_READ = 64 << 20  # bytes, with all the protocol wraps around an answer
_MOST_ERROR = 1 << 16
_TITLE = re.compile(r"<title[^>]*>([^<]{1,100})", re.IGNORECASE)
# Servers have no code for it, only words.
_TOO_LONG = re.compile(r"(?i)too long|context.{0,20}(?:length|window|size)|maximum.{0,40}tokens|exceed.{0,40}context")
_WRONG_SHAPE = (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError)
_TRANSIENT = frozenset((408, 409, 425, 429))


class Endpoint(NamedTuple):
    """Where a model is asked, and by which variable's key."""

    url: str
    headers: dict[str, str]
    key_env: str
    loopback: bool


class Transport:
    """One conversation's connection. `ask` ends at once when `cancel` can be read, or when there is no time left."""

    def __init__(self, wire: Wire, place: Endpoint, now: Callable[[], datetime], cancel: int | None) -> None:
        self._wire, self._place, self._now, self._cancel = wire, place, now, cancel
        self._client = httpx.Client(
            headers={
                **place.headers,
                "content-type": "application/json",
                "accept": "text/event-stream, application/json",
                "accept-encoding": "identity",
            },
            timeout=httpx.Timeout(_SILENCE_S, connect=_CONNECT_S),
            trust_env=not place.loopback,  # no proxy stands between us and this machine
            verify=place.url.startswith("https"),
        )
        self._stream: Any = None

    def close(self) -> None:
        self._sever()
        self._client.close()

    def ask(self, body: Json, left_s: float) -> AgentTurn:
        """Ask in a thread of its own: nothing else can be waited for together with a pipe."""
        outcome: list[AgentTurn | BaseException] = []
        reader, writer = os.pipe()
        thread = threading.Thread(target=self._work, args=(body, outcome, writer), daemon=True)
        try:
            thread.start()
            heard = select.select([reader, *self._cancels], [], [], max(0.0, left_s))[0]
        finally:
            os.close(reader)
        if reader not in heard:
            self._sever()
            why = StopReason.CANCELLED if heard else StopReason.TIMEOUT
            raise NoAnswer(why, "it was told to end" if heard else "no time is left", received=0)
        thread.join()
        answer = outcome[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def _cancels(self) -> list[int]:
        return [] if self._cancel is None else [self._cancel]

    def _work(self, body: Json, outcome: list[AgentTurn | BaseException], writer: int) -> None:
        try:
            outcome.append(self._exchange(body))
        except BaseException as fault:  # noqa: BLE001 - told by the thread that waits
            outcome.append(fault)
        finally:
            with contextlib.suppress(OSError):
                os.close(writer)  # which the reader sees

    def _sever(self) -> None:
        """Wake the thread that waits for the server: closing alone would not."""
        found = self._stream.get_extra_info("socket") if self._stream is not None else None
        if isinstance(found, socket.socket):
            with contextlib.suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = info["return_value"]

    # In the thread ---------------------------------------------------------------------------------------------------

    def _exchange(self, body: Json) -> AgentTurn:
        reading = self._wire.reading()
        try:
            with self._client.stream("POST", self._place.url, json=body, extensions={"trace": self._trace}) as response:
                return self._answer(response, reading)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as fault:
            words = str(fault) or type(fault).__name__
            raise NoAnswer(StopReason.FAILED, f"no connection to {self._host}: {words}", transient=True) from fault
        except httpx.TransportError as fault:
            words = f"the connection to {self._host} broke off ({type(fault).__name__}: {fault})"
            raise self._broken(words, reading) from fault
        except (httpx.InvalidURL, httpx.HTTPError, UnicodeError) as fault:
            raise NoAnswer(StopReason.FAILED, f"{self._host} cannot be asked: {fault}") from fault

    @property
    def _host(self) -> str:
        return self._place.url.split("//", 1)[-1].split("/", 1)[0].rpartition("@")[2]

    @staticmethod
    def _broken(words: str, reading: ReplyReader) -> NoAnswer:
        return NoAnswer(StopReason.FAILED, words, transient=True, received=reading.length)

    def _answer(self, response: httpx.Response, reading: ReplyReader) -> AgentTurn:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if encoding.fault_in(response.headers.get("content-encoding", "")):
            raise NoAnswer(StopReason.FAILED, f"{self._host} packs its answer in a way that was not asked for")
        if not response.is_success:
            raise self._refusal(response, kind)
        if kind == "text/html":
            raise NoAnswer(StopReason.FAILED, self._page(_beginning(response)))
        try:
            if kind == "text/event-stream":
                return self._streamed(response, reading)
            return whole(self._wire, b"".join(_bytes(response)))
        except (Malformed, encoding.Unpackable) as fault:
            raise NoAnswer(StopReason.FAILED, f"{self._host} says: {fault}", received=reading.length) from fault
        except TooLarge as fault:
            raise NoAnswer(StopReason.FAILED, str(fault), received=LARGEST) from fault

    def _streamed(self, response: httpx.Response, reading: ReplyReader) -> AgentTurn:
        for data in sse.events(sse.lines(_bytes(response))):
            if data.strip() == sse.END:
                break
            take(reading, data)
            if reading.length > LARGEST:
                raise TooLarge(f"the answer is longer than {LARGEST >> 20} MB; it was not read to its end")
        turn = ended(reading)
        if turn is None:
            raise self._broken(f"the answer of {self._host} ended before its last event", reading)
        return turn

    def _refusal(self, response: httpx.Response, kind: str) -> NoAnswer:
        status, raw = response.status_code, _beginning(response)
        said = self._page(raw) if kind == "text/html" else _said(raw)
        asked = response.headers.get("retry-after")
        asked_s = retry_after(f"Retry-After: {asked}", self._now()) if asked else None
        return NoAnswer(
            StopReason.FAILED,
            f"HTTP {status}: {self._meaning(status)}{said}",
            transient=status in _TRANSIENT or status >= 500,  # noqa: PLR2004 - HTTP's own number
            asked_s=asked_s,
            too_long=status == 413 or (status == 400 and _TOO_LONG.search(said) is not None),  # noqa: PLR2004
        )

    def _meaning(self, status: int) -> str:
        if status in (401, 403):
            held = f"the key in {self._place.key_env}" if self._place.headers else "a request without a key"
            return f"{self._host} does not accept {held}; set {self._place.key_env} to one that is valid. "
        if 300 <= status < 400:  # noqa: PLR2004 - HTTP's own numbers
            return "the server sends elsewhere, where no key is sent on its word; correct base_url. "
        return {
            404: f"nothing answers at {self._place.url}, or there is no such model; check base_url and model. ",
            407: "a proxy wants to know who asks; check HTTPS_PROXY. ",
            413: "the request is too large for the server. ",
            429: "the server lets no more requests through for now. ",
        }.get(status, "")

    def _page(self, raw: bytes) -> str:
        title = _TITLE.search(raw.decode("utf-8", "replace"))
        named = f" ({title[1].strip()!r})" if title else ""
        return f"{self._host} answered with a web page{named}, as a proxy or a wrong base_url does"


def _encoded(body: Json) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def take(reading: ReplyReader, data: str) -> None:
    try:
        event = json.loads(data)
        reading.take(event)
    except _WRONG_SHAPE as fault:
        raise Malformed(f"an event that is not the protocol's ({type(fault).__name__})") from fault


def ended(reading: ReplyReader) -> AgentTurn | None:
    try:
        return reading.turn
    except _WRONG_SHAPE as fault:
        raise Malformed(f"events that are not the protocol's ({type(fault).__name__})") from fault


def whole(wire: Wire, raw: bytes) -> AgentTurn:
    """An answer that came as one document."""
    if not raw.strip():
        raise Malformed("nothing: the answer is empty")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as fault:
        raise Malformed(f"something that is not JSON ({str(fault)[:200]})") from fault
    try:
        turn = wire.whole(document)
    except _WRONG_SHAPE as fault:
        raise Malformed(f"JSON of another shape than the protocol's ({type(fault).__name__})") from fault
    if len(turn.text) + sum(len(str(one.arguments)) for one in turn.calls) > LARGEST:
        raise TooLarge(f"the answer is longer than {LARGEST >> 20} MB")
    return turn


def _bytes(response: httpx.Response) -> Iterator[bytes]:
    """Yield the answer in pieces of bounded size, and no more of it than anybody reads."""
    read = 0
    for piece in _unpacked(response):
        read += len(piece)
        if read > _MOST_READ:
            raise TooLarge(f"more than {_MOST_READ >> 20} MB came; the answer was not read to its end")
        yield piece


def _beginning(response: httpx.Response) -> bytes:
    raw = b""
    with contextlib.suppress(encoding.Unpackable):
        for piece in _unpacked(response):
            raw += piece
            if len(raw) > _MOST_ERROR:
                break
    return raw[:_MOST_ERROR]


def _unpacked(response: httpx.Response) -> Iterator[bytes]:
    return encoding.unpack(response.iter_raw(), response.headers.get("content-encoding", ""))


def _said(raw: bytes) -> str:
    try:
        return told(json.loads(raw))
    except (ValueError, RecursionError):
        return raw[:200].decode("utf-8", "replace").strip()
