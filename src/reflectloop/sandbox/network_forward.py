"""Lets a sandboxed program connect to the listed addresses only, through the engine's process.

The program has a separate network without a route outside. It connects to listening sockets that the engine answers:
the port of a loopback server leads to that server, and a proxy's port to the listed hosts. The engine resolves names
itself. Nothing is stored in the file system, so nothing is left behind however the engine ends.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import ipaddress
import os
import select
import socket
import ssl
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import SplitResult, unquote, urlsplit

from reflectloop.errors import SandboxCreateFailed
from reflectloop.sandbox import inner_proxy
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.system import bubblewrap, landlock, process
from reflectloop.system.bubblewrap import Namespaces
from reflectloop.system.patterns import lazy

PROXY_VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_FIRST_FREE_PORT = 1024  # a program without privileges cannot listen below it
_PROXY_PORT = 47128
_MOST_CONNECTIONS = 128
_MOST_REFUSALS = 20  # reported
_LARGEST_HEAD = 1 << 15  # bytes
_CHUNK = 1 << 16
_CONNECT_S = 20.0
_HEAD_S = 60.0
_FLUSH_S = 5.0
_SHORT_OF_DESCRIPTORS_S = 0.1
_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = lazy(r"[A-Za-z0-9_.:-]{1,253}")
_NOT_PASSED_ON = (b"proxy-", b"connection:", b"keep-alive:")


class HostPort(NamedTuple):
    """A host name or address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return False

    @property
    def is_direct(self) -> bool:
        """Return True if the program reaches it at its own loopback under the same address."""
        return self.is_loopback and self.port >= _FIRST_FREE_PORT


