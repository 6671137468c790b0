"""`call`: one command, run as a tool whose failures are diagnosed and acted on."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, say
from reflectloop.diagnosis.safe_call import ToolFailure
from reflectloop.diagnosis.tool_failure_report import ToolReport
from reflectloop.engine.envelope import of_error
from reflectloop.engine.failures import call as flow
from reflectloop.errors import ReflectloopError, StepFailed, StepTimeout
from reflectloop.system import clock
from reflectloop.terms import Network

_NAMED = 5  # of many changed files


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
@click.option("--idempotent", is_flag=True, help="Running it twice does no harm: it may be tried again as it is.")
@click.option(
    "--retries", type=click.IntRange(0, 20), metavar="N", help="Tries after the first, instead of the policy's."
)
@click.option("--fallback", "fallbacks", multiple=True, metavar="CMD", help="Try this command when the first fails.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1),
    default=3600.0,
    show_default=True,
    metavar="S",
    help="Seconds for each try.",
)
@click.option(
    "--network",
    type=click.Choice([network.value for network in Network]),
    help="What it can reach from the box (default: as a step, at full nothing).",
)
@click.option("--host", "on_host", is_flag=True, help="Run it on this machine as it is, with your files and variables.")
@common
def call(
    command: tuple[str, ...],
    idempotent: bool,
    retries: int | None,
    fallbacks: tuple[str, ...],
    timeout_s: float,
    network: str | None,
    on_host: bool,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Run a command; diagnose it when it fails, and try again or another way only where that is safe.

    It runs in the box, in a copy of the project as it is now, and sees what a step sees. What it changes there
    is said, and dropped with the copy; to keep changes, run a plan.

    \b
    Example: reflectloop call --network host --idempotent -- curl -fsS https://example.com/x.json
    """
    if on_host and network:
        raise click.UsageError("--network is for the box; leave it or --host out.")
    order = flow.CallOptions(
        command,
        tuple(_words(line) for line in fallbacks),
        idempotent,
        retries,
        timeout_s,
        on_host,
        Network(network) if network else None,
    )
    shown, told = (_drop, _drop_report) if as_json else (_show, _tell)
    done = flow.call(
        order, project_dir, show=shown, tell=told, waits=lambda holder: say(f"waiting: {holder}", err=True)
    )
    if not as_json:
        _tell_changes(done)
    if isinstance(done.outcome, ToolFailure):
        sys.exit(_refuse(done, done.outcome, as_json=as_json))
    if as_json:
        render.answer("call", flow.as_data(done))


def _tell_changes(done: flow.CallResult) -> None:
    if done.changes is None:
        say("what it changed in its copy of the project cannot be told; it was dropped", err=True)
    elif done.changes:
        names = [change.path for change in done.changes]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        say(f"changed in its copy of the project, and dropped: {', '.join(names[:_NAMED])}{more}", err=True)


def _words(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError as fault:
        raise click.UsageError(f"--fallback {line!r}: {fault}") from fault


def _show(stream: str, safe: bytes) -> None:
    target = sys.stdout if stream == "stdout" else sys.stderr
    target.buffer.write(safe)
    target.flush()


def _drop(stream: str, safe: bytes) -> None:
    """A program is told once, at the end."""


def _drop_report(report: ToolReport) -> None:
    """The same."""


def _tell(report: ToolReport) -> None:
    action = report.corrective_action
    what = f"again in {action.retry_delay_seconds:g} s" if action.retry_delay_seconds is not None else "not again"
    what = f"then {action.fallback_tool}" if action.fallback_tool else what
    paint = colours()
    say(
        f"{paint('yellow', report.failed_tool)}: {report.diagnosis.error_type} ({report.error_type}): "
        f"{report.diagnosis.root_cause}; {action.action}; {what}",
        err=True,
    )


def _refuse(done: flow.CallResult, outcome: ToolFailure, *, as_json: bool) -> int:
    failure = outcome.failure
    cause = failure.diagnosis.root_cause if failure.diagnosis else failure.log_excerpt
    times = "once" if outcome.attempts == 1 else f"{outcome.attempts} times"
    message = f"failed, tried {times}; last {outcome.tool}: {failure.category}, needs {failure.needs}: {cause}"
    known = failure.diagnosis
    next_step = (known.next_command or known.suggestion) if known else None
    kind: type[ReflectloopError] = StepTimeout if failure.code == StepTimeout.code else StepFailed
    error = kind(message, next_step=next_step)
    if as_json:
        envelope = of_error("call", clock.stamp(clock.now()), error)
        written = [str(path) for path in done.written]
        render.as_json(envelope.model_copy(update={"artifacts_written": written}), flow.as_data(done))
    else:
        render.explain(error)
    return error.exit_code
