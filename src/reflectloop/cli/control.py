"""The commands `pause`, `abort`, `skip`, `redo`, `rewind`, `fork`, `answer` and `unlock`."""

from __future__ import annotations

from pathlib import Path

import click

from reflectloop.cli.render import Answer, answers
from reflectloop.commands import apply_run, task_control
from reflectloop.commands.task_control import ControlResult

_reason = click.option("--reason", required=True, help="Why; it is written to the journal.")


def required_reason(text: str) -> str:
    if not text.strip():
        raise click.UsageError("--reason must say something.")
    return text.strip()


def _answer(result: ControlResult) -> Answer:
    ticket = [f"why it is done again: reflectloop reflect {result.ticket}"] if result.ticket else []
    lines = [result.message, *ticket, f"next: {result.next_step}"]
    return Answer(result.as_data(), lines, next_step=result.next_step)


@click.command()
@answers
def pause(project_dir: Path) -> Answer:
    """Stop a run before its next step; `reflectloop resume` continues it.

    \b
    Example: reflectloop pause
    """
    return _answer(task_control.pause(project_dir))


@click.command()
@_reason
@answers
def abort(reason: str, project_dir: Path) -> Answer:
    """End the current task for good. A run in progress is stopped first.

    \b
    Example: reflectloop abort --reason "no longer wanted"
    """
    return _answer(task_control.abort(project_dir, reason))


@click.command()
@click.argument("step")
@_reason
@answers
def skip(step: str, reason: str, project_dir: Path) -> Answer:
    """Leave STEP of the current run out; steps that depend on it run as if it were done.

    \b
    Example: reflectloop skip P-3 --reason "was done by hand"
    """
    return _answer(task_control.skip(project_dir, step, reason))


@click.command()
@click.argument("step")
@_reason
@answers
def redo(step: str, reason: str, project_dir: Path) -> Answer:
    """Do STEP of the current run again, and every step that depends on it; a ticket records the reason.

    \b
    Example: reflectloop redo P-2 --reason "the wrong file was changed"
    """
    return _answer(task_control.again(project_dir, step, task_control.REDO, reason))


@click.command()
@click.argument("step")
@answers
def rewind(step: str, project_dir: Path) -> Answer:
    """Return to the state before STEP; it and all later steps are pending again.

    \b
    Example: reflectloop rewind P-2
    """
    return _answer(task_control.again(project_dir, step, "rewind", "rewound by the user"))


@click.command()
@click.argument("step")
@answers
def fork(step: str, project_dir: Path) -> Answer:
    """Open a new task that starts from the state of the current one before STEP.

    \b
    Example: reflectloop fork P-2 && reflectloop resume
    """
    return _answer(task_control.fork(project_dir, step))


@click.command()
@click.argument("step")
@click.argument("text")
@answers
def answer(step: str, text: str, project_dir: Path) -> Answer:
    """Answer the question of a blocked STEP; it becomes pending again and receives the answer.

    \b
    Example: reflectloop answer 3 "use the second table"
    """
    return _answer(task_control.answer(project_dir, step, text))


@click.command()
@click.option("--reason", required=True, help="Why work may continue; it is written to the journal.")
@answers
def unlock(reason: str, project_dir: Path) -> Answer:
    """Lift the latch that a leak, an escape or too many failures set.

    \b
    Example: reflectloop unlock --reason "the key was revoked and removed from the test"
    """
    lifted = apply_run.unlock(project_dir, required_reason(reason))
    lines = [
        f"unlocked: {lifted.stop.error_code} of {lifted.stop.run_id or 'an unreadable latch'}",
        f"next: {lifted.again}",
    ]
    return Answer(lifted.stop.as_json(), lines, next_step=lifted.again)
