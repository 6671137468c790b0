"""`run`."""

from __future__ import annotations

import dataclasses
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from reflectloop.cli import render
from reflectloop.cli.interrupts import as_interrupts
from reflectloop.cli.render import colours, common, say
from reflectloop.engine import apply_run as tasks_of
from reflectloop.engine import task_control
from reflectloop.engine.pipeline import run as run_plan
from reflectloop.engine.run import plan_preview
from reflectloop.engine.run.request import NullObserver, RunObserver, RunOutcome, RunRequest
from reflectloop.plan.load import ASSUMED_TRACK, refuse_address
from reflectloop.terms import Isolation
from reflectloop.workspace.project import Mode

F = TypeVar("F", bound=Callable[..., Any])


def running(command: F) -> F:
    """The options of everything that runs a plan."""
    for option in reversed(
        (
            click.option(
                "--isolation", type=click.Choice([level.value for level in Isolation]), help="Refuse to run below this."
            ),
            click.option(
                "--sandbox-root", type=click.Path(path_type=Path), help="Make the workspace under this folder."
            ),
            click.option(
                "--mode",
                type=click.Choice(["auto", "git", "worktree", "copy"]),
                default="auto",
                help="How the project is taken: by git, or as a plain folder.",
            ),
            click.option(
                "--jobs",
                "-j",
                type=click.IntRange(1, 64),
                help="Run so many steps of a batch at once (default: the plan's, else 1).",
            ),
            click.option(
                "--keep-going", "-k", is_flag=True, help="After a failure, finish what does not depend on it."
            ),
            click.option(
                "--max-retries",
                type=click.IntRange(0, 100),
                help="How often the task may be run again after a failure.",
            ),
            click.option("--wait", is_flag=True, help="Wait while another engine works here."),
            click.option("--yes", "-y", is_flag=True, help="Answer confirmations that are not about safety."),
            click.option("--events", is_flag=True, help="Print the journal as JSON lines while it is written."),
        )
    ):
        command = option(command)
    return common(command)


@click.command()
@click.argument("plan", required=False, type=click.Path(path_type=Path))
@click.option("--plan", "plan_option", type=click.Path(path_type=Path), help="The same as PLAN.")
@click.option("--new", "new_task", is_flag=True, help="Open a new task, also where one is open for this plan.")
@click.option("--dry-run", is_flag=True, help="Say what would run; run nothing.")
@running
def run(
    plan: Path | None,
    plan_option: Path | None,
    new_task: bool,
    dry_run: bool,
    as_json: bool,
    events: bool,
    **options: Any,  # noqa: ANN401
) -> None:
    """Run PLAN in an isolated copy of the project and leave a patch, or a blocker that says why not.

    Without PLAN: .reflectloop/plan.yaml, then .claude/state/thinking/plan.latest.yaml.

    \b
    Example: reflectloop run plan.yaml && reflectloop diff && reflectloop apply
    """
    if plan and plan_option:
        raise click.UsageError("Name the plan once: PLAN or --plan, not both.")
    _refuse_address(plan or plan_option)
    request = dataclasses.replace(_request(options), plan=plan or plan_option, new_task=new_task)
    if dry_run:
        show_preview(plan_preview.preview(request), as_json=as_json)
        return
    carry_out(request, as_json=as_json, events=events, debug=options["debug"])


@click.command()
@click.argument("plan", required=False, type=click.Path(path_type=Path), metavar="[PLAN|STEP]")
@click.option("--reason", required=True, help="What was mended outside the project; it is journalled.")
@running
def retry(plan: Path | None, reason: str, as_json: bool, events: bool, **options: Any) -> None:  # noqa: ANN401
    """Run a failed task again although neither the plan nor the project changed.

    Named a step instead of a plan, only that step and what built on it are done again.

    \b
    Example: reflectloop retry --reason "the database is up again"
    """
    _refuse_address(plan)
    if plan and not plan.exists() and task_control.has_step(options["project_dir"], str(plan)):
        task_control.again(options["project_dir"], str(plan), "retry", _reason(reason))
        request = dataclasses.replace(_request(options), resume=True)
    else:
        request = dataclasses.replace(_request(options), plan=plan, retry_reason=_reason(reason))
    carry_out(request, as_json=as_json, events=events, debug=options["debug"])


