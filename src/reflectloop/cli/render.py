"""Prints the answer of a command: one JSON document, or lines for a person. Everything printed is redacted."""

from __future__ import annotations

import errno
import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reflectloop import languages
from reflectloop.cli.help_pages import columns
from reflectloop.errors import Internal, InvalidInput, NoSpace, ReflectloopError
from reflectloop.system import clock, files, terminal
from reflectloop.terms import UNTITLED

if TYPE_CHECKING:  # pydantic models; a command that prints text needs none
    from reflectloop.artifacts.envelope import Envelope

_JSON, _DEBUG, _LANGUAGE = "reflectloop.json", "reflectloop.debug", "reflectloop.language"
_COLOURS = {"red": "31;1", "green": "32;1", "yellow": "33", "dim": "2", "bold": "1"}


class Note(str):
    """A line for standard error: progress, warnings, and the command to type next."""

    __slots__ = ()


class QuotedNote(Note):
    """A line for standard error that a program printed."""

    __slots__ = ()


class Answer(NamedTuple):
    """The result of a command: `data` is what `--json` prints, `lines` are what a person reads.

    Either may be a function, which is called only when its form is printed.
    """

    data: Any = None
    lines: Iterable[str] | Callable[[], None] = ()
    next_step: str | None = None
    error: ReflectloopError | None = None
    exit_code: int = 0  # without an error
    written: Sequence[Path] = ()
    warnings: Sequence[str] = ()
    verified: bool | None = None  # of a change: whether checks judged it on a sealed copy
    envelope: Envelope | None = None  # the engine's, instead of one made from the fields above


def answers(function: Callable[..., Answer | None]) -> Callable[..., None]:
    """Give a command the options that all commands have, print its answer, and exit with the answer's code."""

    @functools.wraps(function)
    def command(*args: Any, **options: Any) -> None:  # noqa: ANN401
        _choose_language(options["project_dir"])
        answer = function(*args, **options)
        if answer is not None:
            render(answer)
            sys.exit(answer.error.exit_code if answer.error else answer.exit_code)

    for option in (
        click.option(
            "--json",
            is_flag=True,
            expose_value=False,
            callback=_remember(_JSON),
            help="Print one JSON document and nothing else.",
        ),
        click.option(
            "--trust-project",
            is_flag=True,
            expose_value=False,
            callback=_trust_project,
            help="Accept every setting of the project's reflectloop.toml, for this command only.",
        ),
        click.option(
            "--project",
            "project_dir",
            type=click.Path(path_type=Path),
            default=Path(),
            show_default="the repository around the current folder",
            help="Work on the repository around this folder.",
        ),
        click.option(
            "--language",
            metavar="NAME",
            expose_value=False,
            callback=_name_language,
            help="Speak this language: en, zh, or auto for that of your locale.",
        ),
        click.option(
            "--debug",
            is_flag=True,
            expose_value=False,
            callback=_remember(_DEBUG),
            help="Print a traceback when something goes wrong.",
        ),
    ):
        command = option(command)
    return command


def _remember(key: str) -> Callable[[click.Context, click.Parameter, bool], None]:
    def remember(context: click.Context, _option: click.Parameter, value: bool) -> None:
        context.meta[key] = value

    return remember


def _name_language(context: click.Context, _option: click.Parameter, value: str | None) -> None:
    if value is not None and value not in (languages.AUTO, *languages.names()):
        known = ", ".join([languages.AUTO, *languages.names()])
        raise click.BadParameter(f"There is no language '{value}'; known: {known}.")
    context.meta[_LANGUAGE] = value


def _choose_language(project_dir: Path) -> None:
    """Speak the language of the command line, else of the settings, which are read when something is to be shown."""
    named = click.get_current_context().meta.get(_LANGUAGE)
    if named:
        languages.use(named)
    else:
        languages.use_answer_of(lambda: _configured_language(project_dir))


