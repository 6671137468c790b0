"""The command `hook`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from reflectloop.cli.render import answers
from reflectloop.hooks import answering
from reflectloop.hooks.clients import CLIENTS

_GIT = "git"
_LARGEST = 32 << 20  # bytes of input


@click.command()
@click.argument("event")
@click.option(
    "--client",
    type=click.Choice([*CLIENTS, _GIT]),
    default="claude",
    show_default=True,
    help="The program whose hook this is.",
)
@click.option("--limit", "limit_s", type=float, metavar="SECONDS", help="Answer within this time.")
@answers
def hook(event: str, client: str, limit_s: float | None, project_dir: Path) -> None:
    """Answer one hook of an agent: EVENT by the client's own name, its JSON on standard input.

    Prints the answer in the client's shape and nothing else; docs/hooks.md shows the settings of each client.

    \b
    Example: reflectloop hook Stop --client claude < input.json
    """
    if client == _GIT:
        _before_push(event, sys.stdin.buffer.read(_LARGEST).decode("utf-8", "replace"), project_dir)
        return
    answering.run(CLIENTS[client], event, project_dir, limit_s)


def _before_push(event: str, text: str, project_dir: Path) -> None:
    from reflectloop.hooks import push_gate
    from reflectloop.workspace.folders import open_project_dirs

    if event != "pre-push":
        raise click.UsageError("git has the hook pre-push here.")
    push_gate.refuse_unproven(open_project_dirs(project_dir), push_gate.read(text))
