"""The commands `run`, `retry` and `resume`."""

from __future__ import annotations

import dataclasses
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from reflectloop import config
from reflectloop.cli import render
from reflectloop.cli.control import required_reason
from reflectloop.cli.interrupts import as_interrupts
from reflectloop.cli.render import Answer, Note, QuotedNote, answers, paint
from reflectloop.commands import task_control
from reflectloop.engine.pipeline import run as run_plan
from reflectloop.engine.run import plan_preview
from reflectloop.engine.run.request import RunOutcome, RunRequest
from reflectloop.errors import ReflectloopError
from reflectloop.plan.load import ASSUMED_TRACK, refuse_address
from reflectloop.terms import Isolation, describe_level
from reflectloop.verification.result import PROBED
from reflectloop.workspace.project import Mode


def _use_executor(_context: click.Context, _option: click.Parameter, name: str | None) -> None:
    if name is not None:
        config.use_executor(name)


executor_option = click.option(
    "--executor",
    metavar="AGENT",
    expose_value=False,
    callback=_use_executor,
    help="The agent that executes steps, instead of the one in the settings.",
)


def run_options(function: Callable[..., Answer]) -> Callable[..., None]:
    """Add the options of every command that runs a plan."""
    command = function
    for option in reversed(
        (
            click.option(
                "--isolation",
                type=click.Choice([level.value for level in Isolation]),
                help="Refuse to run with less isolation than this.",
            ),
            click.option(
                "--sandbox-root", type=click.Path(path_type=Path), help="Make the workspace under this folder."
            ),
            click.option(
                "--mode",
                type=click.Choice(["auto", "git", "worktree", "copy"]),
                default="auto",
                help="How the project is copied: with git, or as a plain folder.",
            ),
            click.option(
                "--jobs",
                "-j",
                type=click.IntRange(1, 64),
                help="Run this many steps of a batch at once (default: the plan's, else 1).",
            ),
            click.option(
                "--keep-going", "-k", is_flag=True, help="After a failure, finish the steps that do not depend on it."
            ),
            click.option(
                "--max-retries",
                type=click.IntRange(0, 100),
                help="How often the task may be run again after a failure.",
            ),
            click.option("--wait", is_flag=True, help="Wait while another engine works on this project."),
            click.option(
                "--approve-file",
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Count the approvals in this file, which people filled in.",
            ),
            executor_option,
            click.option("--yes", "-y", is_flag=True, help="Agree to questions that are not about safety."),
            click.option("--events", is_flag=True, help="Print the journal as JSON lines while it is written."),
        )
    ):
        command = option(command)
    return answers(command)


@click.command()
@click.argument("plan", required=False, type=click.Path(path_type=Path))
@click.option("--plan", "plan_option", type=click.Path(path_type=Path), help="The same as PLAN.")
@click.option("--new", "new_task", is_flag=True, help="Open a new task, even if one is open for this plan.")
@click.option("--dry-run", is_flag=True, help="Show what would run; run nothing.")
@run_options
def run(
    plan: Path | None,
    plan_option: Path | None,
    new_task: bool,
    dry_run: bool,
    events: bool,
    **options: Any,  # noqa: ANN401
) -> Answer:
    """Run PLAN in an isolated copy of the project and leave a patch, or a blocker that says why it failed.

    Without PLAN: .reflectloop/plan.yaml, then .claude/state/thinking/plan.latest.yaml.

    \b
    Example: reflectloop run plan.yaml && reflectloop diff && reflectloop apply
    """
    if plan and plan_option:
        raise click.UsageError("Name the plan once: PLAN or --plan, not both.")
    _refuse_address(plan or plan_option)
    request = dataclasses.replace(_request(options), plan=plan or plan_option, new_task=new_task)
    if dry_run:
        preview = plan_preview.preview(request)
        return Answer(preview, _preview_lines(preview), next_step="reflectloop run")
    return _carry_out(request, events=events)


@click.command()
@click.argument("plan", required=False, type=click.Path(path_type=Path), metavar="[PLAN|STEP]")
@click.option("--reason", required=True, help="What was fixed outside the project; it is written to the journal.")
@run_options
def retry(plan: Path | None, reason: str, events: bool, **options: Any) -> Answer:  # noqa: ANN401
    """Run a failed task again although neither the plan nor the project changed.

    With a STEP instead of a plan, only that step and the steps that depend on it are done again.

    \b
    Example: reflectloop retry --reason "the database is up again"
    """
    _refuse_address(plan)
    if plan and not plan.exists() and task_control.has_step(options["project_dir"], str(plan)):
        task_control.again(options["project_dir"], str(plan), "retry", required_reason(reason))
        request = dataclasses.replace(_request(options), resume=True)
    else:
        request = dataclasses.replace(_request(options), plan=plan, retry_reason=required_reason(reason))
    return _carry_out(request, events=events)


