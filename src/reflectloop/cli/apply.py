"""`apply` and `gc`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, say
from reflectloop.cli.status import ColouredPatch
from reflectloop.engine import apply_run
from reflectloop.engine.apply_run import Offer


@click.command()
@click.argument("run", required=False)
@click.option("--commit", is_flag=True, help="Also commit it, alone, on the branch you are on.")
@click.option("--branch", metavar="NAME", help="Commit it on a new branch NAME; your files stay as they are.")
@click.option("--each-step", is_flag=True, help="A commit for each step, with the step's title.")
@click.option("--message", "-m", help="The commit's message (default: the plan's title).")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
def apply(
    run: str | None,
    commit: bool,
    branch: str | None,
    each_step: bool,
    message: str | None,
    yes: bool,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Put the change of RUN onto your working tree (default: the latest run).

    Where your tree moved on since, the change is merged three ways; on a conflict nothing is touched.
    Your index, stash and other branches stay as they are. Commits are made without running your hooks.

    \b
    Example: reflectloop apply --branch fix-pager
    """
    if branch is not None and not branch.strip():
        raise click.UsageError("--branch needs a name.")
    if commit and branch:
        raise click.UsageError("--branch commits by itself; leave --commit out.")
    if each_step and not (commit or branch):
        raise click.UsageError("--each-step goes with --commit or --branch.")
    if message and not (commit or branch):
        raise click.UsageError("--message goes with --commit or --branch.")

    def agree(offer: Offer) -> bool:
        if yes or as_json or not sys.stdin.isatty():
            return True
        with ColouredPatch() as shown:
            offer.stream(shown.take)
        return click.confirm(f"Apply this to {len(offer.touched)} file(s)?", default=True, err=True)

    done = apply_run.apply(
        project_dir, run, commit=commit, branch=branch, message=message, agree=agree, each_step=each_step
    )
    if done is None:
        say("nothing was changed", err=True)
        sys.exit(1)
    if as_json:
        data = {"run_id": done.run_id, "commit": done.commit, "ref": done.ref}
        render.answer("apply", data | {"touched_files": [entry._asdict() for entry in done.touched]})
        return
    for entry in done.touched:
        say(f"  {entry.change:13} {entry}", err=True)
    where = f" as {done.commit[:12]} on {done.ref}" if done.commit else ""
    say(f"{colours()('green', 'OK')}: {done.run_id} applied{where}", err=True)


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also the failed workspaces kept to be looked at.")
@common
def gc(everything: bool, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Remove workspaces that a crash left, and failed ones beyond those to be kept.

    \b
    Example: reflectloop gc --all
    """
    done = apply_run.gc(project_dir, everything=everything)
    if as_json:
        render.answer("gc", done._asdict())
    else:
        say(f"{done.workspaces} workspace(s) removed, {render.size(done.freed)}")
