"""`call`: one command, run as a tool whose failures are diagnosed and acted on."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, say
from reflectloop.errors import ReflectloopError, StepFailed, StepTimeout
from reflectloop.flow.envelope import of_error
from reflectloop.flow.failing import call as flow
from reflectloop.reflect.report import ToolReport
from reflectloop.reflect.tools import Failed
from reflectloop.world import clock


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
@common
def call(
    command: tuple[str, ...],
    idempotent: bool,
    retries: int | None,
    fallbacks: tuple[str, ...],
    timeout_s: float,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Run a command; diagnose it when it fails, and try again or another way only where that is safe.

    \b
    Example: reflectloop call --idempotent --fallback 'cat cached.json' -- curl -fsS https://example.com/x.json
    """
    order = flow.Order(command, tuple(_words(one) for one in fallbacks), idempotent, retries, timeout_s)
    done = flow.call(order, project_dir, show=_drop if as_json else _show, tell=_drop_report if as_json else _tell)
    if isinstance(done.outcome, Failed):
        sys.exit(_refuse(done, done.outcome, as_json=as_json))
    if as_json:
        render.answer("call", flow.as_data(done))


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


def _refuse(done: flow.Done, outcome: Failed, *, as_json: bool) -> int:
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
