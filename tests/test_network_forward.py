"""What a boxed command can reach by way of the engine: the places it was given, and nothing else of the machine."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_call import python
from fileops_workspace import Place, place_in
from model import Model, say
from reflectloop.errors import SandboxCreateFailed
from reflectloop.sandbox import network_forward
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.sandbox.network_forward import Forward, Tunnel, parse_address
from reflectloop.sandbox.sandbox import Box, CommandResult, SandboxCommand
from reflectloop.system import bubblewrap, landlock
from reflectloop.system.bubblewrap import Namespaces
from reflectloop.terms import Isolation
from support import Repo

FULL, FS = IsolationLevel(Isolation.FULL, "bubblewrap"), IsolationLevel(Isolation.FS, "bubblewrap")
LANDLOCK = IsolationLevel(Isolation.FS, "landlock")
_NO_NAMESPACE = bubblewrap.refusal(Namespaces(network=True, own_user=True))
_NO_PORTS = landlock.refusal() or (landlock.version() < landlock.PORTS_SINCE and "its Landlock knows no ports")
pytestmark = pytest.mark.skipif(_NO_NAMESPACE is not None, reason=f"no network namespace: {_NO_NAMESPACE}")
needs_ports = pytest.mark.skipif(bool(_NO_PORTS), reason=f"no Landlock: {_NO_PORTS}")
WALLS = [FULL, FS, pytest.param(LANDLOCK, marks=needs_ports)]

ASK = """
import json, socket, sys, urllib.request
def tried(action):
    try:
        return str(action())
    except OSError as fault:
        return "no"
def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as one:
        one.connect(address)
        return "connected"
"""


@contextlib.contextmanager
def talker() -> Iterator[int]:
    """A service of the user's on loopback that is no model."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline():
                self.wfile.write(line.upper())

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 256  # with 5, the default, a busy machine resets connections

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def box_of(place: Place, wall: IsolationLevel) -> Box:
    return dataclasses.replace(place.hands.box, wall=wall, readable=network_forward.needed())


def ran(
    place: Place, tmp_path: Path, code: str, reach: Forward | None, wall: IsolationLevel = FULL
) -> tuple[CommandResult, str]:
    """What a program that may reach this ends with, and what it prints."""
    log = tmp_path / "log"
    order = SandboxCommand(python(place, "program.py", ASK + code), place.repo, log, 30.0, forward=reach)
    return box_of(place, wall).run(order), log.read_text()


@pytest.mark.parametrize("wall", WALLS, ids=str)
def test_a_loopback_server_is_reached_by_its_own_address_and_nothing_else_is(
    place: Place, tmp_path: Path, wall: IsolationLevel
) -> None:
    name = f"reflectloop-test-{os.getpid()}-{wall.by}-{wall.level}"
    with Model([say("hello")]) as model, talker() as other, socket.socket(socket.AF_UNIX) as hidden:
        hidden.bind(f"\0{name}")
        hidden.listen()
        code = f"""
seen = {{
    "model": tried(lambda: urllib.request.urlopen("{model.url}/v1/models").status),
    "other": tried(lambda: connect(socket.AF_INET, ("127.0.0.1", {other}))),
    "abstract": tried(lambda: connect(socket.AF_UNIX, chr(0) + "{name}")),
    "outside": tried(lambda: connect(socket.AF_INET, ("192.0.2.1", 443))),
    "datagram": tried(lambda: connect(socket.AF_INET, ("192.0.2.1", 53), socket.SOCK_DGRAM)),
}}
print(json.dumps(seen))
"""
        done, text = ran(place, tmp_path, code, Forward((parse_address(model.url),)), wall)
    assert done.exit_code == 0, text
    assert json.loads(text) == {
        "model": "200",
        "other": "no",
        "abstract": "no",
        "outside": "no",
        "datagram": "no",
    }


@pytest.mark.parametrize("wall", WALLS, ids=str)
def test_an_empty_forward_reaches_nothing(place: Place, tmp_path: Path, wall: IsolationLevel) -> None:
    with talker() as port:
        code = f'print(tried(lambda: connect(socket.AF_INET, ("127.0.0.1", {port}))))'
        assert ran(place, tmp_path, code, Forward(), wall)[1] == "no\n"


@pytest.mark.parametrize("wall", WALLS, ids=str)
def test_the_proxy_connects_to_listed_hosts_and_reports_others(
    place: Place, tmp_path: Path, wall: IsolationLevel
) -> None:
    with Model([say("hello")]) as model, talker() as other:
        talking, asked = parse_address(f"127.0.0.1:{other}"), parse_address(model.url)
        code = f"""
import os
from urllib.parse import urlsplit
proxy = urlsplit(os.environ["HTTPS_PROXY"])
def through(target, word=b""):
    with socket.create_connection((proxy.hostname, proxy.port)) as one:
        one.sendall(b"CONNECT %s HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" % target.encode())
        stream = one.makefile("rb")
        status = stream.readline().split()[1].decode()
        while stream.readline().strip():
            pass
        if word:
            one.sendall(word)
            status += stream.readline().decode()
        return status
print(json.dumps([
    through("{talking}", b"hello\\n"),
    through("evil.example:443"),
    through("127.0.0.1:1"),
    through("EVIL.example.:443"),
    through("x" * 400),
    tried(lambda: urllib.request.urlopen("{model.url}/v1/models").status),
    tried(lambda: connect(socket.AF_INET, ("127.0.0.1", {other}))),
    os.environ["https_proxy"] == os.environ["ALL_PROXY"] == os.environ["http_proxy"],
]))
"""
        done, text = ran(place, tmp_path, code, Forward((talking, asked), by_proxy=True), wall)
    assert done.exit_code == 0, text
    assert json.loads(text) == ["200HELLO\n", "403", "403", "403", "400", "200", "no", True]
    assert done.refused == ("evil.example:443", "127.0.0.1:1")


