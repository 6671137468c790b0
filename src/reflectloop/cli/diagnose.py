"""The command `diagnose`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import Answer, Note, answers, paint
from reflectloop.diagnosis import log_diagnosis as logs
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.verification.result import Detail

_MOST_DETAILS = 20  # shown to a person


@click.command()
@click.argument("log", required=False, type=click.Path(path_type=Path, allow_dash=True), metavar="[LOG|-]")
@click.option("--exit-code", "exit_code", type=int, metavar="N", help="The exit code of the tool.")
@click.option("--jsonl", is_flag=True, help="Answer JSON lines with 'id' and 'text' from standard input, one each.")
@answers
def diagnose(log: Path | None, exit_code: int | None, jsonl: bool, project_dir: Path) -> Answer | None:
    """Explain a LOG or a report file of any tool: what failed, where, and what to do. Exits 1 unless it passed.

    \b
    Example: make test 2>&1 | reflectloop diagnose -
    """
    if jsonl and log:
        raise click.UsageError("LOG and --jsonl cannot be used together.")
    rules = logs.use_project(project_dir)
    if jsonl:
        render.answer_each_line(lambda question, number: logs.answer(question, number, rules))
        return None
    if log is None or log == Path("-"):
        result = logs.diagnose_log(logs.stream(sys.stdin.buffer), exit_code=exit_code, rules=rules)
    else:
        result = logs.diagnose_log(logs.load(log), exit_code=exit_code, log_path=str(log), rules=rules)
    next_step = _next_step(result)
    lines = [*_lines(result), *([Note(f"next: {next_step}")] if next_step else [])]
    data = {"id": None if log is None else str(log), **result.as_data()}
    return Answer(data, lines, next_step=next_step, exit_code=0 if result.result.ok else 1)


def _next_step(result: logs.LogDiagnosis) -> str | None:
    known = result.failure.diagnosis if result.failure else None
    return ((known.next_command or known.suggestion) if known else None) or result.result.suggestion or None


def _lines(diagnosis: logs.LogDiagnosis) -> Iterator[str]:
    result = diagnosis.result
    yield f"{paint('green' if result.ok else 'red', result.type)}: {result.summary}"
    for detail in result.details[:_MOST_DETAILS]:
        yield from _detail_lines(detail)
    if len(result.details) > _MOST_DETAILS:
        yield f"  … and {len(result.details) - _MOST_DETAILS} more; --json lists all"
    if diagnosis.failure:
        yield from _failure_lines(diagnosis.failure)


def _failure_lines(failure: FailureRecord) -> Iterator[str]:
    transient = ", may pass by itself" if failure.transient else ""
    kind = f"class {failure.error_class} ({failure.error_class.english})"
    yield f"{failure.category}, needs {failure.needs}{transient}; {kind}"
    if failure.diagnosis:
        yield f"likely cause: {failure.diagnosis.root_cause}"
        yield f"suggestion: {failure.diagnosis.suggestion}"
    yield f"signature: {failure.signature}"


def _detail_lines(detail: Detail) -> Iterator[str]:
    place = ":".join(str(part) for part in (detail.file, detail.line, detail.column) if part)
    rule = f" [{detail.rule}]" if detail.rule else ""
    text = f"{detail.severity}: {detail.error}{rule}"
    yield f"  {place}: {text}" if place else f"  {text}"
    if detail.test and detail.test not in text:
        yield f"    in {detail.test}"