def _configured_language(project_dir: Path) -> str:
    from reflectloop import settings_files

    start = project_dir.absolute()
    root = next((folder for folder in (start, *start.parents) if (folder / settings_files.NAME).is_file()), start)
    return settings_files.language(root)


def _trust_project(_context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value:
        from reflectloop import trust

        trust.trust_by_flag()


def wants_json() -> bool:
    return bool(click.get_current_context().meta.get(_JSON))


def choose_json() -> None:
    """Print this command's answer as JSON, as with `--json`."""
    click.get_current_context().meta[_JSON] = True


def wants_debug() -> bool:
    return bool(click.get_current_context().meta.get(_DEBUG))


def render(answer: Answer) -> None:
    """Print an answer as the user asked: as JSON, or as lines."""
    if wants_json():
        command = click.get_current_context().command_path.split()[1]
        data = answer.data() if callable(answer.data) else answer.data
        print_json(answer.envelope or _envelope(command, answer), data)
    elif callable(answer.lines):
        answer.lines()
    else:
        for line in answer.lines:
            show = echo_as_is if isinstance(line, QuotedNote) else echo
            show(line, err=isinstance(line, Note))


def _envelope(command: str, answer: Answer) -> Envelope:
    from reflectloop.artifacts.envelope import Envelope, of_error

    timestamp = clock.stamp(clock.now())
    envelope = Envelope(command=command, timestamp=timestamp, status="OK")
    if answer.error:
        envelope = of_error(command, timestamp, answer.error)
    update: dict[str, Any] = {"artifacts_written": [str(path) for path in answer.written]}
    update |= {"warnings": list(answer.warnings), "verified": answer.verified}
    return envelope.model_copy(update=update | ({"next": answer.next_step} if answer.next_step else {}))


def print_json(envelope: Envelope, data: Any = None) -> None:  # noqa: ANN401
    from reflectloop import trust

    complete = envelope.model_copy(update={"warnings": [*envelope.warnings, *trust.notices()]})
    document = {"envelope": complete.model_dump(mode="json"), "data": data}
    print_raw(redacted(files.json_text(document)))


def print_raw(line: str) -> None:
    """Print a line for a program to read. A reader that closed the pipe does not stop the command."""
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError) as fault:  # a closed pipe, a full disk, no standard output at all
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - the flush at exit would fail again otherwise
        if isinstance(fault, OSError) and fault.errno == errno.ENOSPC:
            raise NoSpace("the answer could not be written: no space is left where it goes") from fault


def heading(text: str, details: Sequence[str]) -> str:
    """Return the text of a finding without the details that it ends in, which are printed below it."""
    return text.replace(f": {'; '.join(details)}", "", 1) if details else text


def without_name(name: str, summary: str) -> str:
    """Return what a check gave without its name, with which some tools' summaries begin: it stands before it."""
    return summary.removeprefix(f"{name}: ")


def both_results(check: Mapping[str, Any]) -> str:
    """Return the results of a check of a stored verdict, now and on base."""
    name = check["name"]
    own = without_name(name, check["left_out"] or check["sealed"]["summary"])
    on_base = without_name(name, check["base"]["summary"]) if check["base"] else "not run"
    return f"{own}; on base: {on_base}"


