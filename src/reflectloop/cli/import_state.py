"""`import-state`."""

from __future__ import annotations

from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import common, say
from reflectloop.engine.artifacts import state_import

_NEXT = "reflectloop run PLAN"


@click.command("import-state")
@click.argument("file", type=click.Path(path_type=Path))
@common
def import_state(file: Path, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Open a task from FILE, a TriFlow state.json, with its steps and how far it says they are.

    What FILE calls done is kept as a claim: nothing of it was seen here. Nothing runs.

    \b
    Example: reflectloop import-state ../other/state.json
    """
    made = state_import.import_state(project_dir, file)
    if as_json:
        render.answer("import-state", made._asdict(), next_step=_NEXT)
        return
    say(f"{made.task_id}  {made.title}: {made.total} step(s), {made.claimed} done by its own word")
    for warning in made.warnings:
        say(f"! {warning}")
    say(f"next: write the open steps as a plan with commands, then {_NEXT}")