@click.command()
@running
def resume(as_json: bool, events: bool, **options: Any) -> None:  # noqa: ANN401
    """Go on with a run whose engine died or was stopped: finished steps are not run again, a half one is.

    \b
    Example: reflectloop resume
    """
    request = dataclasses.replace(_request(options), resume=True)
    carry_out(request, as_json=as_json, events=events, debug=options["debug"])


@click.command()
@click.option("--reason", required=True, help="Why work may go on; it is journalled.")
@common
def unlock(reason: str, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Lift the latch that a leak, an escape or too many failures set.

    \b
    Example: reflectloop unlock --reason "the key was revoked and taken out of the test"
    """
    lifted = tasks_of.unlock(project_dir, _reason(reason))
    if as_json:
        render.answer("unlock", lifted.stop.as_json(), next_step=lifted.again)
        return
    say(f"unlocked: {lifted.stop.error_code} of {lifted.stop.run_id or 'an unreadable latch'}")
    say(f"next: {lifted.again}")


@click.command()
@common
def route(project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Say what the last failure needs: research, a new plan, an answer, a retry or an unlock; and the command.

    \b
    Example: reflectloop route --json
    """
    from reflectloop.engine.failures import routing

    found = routing.route(project_dir)
    if as_json:
        render.answer("route", found.as_data(), next_step=found.command)
        return
    say(f"{found.route}: {found.why}")
    say(f"next: {found.command}")
    if found.then:
        say(f"then: {found.then}")


def _refuse_address(plan: Path | None) -> None:
    """Before a run begins: its records would name the address, with the password in it."""
    if plan:
        refuse_address(plan)


def _reason(text: str) -> str:
    if not text.strip():
        raise click.UsageError("--reason must say something.")
    return text.strip()


def _request(options: dict[str, Any]) -> RunRequest:
    mode: Mode = "git" if options["mode"] == "worktree" else options["mode"]
    floor = Isolation(options["isolation"]) if options["isolation"] else None
    return RunRequest(
        options["project_dir"],
        isolation=floor,
        sandbox_root=options["sandbox_root"],
        jobs=options["jobs"],
        keep_going=options["keep_going"],
        max_retries=options["max_retries"],
        wait=options["wait"],
        mode=mode,
    )


def carry_out(request: RunRequest, *, as_json: bool, events: bool, debug: bool) -> None:
    """Run, show, and leave with the code the outcome says."""
    if as_json and events:
        raise click.UsageError("--json prints one document, --events many; choose one.")
    as_interrupts()
    outcome = _watched(request, as_json=as_json, as_events=events)
    if debug and outcome.error and outcome.error.__cause__:
        sys.stderr.write("".join(traceback.format_exception(outcome.error.__cause__)))
    if as_json:
        render.as_json(outcome.envelope, plan_preview.outcome_data(outcome))
    elif not events:
        tell(outcome)
    sys.exit(outcome.error.exit_code if outcome.error else 0)


def _watched(request: RunRequest, *, as_json: bool, as_events: bool) -> RunOutcome:
    if as_json:
        return run_plan(request, NullObserver())
    from rich.console import Console

    from reflectloop.cli.progress import Events, PlainProgress, Terminal

    if as_events:
        return run_plan(request, Events())
    console = Console(stderr=True)
    shown: PlainProgress = Terminal(console) if console.is_terminal else PlainProgress(console)
    observer: RunObserver = shown
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


def tell(outcome: RunOutcome) -> None:
    paint = colours()
    envelope = outcome.envelope
    failed = next((step for step in outcome.steps if not step.success), None)
    if failed and failed.tail:
        for line in failed.tail.splitlines():
            say(f"    {line}", err=True)
    # What was assumed is written down; it asks nothing of whoever looks on.
    for warning in (one for one in envelope.warnings if not one.startswith(ASSUMED_TRACK)):
        say(f"{paint('yellow', 'warning:')} {warning}", err=True)
    if outcome.error:
        render.explain(outcome.error)
        for one in outcome.known_fixes:
            say(f"{paint('dim', 'known:')} {render.known_fix(one)}", err=True)
        say(f"{paint('dim', 'card:')} {envelope.artifacts_written[-1]}", err=True)
        return
    count = len(outcome.touched)
    what = f"{count} file(s) changed" if count else "nothing changed"
    say(f"{paint('green', 'OK')}: {what}; {paint('dim', 'next:')} {envelope.next}", err=True)
