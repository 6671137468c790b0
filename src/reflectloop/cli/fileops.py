"""`fileops` and `template`: requests answered, and requests made from a template."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from reflectloop.cli import render
from reflectloop.cli.render import common, say
from reflectloop.engine.requests import fileops_session as flow
from reflectloop.errors import InvalidInput, ReflectloopError
from reflectloop.fileops import execute, json_from_text, templates
from reflectloop.fileops.response import Response
from reflectloop.system import clock


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default=Path("-"), metavar="[FILE|-]")
@click.option("--strict", is_flag=True, help="Also ask for summary, done and report.")
@click.option("--serve", is_flag=True, help="Answer JSON lines from standard input, one each, until it ends.")
@common
def fileops(file: Path, strict: bool, serve: bool, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Carry out a request in the workspace of the current task; print the answer, which is always JSON.

    \b
    Example: reflectloop template preflight | reflectloop fileops
    """
    if serve and file != Path("-"):
        raise click.UsageError("--serve reads standard input, not a FILE")
    place = flow.FileopsTarget(project_dir)
    sys.exit(_serve(place, strict=strict) if serve else _answer(place, file, strict=strict))


def _answer(place: flow.FileopsTarget, file: Path, *, strict: bool) -> int:
    raw = b""
    try:
        raw = _read(file)
        answer = flow.answer(place, raw, strict=strict)
    except ReflectloopError as error:
        return _refused(error, flow.id_in(raw))
    _tell(answer, indent=2)
    return flow.EXIT_CODES[answer.status]


def _serve(place: flow.FileopsTarget, *, strict: bool) -> int:
    raw = b""
    try:
        with flow.open_session(place) as session:
            for raw in _lines(sys.stdin.buffer):
                _tell(execute.answer(raw, session.ops, strict=strict))
    except ReflectloopError as error:
        return _refused(error, flow.id_in(raw))
    return 0


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """One at a time, in bounded memory: of a line that is too long, as much as shows that it is."""
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


def _tell(answer: Response, indent: int | None = None) -> None:
    render.tell_program(json.dumps(answer.as_json(), indent=indent))


def _refused(error: ReflectloopError, request_id: str) -> int:
    """Who sent a request reads JSON; who started the program reads what to do."""
    _tell(flow.of_error(error, request_id))
    render.explain(error)
    return error.exit_code


@click.command()
@click.argument("name", required=False)
@click.argument("values", nargs=-1, metavar="[KEY=VALUE…]")
@click.option("--list", "listed", is_flag=True, help="Say which templates there are, or what one takes.")
@common
def template(
    name: str | None,
    values: tuple[str, ...],
    listed: bool,
    project_dir: Path,  # noqa: ARG001
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Print a valid request made from template NAME; values are read as JSON where they look like it.

    \b
    Example: reflectloop template run_checks 'command=["make", "test"]'
    """
    if listed or name is None:
        _list([name] if name else templates.names(), as_json=as_json)
        return
    chosen = templates.load(name)
    given = templates.parse_values(chosen, values)
    given.setdefault("id", f"{name}-{clock.run_id(clock.now())}")
    render.tell_program(json.dumps(templates.fill_template(chosen, given).as_json(), indent=2))


def _list(names: list[str], *, as_json: bool) -> None:
    known = [templates.load(name) for name in names]
    if as_json:
        gaps = {
            one.name: {
                key: gap.model_dump(exclude={"default"} if gap.required else None) for key, gap in one.gaps.items()
            }
            for one in known
        }
        render.answer("template", {one.name: {"about": one.about, "placeholders": gaps[one.name]} for one in known})
        return
    for one in known:
        say(f"{one.name:18} {one.about}")
        for key, gap in one.gaps.items():
            need = "" if gap.required else f" (default: {json.dumps(gap.default)})"
            say(f"  {key:16} {gap.type}: {gap.about}{need}")
