"""The command `call`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from reflectloop import languages
from reflectloop.cli import render
from reflectloop.cli.render import Answer, Note, answers, echo, echo_as_is, english_part, fit, paint
from reflectloop.commands import call as calls
from reflectloop.diagnosis.safe_call import ToolFailure
from reflectloop.diagnosis.tool_failure_report import ToolReport
from reflectloop.terms import Network, join_first

_WIDTH = 53  # of the box about a failed tool, inside
_MOST_NAMES = 5  # changed files that are named


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
@click.option("--idempotent", is_flag=True, help="Running it twice does no harm, so it may be retried unchanged.")
@click.option(
    "--retries",
    type=click.IntRange(0, 20),
    metavar="N",
    help="Retries after the first attempt, instead of the policy's.",
)
@click.option("--fallback", "fallbacks", multiple=True, metavar="CMD", help="Try this command if the first fails.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1),
    default=3600.0,
    show_default=True,
    metavar="S",
    help="Seconds for each attempt.",
)
@click.option(
    "--network",
    type=click.Choice([network.value for network in Network]),
    help="What it can reach from the sandbox (default: the same as a step, at level full nothing).",
)
@click.option("--host", "on_host", is_flag=True, help="Run it on this machine as it is, with your files and variables.")
@answers
def call(
    command: tuple[str, ...],
    idempotent: bool,
    retries: int | None,
    fallbacks: tuple[str, ...],
    timeout_s: float,
    network: str | None,
    on_host: bool,
    project_dir: Path,
) -> Answer:
    """Run a command; diagnose it if it fails, and retry or use a fallback only where that is safe.

    It runs in a sandbox, in a copy of the project as it is now, with the same access as a step. Its changes to the
    copy are listed and then discarded; to keep changes, run a plan.

    \b
    Example: reflectloop call --network host --idempotent -- curl -fsS https://example.com/x.json
    """
    if on_host and network:
        raise click.UsageError("--network is for the sandbox; leave it or --host out.")
    options = calls.CallOptions(
        command,
        tuple(_argv(line) for line in fallbacks),
        idempotent,
        retries,
        timeout_s,
        on_host,
        Network(network) if network else None,
    )
    quiet = render.wants_json()
    result = calls.call(
        options,
        project_dir,
        show=_drop_output if quiet else _show_output,
        tell=_drop_report if quiet else _show_report,
        waits=lambda holder: echo(f"waiting: {holder}", err=True),
    )
    error = calls.error_of(result.outcome) if isinstance(result.outcome, ToolFailure) else None
    lines = [*_changes(result), *(render.error_lines(error) if error else ())]
    return Answer(calls.as_data(result), lines, error=error, written=result.written if error else ())


def _changes(result: calls.CallResult) -> Iterator[Note]:
    if result.changes is None:
        yield Note("its changes to its copy of the project could not be listed; they were discarded")
    elif result.changes:
        names = [change.path for change in result.changes]
        yield Note(f"changed in its copy of the project, and discarded: {join_first(names, _MOST_NAMES)}")


def _argv(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError as fault:
        raise click.UsageError(f"--fallback {line!r}: {fault}") from fault


def _show_output(stream: str, safe: bytes) -> None:
    target = sys.stdout if stream == "stdout" else sys.stderr
    target.buffer.write(safe)
    target.flush()


def _drop_output(stream: str, safe: bytes) -> None:
    """Print nothing: the JSON document at the end has the output."""


def _drop_report(report: ToolReport) -> None:
    """Print nothing: the JSON document at the end has the reports."""


def _box(report: ToolReport) -> Iterator[str]:
    """Yield the protocol's box about a failed tool."""
    rows = {
        "Tool": report.failed_tool,
        "Error": languages.line(report.error_type.replace("_", " ")),
        "Action": languages.line(english_part(report.corrective_action.action)),
    }
    yield f"┌{'─' * _WIDTH}┐"
    yield f"│{fit('  ⚠  ' + languages.line('TOOL REFLECTION'), _WIDTH)}│"
    yield f"├{'─' * _WIDTH}┤"
    yield from (f"│{fit(f'  {languages.line(label)}: {text}', _WIDTH - 1)} │" for label, text in rows.items())
    yield f"└{'─' * _WIDTH}┘"


def _show_report(report: ToolReport) -> None:
    action = report.corrective_action
    plan = f"again in {action.retry_delay_seconds:g} s" if action.retry_delay_seconds is not None else "not again"
    plan = f"then {action.fallback_tool}" if action.fallback_tool else plan
    for line in _box(report):
        echo_as_is(paint("yellow", line), err=True)
    kind, cause, what = (
        languages.line(text)
        for text in (report.error_type.replace("_", " "), report.diagnosis.root_cause, english_part(action.action))
    )
    echo_as_is(
        f"{paint('yellow', report.failed_tool)}: {kind}: {cause}; {what}; {languages.line(plan)}",
        err=True,
    )
