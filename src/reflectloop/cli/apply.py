"""The command `apply`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import Answer, Note, answers, paint
from reflectloop.cli.status import ColouredPatch
from reflectloop.commands import apply_run
from reflectloop.commands.apply_run import ApplyResult, Offer


@click.command()
@click.argument("run", required=False)
@click.option("--commit", is_flag=True, help="Also commit the change, alone, on the current branch.")
@click.option("--branch", metavar="NAME", help="Commit the change on a new branch NAME; your files are not changed.")
@click.option("--each-step", is_flag=True, help="Make one commit for each step, with the step's title.")
@click.option("--message", "-m", help="The commit message (default: the plan's title).")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@answers
def apply(
    run: str | None,
    commit: bool,
    branch: str | None,
    each_step: bool,
    message: str | None,
    yes: bool,
    project_dir: Path,
) -> Answer:
    """Apply the change of RUN to your working tree (default: the latest run).

    If your tree has changed since, the change is merged three ways; on a conflict nothing is changed.
    Your index, stash and other branches are not touched. Commits are made without running your hooks.

    \b
    Example: reflectloop apply --branch fix-pager
    """
    _check_options(commit=commit, branch=branch, each_step=each_step, message=message)

    def agree(offer: Offer) -> bool:
        if yes or render.wants_json() or not sys.stdin.isatty():
            return True
        with ColouredPatch() as patch:
            offer.stream(patch.take)
        count = len(offer.touched)
        if branch:
            return render.confirm(f"Commit this change of {count} file(s) on the branch {branch}?", default=True)
        return render.confirm(f"Apply this to {count} file(s)?", default=True)

    result = apply_run.apply(
        project_dir, run, commit=commit, branch=branch, message=message, agree=agree, each_step=each_step
    )
    return _answer(result) if result else Answer(lines=[Note("nothing was changed")], exit_code=1)


def _check_options(*, commit: bool, branch: str | None, each_step: bool, message: str | None) -> None:
    if branch is not None and not branch.strip():
        raise click.UsageError("--branch needs a name.")
    if commit and branch:
        raise click.UsageError("--branch makes a commit anyway; leave --commit out.")
    if each_step and not (commit or branch):
        raise click.UsageError("--each-step needs --commit or --branch.")
    if message and not (commit or branch):
        raise click.UsageError("--message needs --commit or --branch.")


def _answer(result: ApplyResult) -> Answer:
    files = [Note(f"  {file.change:13} {file}") for file in result.touched]
    place = f" as {result.commit[:12]} on {result.ref}" if result.commit else ""
    data = {
        "run_id": result.run_id,
        "commit": result.commit,
        "ref": result.ref,
        "touched_files": [file._asdict() for file in result.touched],
        "verified": result.verified,
    }
    state = "" if result.verified else ", not verified by any check on a sealed copy"
    line = Note(f"{paint('green', 'OK')}: {result.run_id} applied{place}{state}")
    return Answer(data, [*files, line], verified=result.verified)
