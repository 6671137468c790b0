"""The only module that opens connections to models. Failures are reported with the cause and what to correct."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import httpx

from reflectloop.agents.messages import AgentTurn, Json, NoAnswer, StopReason
from reflectloop.agents.wire.protocol import LARGEST, Malformed, ReplyReader, TooLarge, Wire, error_message
from reflectloop.diagnosis.retrying import retry_after
from reflectloop.system.patterns import lazy

_END = "[DONE]"


def split_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Split chunks into split_lines at CR, LF or both only: other line breaks are part of the text."""
    pending: list[bytes] = []
    returned = False  # the last chunk ended with CR, and its LF may follow
    for chunk in chunks:
        fresh = chunk[1:] if returned and chunk.startswith(b"\n") else chunk
        returned = chunk.endswith(b"\r")
        *complete, rest = fresh.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in complete:
            yield b"".join([*pending, line]).decode("utf-8", "replace")
            pending = []
        pending.append(rest)
    yield b"".join(pending).decode("utf-8", "replace")


def events(split_lines: Iterable[str]) -> Iterator[str]:
    """Yield the data of each event. Event names are ignored: the data contains the type."""
    pending: list[str] = []
    for line in split_lines:
        if not line and pending:
            yield "\n".join(pending)
            pending = []
        elif line.startswith("data:"):
            pending.append(line[5:].removeprefix(" "))
    if pending:
        yield "\n".join(pending)


_CHUNK = 1 << 16  # bytes
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_PLAIN = ("", "identity")


class Unpackable(Exception):
    """The content is not compressed as its header says."""


def fault_in(header: str) -> bool:
    """Return True if the content encoding is unknown, or if there are several."""
    name = header.strip().lower()
    return name not in _PLAIN and name not in _WINDOWS


def unpack(raw: Iterable[bytes], header: str) -> Iterator[bytes]:
    """Yield the decompressed content of `raw`, at most one chunk at a time."""
    name = header.strip().lower()
    if name in _PLAIN:
        yield from raw
        return
    machine = zlib.decompressobj(_WINDOWS[name])
    try:
        for piece in raw:
            left = piece
            while left and not machine.eof:
                yield machine.decompress(left, _CHUNK)
                left = machine.unconsumed_tail
    except zlib.error as fault:
        raise Unpackable(f"something that is not {name} ({fault})") from fault
    if not machine.eof:
        raise Unpackable(f"{name} that ends in the middle")


_CONNECT_S = 15.0
_SILENCE_S = 300.0  # a model may think for a long time before its first token
_MOST_READ = 64 << 20  # bytes, including protocol overhead
_MOST_ERROR = 1 << 16
_TITLE = lazy(r"<title[^>]*>([^<]{1,100})", re.IGNORECASE)
# Servers report this only as text, without a code.
_TOO_LONG = lazy(r"(?i)too long|context.{0,20}(?:length|window|size)|maximum.{0,40}tokens|exceed.{0,40}context")
_WRONG_SHAPE = (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError)
_TRANSIENT = frozenset((408, 409, 425, 429))


class Endpoint(NamedTuple):
    """The address of a model's server, and the variable with its key."""

    url: str
    headers: dict[str, str]
    key_env: str
    loopback: bool


