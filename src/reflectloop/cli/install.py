"""The command `install`."""

from __future__ import annotations

from pathlib import Path

import click

from reflectloop.cli.render import Answer, Note, answers
from reflectloop.errors import InvalidInput
from reflectloop.hooks import client_files, codex_trust
from reflectloop.hooks import install as installing
from reflectloop.hooks import plugin as plugin_folder
from reflectloop.hooks.clients import CLIENTS
from reflectloop.hooks.fragments import SETTINGS, Scope


@click.command()
@click.argument("client", type=click.Choice(list(client_files.CLIENTS)))
@click.option("--user", is_flag=True, help="In your home folder, for all projects.")
@click.option("--plugin", is_flag=True, help="As one plugin folder, which the client installs by its own program.")
@click.option("--uninstall", is_flag=True, help="Take out exactly what was entered.")
@click.option("--check", is_flag=True, help="Tell whether everything is there, and every hook answers.")
@click.option("--trust", is_flag=True, help="Also let Codex trust the hooks, which it skips otherwise.")
@click.option("--dry-run", is_flag=True, help="Show the change and write nothing.")
@answers
def install(
    client: str,
    user: bool,
    plugin: bool,
    uninstall: bool,
    check: bool,
    trust: bool,
    dry_run: bool,
    project_dir: Path,
) -> Answer:
    """Enter reflectloop's hooks, skills and subagents into the folders of an agent's program.

    They go into this project, or with --user into your home folder. `agents` is the folder that many clients share
    (.agents/skills) and a block in AGENTS.md; `git` is the hook before a push; `autoloop` writes automation/autoloop.py
    and .sh, and with --user a systemd unit. Shows the change. What is there stays; --uninstall gives an untouched file
    its old bytes back.

    \b
    Example: reflectloop install claude --dry-run
    """
    if uninstall and check:
        raise click.UsageError("Name one of --uninstall and --check.")
    if user and plugin:
        raise click.UsageError("Name one of --user and --plugin.")
    if trust and (client != "codex" or plugin or uninstall or check or dry_run):
        raise click.UsageError("--trust is for `install codex`.")
    scope: Scope = "plugin" if plugin else "user" if user else "project"
    at = installing.place(client, scope, project_dir, Path.home())
    if check:
        return _check(at)
    plan = installing.plan_uninstall(at) if uninstall else installing.plan_install(at, installing.program())
    if not dry_run:
        installing.carry_out(at, plan)
    lines: list[str | Note] = [*plan.diff()]
    if trust:
        trusted = codex_trust.trust(at.root, installing.commands(client, installing.program()))
        lines.append(f"codex trusts: {', '.join(trusted)}")
    lines += [f"{name}: somebody edited it, so it stays" for name in plan.left]
    if not plan.changes:
        lines.append(f"{at.path} has it already")
    follow = None if uninstall or dry_run else _next(client, at)
    if not uninstall and not plugin and client in SETTINGS and SETTINGS[client].advice:
        lines.append(Note(SETTINGS[client].advice))
    data = {
        "path": str(at.path),
        "files": [str(edit.path) for edit in plan.edits if edit.changes],
        "changed": plan.changes and not dry_run,
        "diff": plan.diff(),
        "left": plan.left,
    }
    return Answer(data, [*lines, *([Note(f"next: {follow}")] if follow else [])], next_step=follow)


def _next(client: str, at: installing.Place) -> str:
    """Return the command that follows an installation."""
    if at.scope == "plugin":
        return plugin_folder.command_of_client(client, at.root)
    return f"{at.command} --check"


def _check(at: installing.Place) -> Answer:
    result = installing.check(at, installing.program())
    if result.faults:
        trust = " --trust" if any(codex_trust.SKIPS in fault for fault in result.faults) else ""
        raise InvalidInput("; ".join(result.faults), next_step=at.command + trust)
    seen = CLIENTS[at.client].seen if at.client in CLIENTS else "by its documentation"
    lines: list[str | Note] = [f"{at.path}: every file is there, and every hook answers (its form: {seen})"]
    lines += [f"{name}: somebody edited it, so it stays" for name in result.left]
    if at.client in SETTINGS and SETTINGS[at.client].advice and at.client != "codex":
        lines.append(Note(SETTINGS[at.client].advice))
    return Answer({"path": str(at.path), "faults": [], "left": result.left, "form": seen}, lines)