@click.command()
@run_options
def resume(events: bool, **options: Any) -> Answer:  # noqa: ANN401
    """Continue a run that was paused, interrupted or killed: finished steps are kept, an interrupted one runs again.

    \b
    Example: reflectloop resume
    """
    return _carry_out(dataclasses.replace(_request(options), resume=True), events=events)


def _refuse_address(plan: Path | None) -> None:
    """Refuse a URL before a run begins: its records would name it, with any password in it."""
    if plan:
        refuse_address(plan)


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
        approve_file=options["approve_file"],
        mode=mode,
    )


def _carry_out(request: RunRequest, *, events: bool) -> Answer:
    """Run the request, and return its outcome."""
    if render.wants_json() and events:
        raise click.UsageError("--json prints one document, --events many; choose one.")
    as_interrupts()
    outcome = _run_observed(request, events=events)
    if render.wants_debug() and outcome.error and outcome.error.__cause__:
        sys.stderr.write("".join(traceback.format_exception(outcome.error.__cause__)))
    lines = () if events else _outcome_lines(outcome)
    return Answer(plan_preview.outcome_data(outcome), lines, envelope=outcome.envelope, error=outcome.error)


def _run_observed(request: RunRequest, *, events: bool) -> RunOutcome:
    from reflectloop.cli.progress import observe

    with observe(events=events) as observer:
        return run_plan(request, observer)


def _preview_lines(preview: dict[str, Any]) -> Iterator[str]:
    where = f"isolation {preview['isolation']}, network {preview['network']}"
    yield f"{preview['title']}  (track {preview['track']}, {where})"
    for number, batch in enumerate(preview["batches"], 1):
        yield f"batch {number}"
        for step in batch:
            folder = f"  (in {step['cwd']})" if step["cwd"] != "." else ""
            yield f"  {step['id']}  {step['title']}".rstrip() + folder
            yield from (f"    $ {command}" for command in step["commands"])
            yield from (f"    check {check}" for check in step["checks"])
    for warning in preview["warnings"]:
        yield f"warning: {warning}"
    yield "nothing was run"


def _outcome_lines(outcome: RunOutcome) -> Iterator[Note]:
    failed = next((step for step in outcome.steps if not step.success), None)
    if failed:
        yield from (QuotedNote(f"    {line}") for line in failed.tail.splitlines())
    for warning in outcome.envelope.warnings:
        if warning.startswith(PROBED):  # what was done, and nothing to worry about
            yield Note(paint("dim", warning))
        elif not warning.startswith(ASSUMED_TRACK):  # the default; a person need not do anything
            yield Note(f"{paint('yellow', 'warning:')} {warning}")
    if outcome.error:
        yield from _error_lines(outcome.error, outcome.outcome)
        for fix in outcome.known_fixes:
            yield Note(f"{paint('dim', 'known:')} {render.fix_line(fix)}")
        yield Note(f"{paint('dim', 'blocker:')} {outcome.envelope.artifacts_written[-1]}")
        return
    count = len(outcome.touched)
    change = f"{count} file(s) changed" if count else "nothing changed"
    # Without a sealed run nothing but the plan's own commands shows that the change works.
    level = describe_level(outcome.envelope.evidence_level or "")
    word = f"OK, not verified, evidence {level}" if outcome.envelope.verified is False else outcome.outcome or "OK"
    yield Note(f"{paint('green', word)}: {change}; {paint('dim', 'next:')} {outcome.envelope.next}")


def _error_lines(error: ReflectloopError, word: str) -> list[Note]:
    """Return the lines of an error; where the gates judged the run, their word comes first, and then the code."""
    first, *others = render.error_lines(error)
    if word and error.message.startswith(f"{word}: "):
        count = len(error.faults)
        text = f"{count} finding{'s' if count > 1 else ''} for a person to approve" if error.review else ""
        text = text or error.message.removeprefix(f"{word}: ")
        first = Note(f"{paint('yellow' if error.review else 'red', word)}: {text} ({error.code})")
    return [first, *others]
