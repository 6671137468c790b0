"""The command `mcp`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click

from reflectloop.cli.render import answers, echo
from reflectloop.errors import InvalidInput
from reflectloop.terms import install_extra


@click.command()
@click.option("--http", "port", type=click.IntRange(1, 65535), metavar="PORT", help="Serve HTTP on this machine.")
@click.option("--new-token", is_flag=True, help="Make a new token for HTTP; the old one is worth nothing then.")
@answers
def mcp(port: int | None, new_token: bool, project_dir: Path) -> None:
    """Serve this project to an agent by the Model Context Protocol, over standard input and output or HTTP.

    Over HTTP each request needs the token in a private file of yours, whose path is printed; docs/mcp.md shows the
    settings of each client.

    \b
    Example: reflectloop mcp --http 8848
    """
    if importlib.util.find_spec("mcp") is None:
        raise InvalidInput("this needs the package mcp", next_step=install_extra("mcp"))
    from reflectloop.mcp import http, stdio
    from reflectloop.mcp.server import make_server

    token = http.token(renew=new_token) if port or new_token else ""
    path = http.token_file()
    if new_token and port is None:
        echo(f"a new token is in {path}", err=True)
        return
    server = make_server(project_dir, local=port is None)
    if port is None:
        stdio.serve(server)
        return
    place = http.listen(port)
    address = f"http://{http.HOST}:{port}/mcp"
    echo(f"{address} is served; the token is in {path}", err=True)
    http.serve(server, place, token)