def parse_address(url: str, default_port: int = 443) -> HostPort:
    """Parse a URL, `host` or `host:port`, or raise ValueError."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme, default_port)
    if not _HOST.fullmatch(host) or parts.username is not None:
        raise ValueError(f"{url!r} names no host")
    return HostPort(host, port)


class Forward(NamedTuple):
    """The addresses that a program can reach; empty means none."""

    places: tuple[HostPort, ...] = ()
    by_proxy: bool = False  # True: loopback servers are reached only by the proxy, too

    @property
    def direct(self) -> dict[int, HostPort]:
        """Return the addresses that the program reaches at its own loopback, by port."""
        return {} if self.by_proxy else {place.port: place for place in self.places if place.is_direct}

    @property
    def proxied(self) -> frozenset[HostPort]:
        return frozenset(self.places) - frozenset(self.direct.values())

    @property
    def proxy_port(self) -> int:
        """Return a port that no direct address uses."""
        return next(port for port in range(_PROXY_PORT, _PROXY_PORT + len(self.places) + 1) if port not in self.direct)


def has_own_network(wall: IsolationLevel) -> bool:
    """Return True if a command at this level can have a separate network."""
    return wall.by == "bubblewrap" and bubblewrap.refusal(Namespaces(network=True, own_user=True)) is None


def refuse_unrestricted(wall: IsolationLevel, forward: Forward) -> None:
    """Raise SandboxCreateFailed if this machine cannot restrict a program to these addresses."""
    if not forward.places or has_own_network(wall):
        return  # no network at all needs no namespace
    if wall.by == "bubblewrap":
        why = bubblewrap.refusal(Namespaces(network=True, own_user=True))
    elif landlock.version() < landlock.PORTS_SINCE:
        why = "bubblewrap does not work, and this kernel's Landlock does not know ports (Linux 6.7 does)"
    else:
        return
    raise SandboxCreateFailed(
        f"an agent's network cannot be restricted to its model's address here: {why}",
        next_step='reflectloop doctor; or network = "host" under [agents.NAME] of your own settings',
        missing=("network:model",),
    )


class Tunnel:
    """The engine's end of one program's connections, in a separate thread, from its start to `close`."""

    def __init__(self, forward: Forward, caller: Mapping[str, str], *, namespaced: bool) -> None:
        self._forward, self._caller, self.namespaced = forward, caller, namespaced
        self._refused: dict[str, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop = process.Cancel()
        self._closed = False
        self._script = -1
        self._listener: socket.socket | None = None
        self._control: tuple[socket.socket, socket.socket] | None = None
        if namespaced and forward.places:
            self._control = socket.socketpair()
            self._script = os.memfd_create("doorway")
            os.write(self._script, Path(inner_proxy.__file__).read_bytes())
        elif forward.proxied:
            self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, name="forward", daemon=True)

    @property
    def inherited(self) -> list[int]:
        """Return the descriptors that the command must inherit."""
        return [self._script, self._control[1].fileno()] if self._control else []

    @property
    def ports(self) -> tuple[int, ...]:
        """Return the machine's ports that the program may connect to, if it has no separate network."""
        return (*self._forward.direct, *([self._listener.getsockname()[1]] if self._listener else []))

    def command(self, argv: list[str]) -> list[str]:
        """Return the command that opens the ports and then becomes `argv`."""
        if not self._control:
            return argv
        ports = [*self._forward.direct, *([self._forward.proxy_port] if self._forward.proxied else [])]
        script, control = self.inherited
        launcher = [interpreter(), "-I", "-S", f"/proc/self/fd/{script}", str(control)]
        return [*launcher, ",".join(map(str, ports)), *argv]

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return `env` with this proxy in place of any other."""
        out = {name: value for name, value in env.items() if name.upper() not in PROXY_VARIABLES}
        if self._forward.proxied:
            port = self._forward.proxy_port if self.namespaced else self.ports[-1]
            for name in PROXY_VARIABLES[:3]:
                out[name] = out[name.lower()] = f"http://127.0.0.1:{port}"
            if not any(place.is_loopback for place in self._forward.proxied):
                out["NO_PROXY"] = out["no_proxy"] = "localhost,127.0.0.1,::1"
        return out

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self) -> None:
        """Start answering connections; the command has started and inherited its descriptors."""
        if self._control:
            self._control[1].close()
        if self._control or self._listener:
            self._thread.start()

    def close(self) -> tuple[str, ...]:
        """End every connection, and return the addresses that were refused."""
        if not self._closed:
            self._closed = True
            self._stop.set()
            if self._thread.is_alive():
                self._thread.join()
            self._stop.close()
            if self._script >= 0:
                os.close(self._script)
            for end in (*(self._control or ()), *([self._listener] if self._listener else [])):
                end.close()
        return tuple(self._refused)

    # In the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        listeners = list(self._receive_listeners()) if self._control else []
        if self._listener:
            listeners.append(self._listener)
        if listeners:
            asyncio.run(self._serve(listeners))

    def _receive_listeners(self) -> Iterator[socket.socket]:
        """Wait for the sockets from the inner proxy; there are none if it failed or was ended."""
        if not self._control:
            return
        control = self._control[0]
        ready = select.select([control.fileno(), self._stop.reader], [], [])[0]
        if control.fileno() in ready:
            for descriptor in socket.recv_fds(control, 1, 2 * (len(self._forward.places) + 1), socket.MSG_CMSG_CLOEXEC)[
                1
            ]:
                yield socket.socket(fileno=descriptor)

    async def _serve(self, listeners: list[socket.socket]) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._stop.reader, stopped.set)
        try:
            for listener in listeners:
                listener.setblocking(False)
                self._track(loop.create_task(self._accept(listener)))
            await stopped.wait()
        finally:
            loop.remove_reader(self._stop.reader)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)  # lets aborted transports close
            for listener in listeners:
                listener.close()

    def _track(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        target = self._forward.direct.get(listener.getsockname()[1]) if self.namespaced else None
        room = asyncio.Semaphore(_MOST_CONNECTIONS)
        while True:
            await room.acquire()
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # too few descriptors
                room.release()
                await asyncio.sleep(_SHORT_OF_DESCRIPTORS_S)
                continue
            task = loop.create_task(self._answer(connection, target))
            task.add_done_callback(functools.partial(_release, room, connection))
            self._track(task)

    async def _answer(self, connection: socket.socket, target: HostPort | None) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=_LARGEST_HEAD)
        try:
            if target:
                await self._join(target, b"", reader, writer)
            else:
                await self._answer_proxied(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # the program sees its connection end, as without a proxy
        finally:
            await _finish(writer)

    async def _answer_proxied(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_S)
        try:
            request = _ProxyRequest.of(head)
        except ValueError as fault:
            await _refuse(writer, "400 Bad Request", f"{fault}")
            return
        if request.place not in self._forward.proxied:
            if len(self._refused) < _MOST_REFUSALS:
                self._refused[str(request.place)] = None
            await _refuse(writer, "403 Forbidden", f"{request.place} is not the address of this agent's model")
            return
        if not request.head:
            try:
                upstream = await self._connect(request.place)
            except OSError as fault:
                await _refuse(writer, "502 Bad Gateway", f"no connection to {request.place}: {fault}")
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _splice((reader, writer), upstream)
        else:
            await self._join(request.place, request.head, reader, writer)

    async def _join(
        self, place: HostPort, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        upstream = await self._connect(place)
        upstream[1].write(first)
        await _splice((reader, writer), upstream)

    async def _connect(self, place: HostPort) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a listed address, through the user's proxy if there is one."""
        proxy = None if place.is_loopback else self._proxy_for(place)
        try:
            async with asyncio.timeout(_CONNECT_S):
                if proxy is None or not proxy.hostname:
                    return await asyncio.open_connection(place.host, place.port, limit=_CHUNK)
                return await _connect_by(proxy, place)
        except TimeoutError as fault:
            raise OSError("it does not answer") from fault

    def _proxy_for(self, place: HostPort) -> SplitResult | None:
        variables = {name.lower(): value for name, value in self._caller.items() if value}
        address = variables.get("https_proxy") or variables.get("all_proxy")
        excluded = [
            pattern.strip().lstrip("*.") for pattern in variables.get("no_proxy", "").split(",") if pattern.strip()
        ]
        if not address or any(
            pattern in ("", place.host) or place.host.endswith(f".{pattern}") for pattern in excluded
        ):
            return None
        return urlsplit(address if "//" in address else f"http://{address}")


