"""Serves clients of this machine over streamable HTTP; every request needs the user's token."""

from __future__ import annotations

import hmac
import secrets as chance
import socket
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from reflectloop.errors import InvalidInput, NotTrusted
from reflectloop.trust import private_file

HOST = "127.0.0.1"
_LARGEST = 16 << 20  # bytes of a request
_SHORTEST = 32  # characters of a token
_MOST_SESSIONS = 1000
_NEXT = "send the header Authorization: Bearer TOKEN"


def token_file() -> Path:
    return private_file.state_folder() / "mcp-token"


def token(*, renew: bool = False) -> str:
    """Return the user's token; make one if there is none, or if it is to be renewed."""
    place = token_file()

    def refuse(why: str) -> NotTrusted:
        return NotTrusted(f"the token {place} is not accepted: {why}", next_step="reflectloop mcp --new-token")

    raw = None if renew else private_file.read(place, None, refuse)
    text = raw.decode("ascii", "replace").strip() if raw else ""
    if len(text) < _SHORTEST:
        text = chance.token_urlsafe(32)
        private_file.write(place, text + "\n", "the token", refuse)
    return text


class TokenGuard:
    """Lets a request through if it carries the token."""

    def __init__(self, app: ASGIApp, expected: str) -> None:
        self._app, self._expected = app, expected.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._carries(scope):
            await self._app(scope, receive, send)
            return
        body = {"error": {"code": "NOT_AUTHENTICATED", "message": "the token is missing or wrong", "next": _NEXT}}
        await JSONResponse(body, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)

    def _carries(self, scope: Scope) -> bool:
        values = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(values) != 1:
            return False
        scheme, _, given = values[0].partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._expected)


def make_app(server: MCPServer[Any], expected: str) -> ASGIApp:
    """Return the application: the SDK's, which checks Host and Origin, behind the token."""
    app = server.streamable_http_app(host=HOST, max_request_body_size=_LARGEST, max_sessions=_MOST_SESSIONS)
    return TokenGuard(app, expected)


def listen(port: int) -> socket.socket:
    """Return a socket on a port of this machine; raise InvalidInput if the port is taken."""
    try:
        return socket.create_server((HOST, port), backlog=256)
    except OSError as fault:
        why = f"port {port} cannot be used: {fault.strerror}"
        raise InvalidInput(why, next_step="reflectloop mcp --http with another port") from fault


def serve(server: MCPServer[Any], place: socket.socket, expected: str) -> None:
    """Serve until the process is told to end."""
    config = uvicorn.Config(make_app(server, expected), log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[place])
