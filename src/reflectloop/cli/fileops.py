"""The commands `fileops` and `template`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click

from reflectloop import languages
from reflectloop.cli import render
from reflectloop.cli.render import Answer, answers, echo
from reflectloop.engine.requests import fileops_session as sessions
from reflectloop.engine.requests import imported_task
from reflectloop.errors import InvalidInput, ReflectloopError
from reflectloop.fileops import execute, json_from_text, templates
from reflectloop.fileops.response import Response
from reflectloop.system import clock, files


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default=Path("-"), metavar="[FILE|-]")
@click.option("--strict", is_flag=True, help="Also require summary, done and report.")
@click.option("--serve", is_flag=True, help="Answer JSON lines from standard input, one each, until it ends.")
@answers
def fileops(file: Path, strict: bool, serve: bool, project_dir: Path) -> None:
    """Carry out a request in the workspace of the current task; print the answer, which is always JSON.

    \b
    Example: reflectloop template run_checks 'command=["make", "test"]' | reflectloop fileops
    """
    if serve and file != Path("-"):
        raise click.UsageError("--serve reads standard input, not a FILE.")
    target = sessions.FileopsTarget(project_dir)
    sys.exit(_serve(target, strict=strict) if serve else _answer(target, file, strict=strict))


def _answer(target: sessions.FileopsTarget, file: Path, *, strict: bool) -> int:
    raw = b""
    try:
        raw = _read(file)
        response = imported_task.answer(target, raw, strict=strict)
    except ReflectloopError as error:
        return _report(error, sessions.id_in(raw))
    _print(response, indent=2)
    return sessions.EXIT_CODES[response.status]


def _serve(target: sessions.FileopsTarget, *, strict: bool) -> int:
    raw = b""
    try:
        with sessions.open_session(target) as session:
            for raw in _lines(sys.stdin.buffer):
                _print(execute.answer(raw, session.ops, strict=strict))
    except ReflectloopError as error:
        return _report(error, sessions.id_in(raw))
    return 0


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """Yield the lines, in bounded memory: a line above the limit is cut right after it, so that it is refused."""
    while line := source.readline(json_from_text.LARGEST + 1):
        rest = line
        while len(rest) > json_from_text.LARGEST and not rest.endswith(b"\n"):
            rest = source.readline(json_from_text.LARGEST + 1)
        if line.strip():
            yield line


def _read(file: Path) -> bytes:
    if file == Path("-"):
        return sys.stdin.buffer.read(json_from_text.LARGEST + 1)
    try:
        with file.open("rb") as source:
            return source.read(json_from_text.LARGEST + 1)
    except OSError as fault:
        raise InvalidInput(f"cannot read {file}: {fault.strerror}", next_step="reflectloop fileops FILE") from fault


def _print(response: Response, indent: int | None = None) -> None:
    render.print_raw(files.json_text(response.as_json(), indent=indent))


def _report(error: ReflectloopError, request_id: str) -> int:
    """Print the error twice: as JSON for the sender of the request, and as text for the person who runs the program."""
    _print(sessions.of_error(error, request_id))
    for line in render.error_lines(error):
        echo(line, err=True)
    return error.exit_code


@click.command()
@click.argument("name", required=False)
@click.argument("values", nargs=-1, metavar="[KEY=VALUE…]")
@click.option("--list", "listed", is_flag=True, help="List the templates, or the placeholders of one.")
@click.option("--readme", is_flag=True, help="Print how templates are used.")
@answers
def template(
    name: str | None,
    values: tuple[str, ...],
    listed: bool,
    readme: bool,
    project_dir: Path,  # noqa: ARG001
) -> Answer | None:
    """Print a valid request made from template NAME; a value that looks like JSON is read as JSON.

    \b
    Example: reflectloop template run_checks 'command=["make", "test"]'
    """
    if readme:
        text = templates.readme()
        return Answer({"readme": text}, text.splitlines())
    if listed or name is None:
        return _list([name] if name else templates.names())
    chosen = templates.load(name)
    filled = templates.parse_values(chosen, values)
    filled.setdefault("id", f"{name}-{clock.run_id(clock.now())}")
    render.print_raw(files.json_text(templates.fill_template(chosen, filled).as_json()))
    return None


def _list(names: list[str]) -> Answer:
    data: dict[str, Any] = {}
    lines = []
    for known in (templates.load(name) for name in names):
        placeholders = {
            key: gap.model_dump(exclude={"default"} if gap.required else None) for key, gap in known.gaps.items()
        }
        data[known.name] = {"about": known.about, "placeholders": placeholders}
        lines.append(f"{known.name:18} {languages.line(known.about)}")
        for key, gap in known.gaps.items():
            # Piece by piece: the values of templates are words that messages consist of, such as `step`.
            default = "" if gap.required else languages.line(f" (default: {json.dumps(gap.default)})")
            about, source = languages.line(gap.about), languages.line(f"; from: {gap.source}")
            lines.append(f"  {key:16} {gap.type}: {about}{default}{source}")
    return Answer(data, lambda: render.echo_as_is("\n".join(lines)))
