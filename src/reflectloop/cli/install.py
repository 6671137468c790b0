"""The command `install`."""

from __future__ import annotations

from pathlib import Path

import click

from reflectloop.cli.render import Answer, Note, answers
from reflectloop.errors import InvalidInput
from reflectloop.hooks import codex_trust
from reflectloop.hooks import install as installing
from reflectloop.hooks.clients import CLIENTS
from reflectloop.hooks.fragments import SETTINGS, Scope


@click.command()
@click.argument("client", type=click.Choice(list(SETTINGS)))
@click.option("--user", is_flag=True, help="In your home folder, for all projects (default: in this project).")
@click.option("--uninstall", is_flag=True, help="Take out exactly what was entered.")
@click.option("--check", is_flag=True, help="Tell whether every hook is there and answers.")
@click.option("--trust", is_flag=True, help="Also let Codex trust the hooks, which it skips otherwise.")
@click.option("--dry-run", is_flag=True, help="Show the change and write nothing.")
@answers
def install(
    client: str, user: bool, uninstall: bool, check: bool, trust: bool, dry_run: bool, project_dir: Path
) -> Answer:
    """Enter reflectloop's hooks into the settings of an agent's program.

    Shows the change. What is there stays; --uninstall gives an untouched file its old bytes back.

    \b
    Example: reflectloop install claude --dry-run
    """
    if sum((uninstall, check)) > 1:
        raise click.UsageError("Name one of --uninstall and --check.")
    if trust and (client != "codex" or uninstall or check or dry_run):
        raise click.UsageError("--trust is for `install codex`.")
    scope: Scope = "user" if user else "project"
    at = installing.place(client, scope, project_dir, Path.home())
    if check:
        return _check(at)
    left: list[str] = []
    if uninstall:
        edit, left = installing.plan_uninstall(at)
    else:
        edit = installing.plan_install(at, installing.program())
    if not dry_run and uninstall:
        installing.uninstall(at, edit)
    elif not dry_run:
        installing.install(at, installing.program(), edit)
    lines: list[str | Note] = [*edit.diff()]
    if trust:
        trusted = codex_trust.trust(at.root, installing.commands(client, installing.program()))
        lines.append(f"codex trusts: {', '.join(trusted)}")
    lines += [f"{name}: somebody edited it, so it stays" for name in left]
    if not edit.changes:
        lines.append(f"{at.path} has it already")
    follow = None if uninstall or dry_run else f"reflectloop install {client}{' --user' if user else ''} --check"
    if not uninstall and SETTINGS[client].advice:
        lines.append(Note(SETTINGS[client].advice))
    data = {"path": str(at.path), "changed": edit.changes and not dry_run, "diff": edit.diff(), "left": left}
    return Answer(data, [*lines, *([Note(f"next: {follow}")] if follow else [])], next_step=follow)


def _check(at: installing.Place) -> Answer:
    faults = installing.check(at, installing.program())
    if faults:
        command = f"reflectloop install {at.client}{' --user' if at.scope == 'user' else ''}"
        command += " --trust" if any(codex_trust.SKIPS in fault for fault in faults) else ""
        raise InvalidInput("; ".join(faults), next_step=command)
    seen = CLIENTS[at.client].seen
    lines: list[str | Note] = [f"{at.path}: every hook is there and answers (its form: {seen})"]
    if SETTINGS[at.client].advice and at.client != "codex":
        lines.append(Note(SETTINGS[at.client].advice))
    return Answer({"path": str(at.path), "faults": [], "form": seen}, lines)
