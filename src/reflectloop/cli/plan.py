"""The commands `plan` and `import-state`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.main import SuggestingGroup
from reflectloop.cli.render import colours, common, say
from reflectloop.engine import policy_command
from reflectloop.engine.artifacts import state_import
from reflectloop.engine.run import admission, plan_preview
from reflectloop.plan import load as plans
from reflectloop.plan.schema import plan_schema
from reflectloop.workspace import project

_RUN = "reflectloop run PLAN"


@click.group(cls=SuggestingGroup)
def plan() -> None:
    """Check or show a plan, or print the JSON Schema of plans.

    \b
    Example: reflectloop plan check plan.yaml
    """


def _load(given: Path | None, project_dir: Path) -> plans.LoadedPlan:
    root = project_dir if given else project.locate(project_dir)
    return plans.load(plans.locate(root, given))


@plan.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@common
def check(path: Path | None, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Report every fault of the plan at PATH at once, each with its line.

    \b
    Example: reflectloop plan check plan.yaml
    """
    loaded = _load(path, project_dir)
    admission.refuse_incomplete(loaded.plan)
    if as_json:
        render.answer("plan", plan_preview.describe(loaded), next_step=f"reflectloop run {loaded.path}")
        return
    paint = colours()
    refused = [
        f"{one.place}: {one.said}" for one in admission.refusals(loaded.plan, policy_command.in_force(project_dir))
    ]
    for warning in (*loaded.warnings, *(f"run will refuse {one}" for one in refused)):
        say(f"{paint('yellow', 'warning:')} {warning}")
    say(f"{paint('green', 'OK')}: {loaded.path}, {len(loaded.plan.steps)} step(s), hash {loaded.plan.hash[:12]}")


@plan.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@common
def show(path: Path | None, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Show the plan as it was understood: order, commands, checks, what was assumed.

    \b
    Example: reflectloop plan show plan.yaml
    """
    shown = plan_preview.describe(_load(path, project_dir))
    if as_json:
        render.answer("plan", shown, next_step=f"reflectloop run {shown['path']}")
        return
    say(f"{shown['title']}  (track {shown['track']}, hash {shown['plan_hash'][:12]})")
    if shown["goal"]:
        say(f"  goal: {shown['goal']}")
    for number, batch in enumerate(shown["batches"], 1):
        for step in batch:
            after = f"  after {', '.join(step['depends_on'])}" if step["depends_on"] else ""
            say(f"{number}. {step['id']}  {step['title']}{after}")
            for command in step["commands"]:
                say(f"     $ {command}")
            if step["agent"]:
                say(f"     agent {step['agent']['role']}: {step['agent']['prompt']}")
            for line in step["checks"]:
                say(f"     check {line}")
    for name, note in shown["notes"].items():
        say(f"kept, not run: {name}: {json.dumps(note, ensure_ascii=False)}")
    for warning in shown["warnings"]:
        say(f"warning: {warning}")


@plan.command()
@common
def schema(project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Print the JSON Schema of a plan, for editors and generators.

    \b
    Example: reflectloop plan schema > plan.schema.json
    """
    if as_json:
        render.answer("plan", plan_schema())
    else:
        click.echo(json.dumps(plan_schema(), indent=2))


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
        render.answer("import-state", made._asdict(), next_step=_RUN)
        return
    say(f"{made.task_id}  {made.title}: {made.total} step(s), {made.claimed} done by its own word")
    for warning in made.warnings:
        say(f"! {warning}")
    say(f"next: write the open steps as a plan with commands, then {_RUN}")
