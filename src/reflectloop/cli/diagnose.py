"""`diagnose`: what a log or a report of any tool says."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, say
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.failures import diagnose as flow
from reflectloop.verification.result import Detail

_SHOWN = 20  # details told to a person


@click.command()
@click.argument("log", required=False, type=click.Path(path_type=Path, allow_dash=True), metavar="[LOG|-]")
@click.option("--exit-code", "exit_code", type=int, metavar="N", help="The exit code the tool left with.")
@click.option("--jsonl", is_flag=True, help="Answer JSON lines with 'id' and 'text' from standard input, one each.")
@common
def diagnose(
    log: Path | None,
    exit_code: int | None,
    jsonl: bool,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Say what a LOG or a report file of any tool says: what failed, where, and what to do. Exits 1 unless it passed.

    \b
    Example: make test 2>&1 | reflectloop diagnose -
    """
    if jsonl and log:
        raise click.UsageError("LOG and --jsonl do not go together")
    rules = flow.look_as(project_dir)
    if jsonl:
        render.answer_lines(lambda question, number: flow.answer(question, number, rules))
        return
    if log is None or log == Path("-"):
        found = flow.of(flow.stream(sys.stdin.buffer), exit_code=exit_code, rules=rules)
    else:
        found = flow.of(flow.load(log), exit_code=exit_code, log_path=str(log), rules=rules)
    if as_json:
        name = None if log is None else str(log)
        render.answer("diagnose", {"id": name, **found.as_data()}, next_step=_next(found))
    else:
        _say(found)
    sys.exit(0 if found.result.ok else 1)


def _next(found: flow.LogDiagnosis) -> str | None:
    known = found.failure.diagnosis if found.failure else None
    return (known.next_command if known else None) or found.result.suggestion or None


def _say(found: flow.LogDiagnosis) -> None:
    paint, result = colours(), found.result
    say(f"{paint('green' if result.ok else 'red', result.type)}: {result.summary}")
    for one in result.details[:_SHOWN]:
        _say_detail(one)
    if len(result.details) > _SHOWN:
        say(f"  … and {len(result.details) - _SHOWN} more; --json tells all")
    if found.failure:
        _say_failure(found.failure)
    if next_step := _next(found):
        say(f"next: {next_step}", err=True)


def _say_failure(failure: FailureRecord) -> None:
    passing = ", may pass by itself" if failure.transient else ""
    kind = f"class {failure.error_class} ({failure.error_class.english})"
    say(f"{failure.category}, needs {failure.needs}{passing}; {kind}")
    if failure.diagnosis:
        say(f"likely cause: {failure.diagnosis.root_cause}")
        say(f"suggestion: {failure.diagnosis.suggestion}")
    say(f"signature: {failure.signature}")


def _say_detail(one: Detail) -> None:
    place = ":".join(str(part) for part in (one.file, one.line, one.column) if part)
    rule = f" [{one.rule}]" if one.rule else ""
    said = f"{one.severity}: {one.error}{rule}"
    say(f"  {place}: {said}" if place else f"  {said}")
    if one.test and one.test not in said:
        say(f"    in {one.test}")