def redacted(text: str) -> str:
    from reflectloop import secrets

    return secrets.current_detector().redact(text)


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a line for a person in their language, redacted and safe for a terminal."""
    _print(redacted(harmless(languages.line(text))), err=err)


def echo_as_is(text: str, *, err: bool = False) -> None:
    """Print a line that a program or a person wrote, redacted and safe for a terminal."""
    _print(redacted(harmless(text)), err=err)


def _print(text: str, *, err: bool) -> None:
    """Print a line. A reader of messages that closed the pipe (`2>&1 | head`) does not stop the work they are about."""
    try:
        click.echo(text, err=err)
    except OSError:
        if not err:
            raise
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - whatever follows has no reader either


def confirm(question: str, *, default: bool) -> bool:
    """Ask the person at the terminal."""
    return click.confirm(languages.line(question), default=default, err=True)


def harmless(text: str) -> str:
    """Return text without terminal control sequences, except colours and line breaks."""
    printable = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return terminal.coloured(printable.encode()).decode()


def plain(data: bytes) -> list[str]:
    """Return output as lines of text, without colours and other control sequences."""
    return terminal.plain(data.replace(b"\r", b"\n")).decode("utf-8", "replace").split("\n")


def warn_of_ignored(arguments: list[str]) -> None:
    """Print which settings were ignored. A JSON document lists them among its warnings."""
    from reflectloop import trust

    if "--json" not in arguments:
        for notice in trust.notices():
            echo(f"{paint('yellow', 'warning:')} {notice}", err=True)


def answer_each_line(answer: Callable[[dict[str, Any], int], dict[str, Any]]) -> None:
    """Print one JSON object for each on standard input; `answer` gets the object and its line number."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            question = json.loads(line)
        except ValueError as fault:
            raise InvalidInput(f"line {number} is not JSON: {fault}") from fault
        if not isinstance(question, dict):
            raise InvalidInput(f"line {number} is not an object")
        print_raw(json.dumps(answer(question, number)))


def report_usage_as_json(usage: click.ClickException, arguments: list[str]) -> None:
    from reflectloop.artifacts.envelope import Envelope

    print_json(
        Envelope(
            command=_command_name(arguments),
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


def _command_name(arguments: list[str]) -> str:
    return next((word for word in arguments if not word.startswith("-")), "reflectloop")


def report_error(fault: Exception, arguments: list[str]) -> int:
    """Print any error as lines or JSON, and return its exit code."""
    error = fault if isinstance(fault, ReflectloopError) else Internal(f"{type(fault).__name__}: {fault}")
    if "--debug" in arguments:
        import traceback

        sys.stderr.write(redacted("".join(traceback.format_exception(fault))))
    if "--json" in arguments:
        from reflectloop.artifacts.envelope import of_error

        print_json(of_error(_command_name(arguments), clock.stamp(clock.now()), error))
    else:
        for line in error_lines(error):
            echo(line, err=True)
    return error.exit_code


def error_lines(error: ReflectloopError) -> list[Note]:
    return [
        Note(f"{paint('red', error.code)}: {error.message}"),
        *(Note(f"  {fault}") for fault in error.faults),
        Note(f"{paint('dim', 'next:')} {error.next_step}"),
    ]


def fix_line(fix: Mapping[str, Any]) -> str:
    """Return a line about a known fix of a blocker."""
    times = fix["worked"] + fix["failed"]
    rate = f"worked {fix['worked']} of {times}" if times else "not tried yet"
    use = "is tried by itself" if fix["executable"] else "in dispute" if fix["status"] == "conflict" else "advice"
    return f"{fix['id']} ({rate}, {use}): {fix['fix'] or fix['title']}"


def paint(colour: str, text: str) -> str:
    """Return text in a colour if standard error is a terminal and NO_COLOR is not set."""
    wanted = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if wanted else text


def fit(text: str, width: int) -> str:
    """Return a text shortened or padded to this width."""
    if columns(text) > width:
        while columns(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - columns(text))


def shown_title(title: str) -> str:
    """Return the title of a plan; only the title that we gave to a plan without one is translated."""
    return languages.line(title) if title == UNTITLED else title


def cell(text: str, width: int) -> str:
    """Return a text of ours in the chosen language, padded to this width."""
    shown = languages.line(text)
    return shown + " " * (width - columns(shown))


def english_part(text: str) -> str:
    """Return the English part of a text that rules have in both languages."""
    before, sign, rest = text.partition(" (")
    return rest.removesuffix(")") if sign and not before.isascii() else text


def format_size(count: int) -> str:
    thousand, units = 1000.0, ("B", "kB", "MB", "GB", "TB")
    power = 0
    while count >= thousand ** (power + 1) and power < len(units) - 1:
        power += 1
    return f"{count / thousand**power:.{1 if power else 0}f} {units[power]}"