def test_the_program_keeps_its_exit_code_its_signals_and_no_descriptor_of_ours(place: Place, tmp_path: Path) -> None:
    reach = Forward((parse_address("http://127.0.0.1:4000"),))
    code = """
import os, signal
print(sorted(int(name) for name in os.listdir("/proc/self/fd"))[:4], os.getpid() == os.getsid(0))
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("SigIgn")])
raise SystemExit(7)
"""
    done, text = ran(place, tmp_path, "", reach)
    assert (done.exit_code, text) == (0, "")
    alone, bare = ran(place, tmp_path, code, None)
    done, seen = ran(place, tmp_path, code, reach)
    assert (alone.exit_code, done.exit_code) == (7, 7)
    assert seen.splitlines()[1] == bare.splitlines()[1]  # signals
    assert seen.startswith("[0, 1, 2, 3] True")  # the last one lists the others
    done, _ = ran(place, tmp_path, f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})", reach)
    assert done.exit_code == 128 + signal.SIGKILL
    missing = box_of(place, FULL).run(
        SandboxCommand(("no-such-program",), place.repo, tmp_path / "log", 30.0, forward=reach)
    )
    assert missing.exit_code == 127
    assert "no-such-program: No such file" in (tmp_path / "log").read_text()


def test_many_parallel_and_large_connections_are_answered_completely(place: Place, tmp_path: Path) -> None:
    with talker() as port:
        code = f"""
import threading
line = b"a" * (4 << 20) + b"\\n"
def talk(results):
    with socket.create_connection(("127.0.0.1", {port})) as one:
        threading.Thread(target=one.sendall, args=(line,)).start()
        results.append(one.makefile("rb").readline() == line.upper())
results = []
threads = [threading.Thread(target=talk, args=(results,)) for _ in range(20)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(results.count(True))
waiting = [socket.create_connection(("127.0.0.1", {port})) for _ in range(200)]
print(len(waiting))
"""
        done, text = ran(place, tmp_path, code, Forward((parse_address(f"127.0.0.1:{port}"),)))
    assert (done.exit_code, text) == (0, "20\n200\n")


def test_the_users_proxy_is_used() -> None:
    asked: list[str] = []

    class Proxy(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked.append(self.rfile.readline().decode().strip())
            while line := self.rfile.readline().strip():
                asked.append(line.decode())
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            self.wfile.write(self.rfile.readline().upper())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        caller = {"HTTPS_PROXY": f"http://me:word@127.0.0.1:{server.server_address[1]}", "NO_PROXY": "other.example"}
        with Tunnel(Forward((parse_address("https://models.example"),)), caller, namespaced=False) as tunnel:
            tunnel.begin()
            with socket.create_connection(("127.0.0.1", tunnel.ports[-1])) as one:
                one.sendall(b"CONNECT models.example:443 HTTP/1.1\r\n\r\nhello\n")
                answer = one.makefile("rb").read()
        server.shutdown()
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\nHELLO\n"
    assert asked[0] == "CONNECT models.example:443 HTTP/1.1"
    assert any(line.startswith("Proxy-Authorization: Basic ") for line in asked)


def test_nothing_starts_if_the_network_cannot_be_restricted(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 3)
    with pytest.raises(SandboxCreateFailed, match="cannot be restricted to its model's address"):
        ran(place, tmp_path, "print('ran')", Forward((parse_address("http://127.0.0.1:4000"),)), LANDLOCK)


def test_without_a_network_namespace_all_connections_can_still_be_blocked(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "refusal", lambda apart: "no network namespaces" if apart.network else None)
    with talker() as port:
        code = f'print(tried(lambda: connect(socket.AF_INET, ("127.0.0.1", {port}))))'
        assert ran(place, tmp_path, code, Forward(), FS)[1] == "no\n"
        with pytest.raises(SandboxCreateFailed, match="no network namespaces"):
            ran(place, tmp_path, code, Forward((parse_address(f"127.0.0.1:{port}"),)), FS)


@needs_ports
def test_landlock_covers_every_remaining_connection(repo: Repo, tmp_path: Path) -> None:
    """Datagrams, multipath TCP, SCTP and connections that begin with data pass by its rule for ports."""
    with place_in(repo, tmp_path) as place, talker() as other:
        code = f"""
def fast():
    with socket.socket() as one:
        one.sendto(b"hello", 0x20000000, ("127.0.0.1", {other}))
        return "sent"
def opened(kind, protocol):
    with socket.socket(socket.AF_INET, kind, protocol) as one:
        one.connect(("127.0.0.1", {other}))
        return "connected"
print(tried(fast), *[tried(lambda: opened(*one)) for one in ((1, 262), (1, 132), (2, 0), (3, 255), (1, 6))])
"""
        done, text = ran(place, tmp_path, code, Forward((parse_address("http://127.0.0.1:4000"),)), LANDLOCK)
        assert (done.exit_code, text) == (0, "no no no no no no\n")
        allowed = ran(place, tmp_path, code, Forward((parse_address(f"http://127.0.0.1:{other}"),)), LANDLOCK)
        assert allowed[1] == "no no no no no connected\n"
