"""The command `brief`. It changes nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from reflectloop import languages
from reflectloop.cli import render
from reflectloop.cli.render import Answer, answers

_TOKENS = 6_000  # as in the engine, which is not loaded for `--help`


@click.command()
@click.argument("task", required=False)
@click.option("--tokens", type=int, default=_TOKENS, show_default=True, help="Print at most about so many tokens.")
@answers
def brief(task: str | None, tokens: int, project_dir: Path) -> Answer:
    """Print everything an agent that remembers nothing needs to continue TASK (default: the current one).

    It is made from state alone and changes nothing: goal, contract, plan, code, lessons, what was tried and how it
    failed, the evidence that is missing, and the next command. The same state gives the same bytes, newest facts last.

    \b
    Example: reflectloop brief --tokens 12000
    """
    from reflectloop.engine.brief import briefing, telling
    from reflectloop.workspace.folders import open_project_dirs

    facts = briefing.collect(open_project_dirs(project_dir), task, tokens=tokens)

    def show() -> None:
        text = telling.text(facts, languages.line)
        if sys.stdout.isatty():
            render.echo_as_is(text.removesuffix("\n"))
        else:
            render.print_raw(render.redacted(text).removesuffix("\n"))

    return Answer(lambda: facts.model_dump(mode="json"), show, next_step=facts.now.next)