class Transport:
    """One conversation's connection. `ask` ends as soon as `cancel` is readable, or when the time is over."""

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
            trust_env=not place.loopback,  # never use a proxy for loopback addresses
            verify=place.url.startswith("https"),
        )
        self._stream: Any = None

    def close(self) -> None:
        self._sever()
        self._client.close()

    def ask(self, body: Json, left_s: float) -> AgentTurn:
        """Send a request in a separate thread, so that the cancel pipe can be watched at the same time."""
        outcome: list[AgentTurn | BaseException] = []
        reader, writer = os.pipe()
        thread = threading.Thread(target=self._work, args=(body, outcome, writer), daemon=True)
        try:
            thread.start()
            ready = select.select([reader, *self._cancels], [], [], max(0.0, left_s))[0]
        finally:
            os.close(reader)
        if reader not in ready:
            self._sever()
            why = StopReason.CANCELLED if ready else StopReason.TIMEOUT
            raise NoAnswer(why, "cancelled" if ready else "the time limit is over", received=0)
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
        except BaseException as fault:  # noqa: BLE001 - raised again by the waiting thread
            outcome.append(fault)
        finally:
            with contextlib.suppress(OSError):
                os.close(writer)  # wakes the reader

    def _sever(self) -> None:
        """Shut the socket down to wake the thread that waits for the server; closing it would not."""
        connection = self._stream.get_extra_info("socket") if self._stream is not None else None
        if isinstance(connection, socket.socket):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = info["return_value"]

    # In the thread ---------------------------------------------------------------------------------------------------

    def _exchange(self, body: Json) -> AgentTurn:
        reading = self._wire.reader()
        try:
            with self._client.stream("POST", self._place.url, json=body, extensions={"trace": self._trace}) as response:
                return self._answer(response, reading)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as fault:
            detail = str(fault) or type(fault).__name__
            raise NoAnswer(StopReason.FAILED, f"no connection to {self._host}: {detail}", transient=True) from fault
        except httpx.TransportError as fault:
            detail = f"the connection to {self._host} broke off ({type(fault).__name__}: {fault})"
            raise self._broken(detail, reading) from fault
        except (httpx.InvalidURL, httpx.HTTPError, UnicodeError) as fault:
            raise NoAnswer(StopReason.FAILED, f"{self._host} cannot be asked: {fault}") from fault

    @property
    def _host(self) -> str:
        return self._place.url.split("//", 1)[-1].split("/", 1)[0].rpartition("@")[2]

    @staticmethod
    def _broken(reason: str, reading: ReplyReader) -> NoAnswer:
        return NoAnswer(StopReason.FAILED, reason, transient=True, received=reading.length)

    def _answer(self, response: httpx.Response, reading: ReplyReader) -> AgentTurn:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if fault_in(response.headers.get("content-encoding", "")):
            raise NoAnswer(StopReason.FAILED, f"{self._host} uses an encoding that was not requested")
        if not response.is_success:
            raise self._refusal(response, kind)
        if kind == "text/html":
            raise NoAnswer(StopReason.FAILED, self._page(_beginning(response)))
        try:
            if kind == "text/event-stream":
                return self._streamed(response, reading)
            return parse_document(self._wire, b"".join(_bytes(response)))
        except (Malformed, Unpackable) as fault:
            raise NoAnswer(StopReason.FAILED, f"{self._host} says: {fault}", received=reading.length) from fault
        except TooLarge as fault:
            raise NoAnswer(StopReason.FAILED, str(fault), received=LARGEST) from fault

    def _streamed(self, response: httpx.Response, reading: ReplyReader) -> AgentTurn:
        for data in events(split_lines(_bytes(response))):
            if data.strip() == _END:
                break
            parse_event(reading, data)
            if reading.length > LARGEST:
                raise TooLarge(f"the answer is longer than {LARGEST >> 20} MB; the rest was not read")
        turn = finished_turn(reading)
        if turn is None:
            raise self._broken(f"the answer of {self._host} ended before its last event", reading)
        return turn

    def _refusal(self, response: httpx.Response, kind: str) -> NoAnswer:
        status, raw = response.status_code, _beginning(response)
        detail = self._page(raw) if kind == "text/html" else _error_text(raw)
        delay = response.headers.get("retry-after")
        asked_s = retry_after(f"Retry-After: {delay}", self._now()) if delay else None
        return NoAnswer(
            StopReason.FAILED,
            f"HTTP {status}: {self._meaning(status)}{detail}",
            transient=status in _TRANSIENT or status >= 500,  # noqa: PLR2004 - HTTP's own number
            asked_s=asked_s,
            too_long=status == 413 or (status == 400 and _TOO_LONG.search(detail) is not None),  # noqa: PLR2004
        )

    def _meaning(self, status: int) -> str:
        if status in (401, 403):
            credentials = f"the key in {self._place.key_env}" if self._place.headers else "a request without a key"
            return f"{self._host} does not accept {credentials}; set {self._place.key_env} to one that is valid. "
        if 300 <= status < 400:  # noqa: PLR2004 - HTTP's own numbers
            return "the server redirects, and the key is not sent to another address; correct base_url. "
        return {
            404: f"nothing answers at {self._place.url}, or there is no such model; check base_url and model. ",
            407: "a proxy requires authentication; check HTTPS_PROXY. ",
            413: "the request is too large for the server. ",
            429: "the server's rate limit is reached. ",
        }.get(status, "")

    def _page(self, raw: bytes) -> str:
        title = _TITLE.search(raw.decode("utf-8", "replace"))
        named = f" ({title[1].strip()!r})" if title else ""
        return f"{self._host} answered with a web page{named}, as a proxy or a wrong base_url does"


def parse_event(reading: ReplyReader, data: str) -> None:
    try:
        event = json.loads(data)
        reading.take(event)
    except _WRONG_SHAPE as fault:
        raise Malformed(f"an event that is not the protocol's ({type(fault).__name__})") from fault


def finished_turn(reading: ReplyReader) -> AgentTurn | None:
    try:
        return reading.turn
    except _WRONG_SHAPE as fault:
        raise Malformed(f"events that are not the protocol's ({type(fault).__name__})") from fault


def parse_document(wire: Wire, raw: bytes) -> AgentTurn:
    """Parse an answer that is one document instead of a stream."""
    if not raw.strip():
        raise Malformed("nothing: the answer is empty")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as fault:
        raise Malformed(f"something that is not JSON ({str(fault)[:200]})") from fault
    try:
        turn = wire.parse_document(document)
    except _WRONG_SHAPE as fault:
        raise Malformed(f"JSON of another shape than the protocol's ({type(fault).__name__})") from fault
    if len(turn.text) + sum(len(str(tool_call.arguments)) for tool_call in turn.calls) > LARGEST:
        raise TooLarge(f"the answer is longer than {LARGEST >> 20} MB")
    return turn


def _bytes(response: httpx.Response) -> Iterator[bytes]:
    """Yield the answer in pieces of bounded size; raise if it is too long."""
    read = 0
    for piece in _unpacked(response):
        read += len(piece)
        if read > _MOST_READ:
            raise TooLarge(f"the answer is longer than {_MOST_READ >> 20} MB; the rest was not read")
        yield piece


def _beginning(response: httpx.Response) -> bytes:
    raw = b""
    with contextlib.suppress(Unpackable):
        for piece in _unpacked(response):
            raw += piece
            if len(raw) > _MOST_ERROR:
                break
    return raw[:_MOST_ERROR]


def _unpacked(response: httpx.Response) -> Iterator[bytes]:
    return unpack(response.iter_raw(), response.headers.get("content-encoding", ""))


def _error_text(raw: bytes) -> str:
    try:
        return error_message(json.loads(raw))
    except (ValueError, RecursionError):
        return raw[:200].decode("utf-8", "replace").strip()
