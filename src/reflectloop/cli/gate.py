"""`gate`: a change and its contract before the four gates."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.interrupts import as_interrupts
from reflectloop.cli.render import colours, common, say
from reflectloop.cli.verify import QuietProgress, VerifyProgress
from reflectloop.engine.gating import gate_command as gating
from reflectloop.engine.gating.gate_command import GateInput, GateResult
from reflectloop.engine.gating.verify_command import VerifyRequest
from reflectloop.terms import Decision, Isolation

_SHOWN = 20


@click.command()
@click.option(
    "--contract",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="What the change claims to be (schemas/contract.json).",
)
@click.option("--base", metavar="REV", help="Judge against this revision (default: HEAD).")
@click.option("--patch", type=click.Path(path_type=Path), metavar="FILE", help="Judge this patch on top of the base.")
@click.option("--worktree", is_flag=True, help="Judge the working tree as it stands (the default).")
@click.option("--branch", metavar="BRANCH", help="Judge what a branch changes.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What its author says about it; words prove nothing, and can only make a citation doubtful.",
)
@click.option("--isolation", type=click.Choice([level.value for level in Isolation]), help="Refuse to run below this.")
@click.option("--sandbox-root", type=click.Path(path_type=Path), help="Make workspaces under this folder.")
@click.option("--wait", is_flag=True, help="Wait while another engine works here.")
@common
def gate(
    contract: Path,
    base: str | None,
    patch: Path | None,
    worktree: bool,
    branch: str | None,
    report: Path | None,
    isolation: str | None,
    sandbox_root: Path | None,
    wait: bool,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Put a change through the gates: rules, proof, insight, store.

    Exit 0 only when every gate lets it pass. The third time the same goal is sent back, a person must look.

    \b
    Example: reflectloop gate --contract contract.yaml --branch topic --base main
    """
    if sum((patch is not None, worktree, branch is not None)) > 1:
        raise click.UsageError("Name one of --patch, --worktree and --branch.")
    as_interrupts()
    level = Isolation(isolation) if isolation else None
    request = VerifyRequest(project_dir, base, patch, branch, isolation=level, sandbox_root=sandbox_root, wait=wait)
    outcome = gating.gate(GateInput(request, contract, report), QuietProgress() if as_json else VerifyProgress())
    if as_json:
        render.as_json(outcome.envelope, outcome.data)
    else:
        _tell(outcome)
    sys.exit(outcome.error.exit_code if outcome.error else 0)


def _tell(outcome: GateResult) -> None:
    paint = colours()
    for one in outcome.data["gates"]:
        colour = "green" if one["decision"] in (Decision.PASS, Decision.SKIP) else "red"
        own = "" if one["surface"] == one["decision"] else f" ({one['decision']})"
        say(f"{one['sign']} {paint(colour, one['surface'])}{own} {one['why_skipped'] or ''}".rstrip(), err=True)
        for reason in one["reasons"][:_SHOWN]:
            mend = f"; {reason['mend']}" if reason["mend"] else ""
            say(f"   {paint('bold', reason['decision'])} {reason['text']}{mend}", err=True)
        for text in one["feedback"]:
            say(f"   {paint('dim', 'feedback')} {text}", err=True)
    for warning in outcome.envelope.warnings:
        say(f"{paint('yellow', 'warning:')} {warning}", err=True)
    level = f" at {outcome.data['level']}" if outcome.data["level"] else ""
    colour = "red" if outcome.error else "green"
    say(f"{paint(colour, outcome.data['decision'])}{level}; {outcome.folder / 'gates.md'}", err=True)
    say(f"{paint('dim', 'next:')} {outcome.envelope.next}", err=True)
