"""`pause`, `abort`, `skip`, `redo`, `rewind`, `fork` and `answer`."""

from __future__ import annotations

from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import common, say
from reflectloop.engine import task_control
from reflectloop.engine.task_control import ControlResult

_WHY = click.option("--reason", required=True, help="Why; it is journalled.")


def _tell(command: str, done: ControlResult, *, as_json: bool) -> None:
    if as_json:
        render.answer(command, done._asdict(), next_step=done.next_step)
        return
    say(done.said)
    if done.ticket:
        say(f"why it came to this: reflectloop reflect {done.ticket}")
    say(f"next: {done.next_step}")


@click.command()
@common
def pause(project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Stop a run before its next step; `reflectloop resume` goes on.

    \b
    Example: reflectloop pause
    """
    _tell("pause", task_control.pause(project_dir), as_json=as_json)


@click.command()
@_WHY
@common
def abort(reason: str, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Give the current task up for good; an engine at work on it is stopped first.

    \b
    Example: reflectloop abort --reason "not wanted any more"
    """
    _tell("abort", task_control.abort(project_dir, reason), as_json=as_json)


@click.command()
@click.argument("step")
@_WHY
@common
def skip(step: str, reason: str, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Leave STEP of the current run out; what depends on it goes on as if it were done.

    \b
    Example: reflectloop skip P-3 --reason "was done by hand"
    """
    _tell("skip", task_control.skip(project_dir, step, reason), as_json=as_json)


@click.command()
@click.argument("step")
@_WHY
@common
def redo(step: str, reason: str, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Do STEP of the current run again, and everything that built on it; a ticket says why.

    \b
    Example: reflectloop redo P-2 --reason "the wrong file was changed"
    """
    _tell("redo", task_control.again(project_dir, step, task_control.REDO, reason), as_json=as_json)


@click.command()
@click.argument("step")
@common
def rewind(step: str, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Go back to the tree before STEP; it and all later steps wait again.

    \b
    Example: reflectloop rewind P-2
    """
    _tell("rewind", task_control.again(project_dir, step, "rewind", "rewound by the user"), as_json=as_json)


@click.command()
@click.argument("step")
@common
def fork(step: str, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Open a new task that stands where the current one stood before STEP.

    \b
    Example: reflectloop fork P-2 && reflectloop resume
    """
    _tell("fork", task_control.fork(project_dir, step), as_json=as_json)


@click.command()
@click.argument("step")
@click.argument("text")
@common
def answer(step: str, text: str, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Answer what a blocked STEP asked; it waits again, with the answer beside it.

    \b
    Example: reflectloop answer 3 "use the second table"
    """
    _tell("answer", task_control.answer(project_dir, step, text), as_json=as_json)
