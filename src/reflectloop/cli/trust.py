"""`trust`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from reflectloop.cli import render
from reflectloop.cli.render import common, say
from reflectloop.config import NAME
from reflectloop.engine import trust_command
from reflectloop.engine.trust_command import Asked, Settled
from reflectloop.errors import NeedsInput


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Agree without being asked; for scripts that have looked at the file.")
@click.option("--revoke", is_flag=True, help="Take the agreement for this project back.")
@click.option("--list", "list_all", is_flag=True, help="List the projects you trust.")
@common
def trust(yes: bool, revoke: bool, list_all: bool, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Show what the project's reflectloop.toml would allow, one line each, and agree to it.

    What a project brings may tighten your settings at once. What lowers walls, names programs, passes variables
    or says where keys go counts only after this, and only as long as it stays as it was shown.

    \b
    Example: reflectloop trust
    """
    if revoke and list_all:
        raise click.UsageError("Choose one: --revoke or --list.")
    if list_all:
        _list(as_json=as_json)
        return
    if revoke:
        _tell(trust_command.revoke(project_dir), as_json=as_json)
        return

    def agree(asked: Asked) -> bool:
        if not as_json:
            _show(asked)
        if yes:
            return True
        if as_json or not sys.stdin.isatty():
            keys = ", ".join(grant.key for grant in asked.grants)
            raise NeedsInput(
                f"a person must agree to what {NAME} would allow ({keys}), and there is nobody to ask",
                next_step="look at it, then: reflectloop trust --yes; for one command: --trust-project",
            )
        return click.confirm("Trust this project with it?", default=False, err=True)

    settled = trust_command.ask(project_dir, agree)
    _tell(settled, as_json=as_json)
    if settled.answer == "not trusted":
        sys.exit(NeedsInput.exit_code)


def _show(asked: Asked) -> None:
    say(f"{NAME} of {asked.root} would allow:")
    for grant in asked.grants:
        mark = "  (changed since you trusted it)" if grant.key in asked.changed else ""
        say(f"  {grant.key}: {' '.join(grant.words.split())}{mark}")


def _tell(settled: Settled, *, as_json: bool) -> None:
    asked = settled.asked
    if as_json:
        grants = [{"key": grant.key, "allows": grant.words} for grant in asked.grants]
        data: dict[str, Any] = {"project": str(asked.root), "answer": settled.answer, "grants": grants}
        render.answer("trust", {**data, "changed": list(asked.changed)})
        return
    say(f"{settled.answer}: {asked.root}")


def _list(*, as_json: bool) -> None:
    known = trust_command.known()
    if as_json:
        projects = [{"project": name, "at": entry.at, "keys": sorted(entry.digests)} for name, entry in known.items()]
        render.answer("trust", {"projects": projects})
        return
    for name, entry in known.items():
        say(f"{name}  ({entry.at})  {', '.join(sorted(entry.digests))}")
    if not known:
        say("no project is trusted")
