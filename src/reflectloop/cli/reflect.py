"""`critic` and `reflect`: an output judged by its requirements, and what is learnt from what fell short."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from reflectloop.cli import render
from reflectloop.cli.interrupts import as_interrupts
from reflectloop.cli.render import colours, common, say
from reflectloop.engine.envelope import Envelope, of_error
from reflectloop.engine.learning import critic as judging
from reflectloop.engine.learning import reflection
from reflectloop.errors import ReflectloopError
from reflectloop.reflection.critic import CriticReport
from reflectloop.system import clock

_SHOWN = 20
_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("file", type=_FILE)
@click.option(
    "--requirements",
    type=_FILE,
    required=True,
    metavar="FILE",
    help="What it must be: a file of requirements (docs/reflection.md), or a contract.",
)
@click.option("--agent", default="executor", show_default=True, help="Who made it.")
@click.option("--step", help="The step it came of.")
@common
def critic(
    file: Path,
    requirements: Path,
    agent: str,
    step: str | None,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Judge the output in FILE: PASS (exit 0), REVISE (32) or REJECT (33), with a ticket for what must be done again.

    \b
    Example: reflectloop critic report.json --requirements needs.yaml
    """
    as_interrupts()
    done = judging.judge(judging.CriticRequest(project_dir, file, requirements, agent, step))
    if as_json:
        envelope = _envelope("critic", done.error, done.written)
        told = envelope.model_copy(update={"warnings": [f"checkpoint: {one}" for one in done.checkpoints]})
        render.as_json(told, done.report.model_dump(mode="json"))
    else:
        _tell_report(done.report)
        for one in done.checkpoints:
            say(f"  {colours()('yellow', 'checkpoint')}: {one}")
        _tell_end(done.error)
    sys.exit(done.error.exit_code if done.error else 0)


@click.command()
@click.argument("name", metavar="TICKET|RUN")
@click.option("--revised", type=_FILE, metavar="FILE", help="The output as somebody has mended it: judged, and kept.")
@click.option("--fix", "fixes", multiple=True, metavar="CMD", help="A command that mends the output; run in the box.")
@click.option("--answer", metavar="TEXT", help="What was not known: kept as a lesson for the next time.")
@click.option(
    "--yes", "unattended", is_flag=True, help="Nobody is there to be asked: what is rejected needs a new plan."
)
@common
def reflect(
    name: str,
    revised: Path | None,
    fixes: tuple[str, ...],
    answer: str | None,
    unattended: bool,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Reflect on a TICKET or a failed RUN in six steps; each leaves a file. Three rounds of repair at most.

    Exit 0 only when the critic lets the revised output pass. Looking again costs no round.

    \b
    Example: reflectloop reflect RLOP-20261115-1f0c2a
    """
    as_interrupts()
    done = reflection.reflect(
        reflection.ReflectionRequest(project_dir, name, revised, fixes, answer=answer, unattended=unattended)
    )
    if as_json:
        envelope = _envelope("reflect", done.error, done.written, next_step=_take_over(done))
        render.as_json(envelope.model_copy(update={"warnings": list(done.warnings)}), done.as_data())
    else:
        _tell_reflection(done)
        _tell_end(done.error, next_step=_take_over(done))
    sys.exit(done.error.exit_code if done.error else 0)


def _take_over(done: reflection.ReflectionOutcome) -> str | None:
    """The user's own file is theirs to replace."""
    name = done.rounds[-1].submission.revised_output_file
    return f"cp {shlex.quote(name)} {shlex.quote(str(done.ticket.target))}" if name and not done.error else None


def _envelope(
    command: str, error: ReflectloopError | None, written: tuple[Path, ...], next_step: str | None = None
) -> Envelope:
    at = clock.stamp(clock.now())
    plain = of_error(command, at, error) if error else Envelope(command=command, timestamp=at, status="OK")
    update: dict[str, Any] = {"artifacts_written": [str(path) for path in written]}
    return plain.model_copy(update=update | ({"next": next_step} if next_step else {}))


def _tell_report(report: CriticReport) -> None:
    paint, whole, right = colours(), report.completeness, report.correctness
    colour = "green" if report.rewind_ticket is None else "red"
    met = f"{whole.details.met} of {whole.details.required} requirement(s) met"
    say(f"{paint(colour, report.verdict)} at {report.quality_score:g}: {met}")
    say(f"completeness {whole.score:g}, correctness {right.score:g}")
    for one in report.issues[:_SHOWN]:
        say(f"  {one.severity} {one.category}: {one.description}; {one.suggested_fix}")


def _tell_reflection(done: reflection.ReflectionOutcome) -> None:
    paint = colours()
    for one in done.rounds:
        analysis, kind = one.report.error_analysis, one.report.error_classification
        say(f"{paint('bold', f'round {one.number}')}: {analysis.surface_issue}")
        say(f"  cause: {analysis.root_cause}")
        say(f"  class {kind.type}: {kind.remediation}")
        for action in one.report.repair_actions[:_SHOWN]:
            say(f"  {action.status}: {action.action}")
        say(f"  {one.submission.status}")
    for act in done.acted:
        say(f"  {act.state}: {act.measure.replace('_', ' ')}: {act.about}  ({act.trace})")
    for warning in done.warnings:
        say(f"{paint('yellow', 'warning:')} {warning}", err=True)


def _tell_end(error: ReflectloopError | None, next_step: str | None = None) -> None:
    if error:
        render.explain(error)
    elif next_step:
        say(f"next: {next_step}", err=True)
