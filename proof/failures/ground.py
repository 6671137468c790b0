"""Where failures are caused: fresh folders, and servers on the loopback that answer with a status, hang, or hang up."""

from __future__ import annotations

import contextlib
import http.server
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from proof.failures.scenario import Scenario

_LATE_S = 60
_AS_NOBODY = 'setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp "$@"'
_WHEEL = """import sys, zipfile
name, version, *needs = sys.argv[1:]
python = [one.removeprefix("python") for one in needs if one.startswith("python")]
meta = [f"Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
meta += [f"Requires-Dist: {one}" for one in needs if not one.startswith("python")]
meta += [f"Requires-Python: {one}" for one in python]
info = f"{name}-{version}.dist-info"
with zipfile.ZipFile(f"{name}-{version}-py3-none-any.whl", "w") as file:
    file.writestr(f"{name}.py", f"version = {version!r}\\n")
    file.writestr(f"{info}/METADATA", "\\n".join(meta) + "\\n")
    file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    file.writestr(f"{info}/RECORD", f"{name}.py,,\\n{info}/METADATA,,\\n{info}/WHEEL,,\\n{info}/RECORD,,\\n")
"""


class Log(NamedTuple):
    scenario: Scenario
    text: str
    exit_code: int
    folder: str  # where it was caused


class _Answer(http.server.BaseHTTPRequestHandler):
    """The status is the first part of the path."""

    def do_GET(self) -> None:
        status = int(self.path.split("/")[1])
        body = b"{}\n"
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
        if status == 429:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_POST = do_PUT = do_HEAD = do_GET  # noqa: N815 - as the base class calls them

    def log_message(self, *_: object) -> None:
        return


def _serve(server: http.server.HTTPServer) -> int:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def _secured(folder: Path) -> int:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate),
        ],
        capture_output=True,
        check=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that refuse us are the point
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return _serve(server)


def _listening(*, hang_up: bool) -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0), backlog=50)

    def go() -> None:
        kept = []
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                if hang_up:
                    with contextlib.suppress(OSError):
                        connection.settimeout(1)
                        connection.recv(1 << 12)
                    connection.close()
                else:
                    kept.append(connection)

    threading.Thread(target=go, daemon=True).start()
    return listener


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Ground:
    """One place to cause failures in; another one has other paths, ports and times."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o755)
        tools = folder / "tools"
        tools.mkdir()
        (tools / "as-nobody").write_text(f"#!/bin/bash\nexec {_AS_NOBODY}\n")
        (tools / "wheel.py").write_text(_WHEEL)
        (tools / "as-nobody").chmod(0o755)
        (folder / "home").mkdir()
        self._listeners = [_listening(hang_up=False), _listening(hang_up=True)]
        plain = _serve(http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answer))
        self.env = self._environment(tools, plain, _secured(folder))

    def _environment(self, tools: Path, plain: int, secured: int) -> dict[str, str]:
        home, real = self.folder / "home", Path.home()
        hang, cut = (one.getsockname()[1] for one in self._listeners)
        ports = {"HTTP": plain, "TLS": secured, "HANG": hang, "CUT": cut, "DEAD": _closed_port()}
        return {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PY": sys.executable,
            "BASEPY": f"{sys.base_prefix}/bin/python3",
            "SYSPY": "/usr/bin/python3",
            "TOOLS": str(tools),
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(real / ".rustup")),
            "CARGO_HOME": str(home / ".cargo"),
            "PYENV_VERSION": "system",
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
            "npm_config_fetch_retries": "0",
            "npm_config_update_notifier": "false",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            **{name: str(port) for name, port in ports.items()},
        }

    def cause(self, scenario: Scenario) -> Log:
        folder = Path(tempfile.mkdtemp(prefix=f"{scenario.id}-", dir=self.folder))
        folder.chmod(0o777)
        if scenario.before:
            self._bash(folder, scenario.before)
        text, code = self._bash(folder, scenario.script)
        subprocess.run(["chmod", "-R", "u+rwX", folder], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
        return Log(scenario, text, code, str(folder))

    def _bash(self, folder: Path, script: str) -> tuple[str, int]:
        try:
            done = subprocess.run(
                ["bash", "-c", script],
                cwd=folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # no terminal to ask at
                timeout=_LATE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            return (late.output or b"").decode("utf-8", "replace"), 124
        code = done.returncode
        return done.stdout.decode("utf-8", "replace"), 128 - code if code < 0 else code


@contextlib.contextmanager
def ground(prefix: str = "reflectloop-failures-") -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix=prefix, dir="/var/tmp") as name:
        yield Ground(Path(name).resolve())
