"""`run`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, say
from reflectloop.flow import preview
from reflectloop.flow.run import Nobody, Observer, Outcome, Request
from reflectloop.flow.run import run as run_plan
from reflectloop.terms import Isolation


@click.command()
@click.argument("plan", required=False, type=click.Path(path_type=Path))
@click.option("--plan", "plan_option", type=click.Path(path_type=Path), help="The same as PLAN.")
@click.option("--isolation", type=click.Choice([level.value for level in Isolation]), help="Refuse to run below this.")
@click.option("--sandbox-root", type=click.Path(path_type=Path), help="Make the workspace under this folder.")
@click.option("--dry-run", is_flag=True, help="Say what would run; run nothing.")
@click.option("--events", is_flag=True, help="Print the journal as JSON lines while it is written.")
@common
def run(
    plan: Path | None,
    plan_option: Path | None,
    isolation: str | None,
    sandbox_root: Path | None,
    dry_run: bool,
    events: bool,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001 - read by the boundary
) -> None:
    """Run PLAN in an isolated copy of the project and leave a patch, or a blocker that says why not.

    Without PLAN: .reflectloop/plan.yaml, then .claude/state/thinking/plan.latest.yaml.

    \b
    Example: reflectloop run plan.yaml && reflectloop diff && reflectloop apply
    """
    if plan and plan_option:
        raise click.UsageError("Name the plan once: PLAN or --plan, not both.")
    if as_json and events:
        raise click.UsageError("--json prints one document, --events many; choose one.")
    floor = Isolation(isolation) if isolation else None
    request = Request(project_dir, plan or plan_option, floor, sandbox_root)
    if dry_run:
        show_preview(preview.preview(request), as_json=as_json)
        return
    signal.signal(signal.SIGTERM, _as_interrupt)
    outcome = _watched(request, as_json=as_json, as_events=events)
    if as_json:
        render.as_json(outcome.envelope, preview.outcome_data(outcome))
    elif not events:
        tell(outcome)
    sys.exit(outcome.error.exit_code if outcome.error else 0)


def _as_interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _watched(request: Request, *, as_json: bool, as_events: bool) -> Outcome:
    if as_json:
        return run_plan(request, Nobody())
    from rich.console import Console

    from reflectloop.cli.progress import Events, Plain, Terminal

    if as_events:
        return run_plan(request, Events())
    console = Console(stderr=True)
    shown: Plain = Terminal(console) if console.is_terminal else Plain(console)
    observer: Observer = shown
    with shown:
        return run_plan(request, observer)


def show_preview(shown: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        render.answer("run", shown, next_step="reflectloop run")
        return
    say(f"{shown['title']}  (track {shown['track']}, isolation {shown['isolation']}, network {shown['network']})")
    for number, batch in enumerate(shown["batches"], 1):
        say(f"batch {number}")
        for step in batch:
            say(f"  {step['id']}  {step['title']}".rstrip() + (f"  (in {step['cwd']})" if step["cwd"] != "." else ""))
            for command in step["commands"]:
                say(f"    $ {command}")
            for check in step["checks"]:
                say(f"    check {check}")
    for warning in shown["warnings"]:
        say(f"warning: {warning}")
    say("nothing was run")


def tell(outcome: Outcome) -> None:
    paint = colours()
    envelope = outcome.envelope
    failed = next((step for step in outcome.steps if not step.success), None)
    if failed and failed.tail:
        for line in failed.tail.splitlines():
            say(f"    {line}", err=True)
    for warning in envelope.warnings:
        say(f"{paint('yellow', 'warning:')} {warning}", err=True)
    if outcome.error:
        render.explain(outcome.error)
        say(f"{paint('dim', 'card:')} {envelope.artifacts_written[-1]}", err=True)
        return
    count = len(outcome.touched)
    what = f"{count} file(s) changed" if count else "nothing changed"
    say(f"{paint('green', 'OK')}: {what}; {paint('dim', 'next:')} {envelope.next}", err=True)
