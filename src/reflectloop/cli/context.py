"""The command `context`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from reflectloop.cli.render import Answer, Note, answers, echo, echo_as_is, paint
from reflectloop.commands import context as contexts
from reflectloop.context.hit import Hit
from reflectloop.context.overview import ProjectMap

_LARGEST_QUERY = 1 << 24


@click.command()
@click.argument("query", required=False, default="")
@click.option(
    "--for-failure", "run", metavar="RUN", help="Search by the output of a failed run; 'latest' is the newest."
)
@click.option(
    "--for-diff",
    "base",
    is_flag=False,
    flag_value="",
    metavar="[BASE]",
    help="Search by what changed since a commit (default: the last); the changed files are left out.",
)
@click.option("--impact", metavar="PATH", help="Show what depends on a file, and which tests cover it.")
@click.option("--map", "as_map", is_flag=True, help="Show the repository in one page.")
@click.option(
    "--tokens", type=click.IntRange(min=0), default=4000, show_default=True, help="Budget for the text shown."
)
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="At most so many files.")
@answers
def context(
    query: str,
    run: str | None,
    base: str | None,
    impact: str | None,
    as_map: bool,
    tokens: int,
    limit: int,
    project_dir: Path,
) -> Answer:
    """Find the code that a QUERY ("-": standard input), a failure or a change is about: whole functions in a budget.

    \b
    Example: reflectloop context "retries do not wait between attempts"
    """
    if query == "-":
        query = sys.stdin.buffer.read(_LARGEST_QUERY).decode("utf-8", "replace")
    if as_map + bool(impact) + bool(query or run is not None or base is not None) > 1:
        raise click.UsageError("QUERY, --impact and --map cannot be used together.")
    if as_map:
        overview = contexts.show_map(project_dir, tokens)
        return Answer(overview.as_data(), _map_lines(overview))
    if impact:
        hits = contexts.dependents(project_dir, impact, tokens=tokens, limit=limit)
    else:
        hits = contexts.search(project_dir, contexts.ContextRequest(query, run, base, tokens, limit))
    data = {"hits": [hit.as_data() for hit in hits]}
    if not hits:
        return Answer(data, [Note("nothing was found")], exit_code=1)
    return Answer(data, lambda: _print(hits))


def _print(hits: Sequence[Hit]) -> None:
    """Print places with their reasons; code stays as it is in every language."""
    for hit in hits:
        place = f"{hit.path}:{hit.start_line}-{hit.end_line}" if hit.text or hit.end_line > 1 else hit.path
        echo(f"{paint('bold', place)}  {paint('dim', hit.why)}")
        for line in hit.text.split("\n") if hit.text else ():
            echo_as_is(f"    {line}")


def _map_lines(overview: ProjectMap) -> Iterator[str]:
    languages = ", ".join(f"{name} {count}" for name, count in overview.languages.items())
    yield f"{overview.files} files: {languages}" if languages else f"{overview.files} files"
    for part, kinds in overview.parts.items():
        yield f"  {part}/: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}"
    if overview.important:
        yield "what most depends on:"
    for path, names in overview.important:
        yield f"  {path}: {', '.join(names)}" if names else f"  {path}"