class _ProxyRequest(NamedTuple):
    """A request to the proxy: for a tunnel, or a plain request whose head is `head`."""

    place: HostPort
    head: bytes = b""

    @classmethod
    def of(cls, raw: bytes) -> _ProxyRequest:
        line, *fields = raw[:-4].split(b"\r\n")
        parts = line.decode("ascii", "replace").split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):  # noqa: PLR2004 - method, target, version
            raise ValueError("no request to a proxy")
        method, target, _ = parts
        if method == "CONNECT":
            return cls(parse_address(target))
        if not target.startswith("http://"):
            raise ValueError("no request to a proxy")
        url = urlsplit(target)
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        passed = [field for field in fields if not field.lower().startswith(_NOT_PASSED_ON)]
        head = b"\r\n".join([f"{method} {path} HTTP/1.1".encode(), *passed, b"Connection: close", b"", b""])
        return cls(parse_address(target), head)


async def _connect_by(proxy: SplitResult, place: HostPort) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    secure = ssl.create_default_context() if proxy.scheme == "https" else None
    port = proxy.port or _DEFAULT_PORTS.get(proxy.scheme, 80)
    reader, writer = await asyncio.open_connection(proxy.hostname, port, ssl=secure, limit=_CHUNK)
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.username:
        credentials = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(credentials.encode()).decode()}")
    writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as fault:
        writer.transport.abort()
        raise OSError("the proxy closed the connection") from fault
    if head.split(b" ", 2)[1:2] != [b"200"]:
        writer.transport.abort()
        answer = head.splitlines()[0][:100].decode("ascii", "replace")
        raise OSError(f"the proxy says {answer}")
    return reader, writer


def _release(room: asyncio.Semaphore, connection: socket.socket, _: asyncio.Task[None]) -> None:
    connection.close()  # the task closed it, unless it was cancelled before it started
    room.release()


async def _refuse(writer: asyncio.StreamWriter, status: str, message: str) -> None:
    text = f"reflectloop: {message}\n".encode("utf-8", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + text)
    await writer.drain()
    writer.write_eof()


_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _splice(left: _Ends, right: _Ends) -> None:
    """Copy bytes in both directions until both sides end or one fails, with bounded buffers."""
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_pump(left[0], right[1]))
            both.create_task(_pump(right[0], left[1]))
    except* OSError:
        pass
    finally:
        await _finish(right[1])


async def _finish(writer: asyncio.StreamWriter) -> None:
    """Close after the written data is sent, with a time limit; abort at once if the task is cancelled."""
    task = asyncio.current_task()
    if task and task.cancelling():
        writer.transport.abort()
        return
    writer.close()
    try:
        async with asyncio.timeout(_FLUSH_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        pass
    finally:
        writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def interpreter() -> str:
    """Return the path of this Python with links resolved."""
    return os.path.realpath(sys.executable)


def needed() -> tuple[Path, ...]:
    """Return the paths that the inner proxy needs inside the sandbox: the interpreter and its library."""
    return (Path(interpreter()), Path(os.__file__).resolve().parent)
