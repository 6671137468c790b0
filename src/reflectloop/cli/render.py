"""How answers look: one JSON document, or words for a person. Nothing is printed that was not redacted."""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from reflectloop import secrets, trust
from reflectloop.engine.envelope import Envelope, of_error
from reflectloop.errors import Internal, InvalidInput, NoSpace, ReflectloopError
from reflectloop.system import clock, terminal

F = TypeVar("F", bound=Callable[..., Any])


def common(command: F) -> F:
    """The options every command has."""
    command = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")(command)
    command = click.option(
        "--trust-project",
        is_flag=True,
        expose_value=False,
        callback=_trust_project,
        help="Let every setting of the project's reflectloop.toml count, for this command only.",
    )(command)
    command = click.option(
        "--project",
        "project_dir",
        type=click.Path(path_type=Path),
        default=Path(),
        show_default="the repository around the current folder",
        help="Work on the repository around this folder.",
    )(command)
    return click.option("--debug", is_flag=True, help="Print a traceback when something goes wrong.")(command)


def _trust_project(_context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value:
        trust.trust_by_flag()


def warn_of_ignored(arguments: list[str]) -> None:
    """Say which settings did not count, once a command; a JSON document has said it already."""
    if "--json" in arguments:
        return
    for notice in trust.notices():
        say(f"{colours()('yellow', 'warning:')} {notice}", err=True)


def say(text: str = "", *, err: bool = False) -> None:
    click.echo(secrets.current().redact(harmless(text)), err=err)


def harmless(text: str) -> str:
    """Text that a terminal can be given: colours and line breaks stay, whatever else commands it is taken out."""
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return terminal.coloured(shown.encode()).decode()


def answer(command: str, data: Any = None, *, next_step: str | None = None) -> None:  # noqa: ANN401
    envelope = Envelope(command=command, timestamp=clock.stamp(clock.now()), status="OK", next=next_step)
    as_json(envelope, data)


def as_json(envelope: Envelope, data: Any = None) -> None:  # noqa: ANN401
    warned = envelope.model_copy(update={"warnings": [*envelope.warnings, *trust.notices()]})
    document = {"envelope": warned.model_dump(mode="json"), "data": data}
    tell_program(secrets.current().redact(json.dumps(document, indent=2, ensure_ascii=True)))


def tell_program(line: str) -> None:
    """One line for whoever reads our output. A reader that went away changes nothing of what is being done."""
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError) as fault:  # a closed pipe, a full disk, no standard output at all
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - so that leaving does not fail on it again
        if isinstance(fault, OSError) and fault.errno == errno.ENOSPC:
            raise NoSpace("the answer could not be written: no space is left where it goes") from fault


def answer_lines(answer: Callable[[dict[str, Any], int], dict[str, Any]]) -> None:
    """One JSON object for each that stands on a line of the standard input; `answer` is also told the line's number."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            question = json.loads(line)
        except ValueError as fault:
            raise InvalidInput(f"line {number} is not JSON: {fault}") from fault
        if not isinstance(question, dict):
            raise InvalidInput(f"line {number} is not an object")
        tell_program(json.dumps(answer(question, number)))


def usage_as_json(usage: click.ClickException, arguments: list[str]) -> None:
    named = next((word for word in arguments if not word.startswith("-")), "reflectloop")
    as_json(
        Envelope(
            command=named,
            timestamp=clock.stamp(clock.now()),
            status="ERROR",
            error_code="USAGE",
            message=usage.format_message(),
            next=f"{_command_path(usage)} --help",
        )
    )


def _command_path(usage: click.ClickException) -> str:
    context = usage.ctx if isinstance(usage, click.UsageError) else None
    return context.command_path if context else "reflectloop"


def refuse(fault: Exception, arguments: list[str]) -> int:
    """Turn any error into words or JSON, and its exit code."""
    error = fault if isinstance(fault, ReflectloopError) else Internal(f"{type(fault).__name__}: {fault}")
    if "--debug" in arguments:
        sys.stderr.write(secrets.current().redact("".join(traceback.format_exception(fault))))
    command = next((word for word in arguments if not word.startswith("-")), "reflectloop")
    if "--json" in arguments:
        as_json(of_error(command, clock.stamp(clock.now()), error))
    else:
        explain(error)
    return error.exit_code


def explain(error: ReflectloopError) -> None:
    paint = colours()
    say(f"{paint('red', error.code)}: {error.message}", err=True)
    for fault in error.faults:
        say(f"  {fault}", err=True)
    say(f"{paint('dim', 'next:')} {error.next_step}", err=True)


def known_fix(one: Mapping[str, Any]) -> str:
    """A fix that lessons hold, as a card carries it: somebody's words."""
    luck = f"worked {one['worked']} of {one['worked'] + one['failed']}"
    how = "is tried by itself" if one["executable"] else "in dispute" if one["status"] == "conflict" else "advice"
    return f"{one['id']} ({luck}, {how}): {one['fix'] or one['title']}"


def colours() -> Callable[[str, str], str]:
    """Paints where a terminal looks on, and NO_COLOR is not set."""
    codes = {"red": "31;1", "green": "32;1", "yellow": "33", "dim": "2", "bold": "1"}
    wanted = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return lambda name, text: f"\x1b[{codes[name]}m{text}\x1b[0m" if wanted else text


def size(count: int) -> str:
    thousand, units = 1000.0, ("B", "kB", "MB", "GB", "TB")
    power = 0
    while count >= thousand ** (power + 1) and power < len(units) - 1:
        power += 1
    return f"{count / thousand**power:.{1 if power else 0}f} {units[power]}"
