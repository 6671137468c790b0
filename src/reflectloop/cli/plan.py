"""The commands `plan` and `import-state`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from reflectloop.cli.main import SuggestingGroup
from reflectloop.cli.render import Answer, answers, paint, shown_title
from reflectloop.commands import policy, state_import
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


def _load(path: Path | None, project_dir: Path) -> plans.LoadedPlan:
    root = project_dir if path else project.locate(project_dir)
    return plans.load(plans.locate(root, path))


@plan.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@answers
def check(path: Path | None, project_dir: Path) -> Answer:
    """Report all faults of the plan at PATH, each with its line.

    \b
    Example: reflectloop plan check plan.yaml
    """
    loaded = _load(path, project_dir)
    admission.refuse_incomplete(loaded.plan)

    def lines() -> Iterator[str]:
        refusals = admission.refusals(loaded.plan, policy.active_policy(project_dir))
        for warning in (
            *loaded.warnings,
            *(f"run will refuse {refusal.place}: {refusal.message}" for refusal in refusals),
        ):
            yield f"{paint('yellow', 'warning:')} {warning}"
        yield f"{paint('green', 'OK')}: {loaded.path}, {len(loaded.plan.steps)} step(s), hash {loaded.plan.hash[:12]}"

    return Answer(plan_preview.describe(loaded), lines(), next_step=f"reflectloop run {loaded.path}")


@plan.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@answers
def show(path: Path | None, project_dir: Path) -> Answer:
    """Show the plan as it was read: order, commands, checks, assumptions.

    \b
    Example: reflectloop plan show plan.yaml
    """
    description = plan_preview.describe(_load(path, project_dir))
    return Answer(description, _plan_lines(description), next_step=f"reflectloop run {description['path']}")


def _plan_lines(description: dict[str, Any]) -> Iterator[str]:
    yield f"{shown_title(description['title'])}  (track {description['track']}, hash {description['plan_hash'][:12]})"
    if description["goal"]:
        yield f"  goal: {description['goal']}"
    for number, batch in enumerate(description["batches"], 1):
        for step in batch:
            after = f"  after {', '.join(step['depends_on'])}" if step["depends_on"] else ""
            yield f"{number}. {step['id']}  {step['title']}{after}"
            yield from (f"     $ {command}" for command in step["commands"])
            if step["agent"]:
                yield f"     agent {step['agent']['role']}: {step['agent']['prompt']}"
            yield from (f"     check {text}" for text in step["checks"])
    for name, note in description["notes"].items():
        yield f"kept, not run: {name}: {json.dumps(note, ensure_ascii=False)}"
    for warning in description["warnings"]:
        yield f"warning: {warning}"


@plan.command()
@answers
def schema(project_dir: Path) -> Answer:  # noqa: ARG001
    """Print the JSON Schema of a plan, for editors and generators.

    \b
    Example: reflectloop plan schema > plan.schema.json
    """
    return Answer(plan_schema(), lambda: click.echo(json.dumps(plan_schema(), indent=2)))


@click.command("import-state")
@click.argument("file", type=click.Path(path_type=Path))
@answers
def import_state(file: Path, project_dir: Path) -> Answer:
    """Open a task from FILE, a TriFlow state.json, with its steps and their stated progress.

    What FILE calls done is recorded as a claim, because the engine did not see it. Nothing is run.

    \b
    Example: reflectloop import-state ../other/state.json
    """
    imported = state_import.import_state(project_dir, file)
    lines = [
        f"{imported.task_id}  {imported.title}: {imported.total} step(s), {imported.claimed} claimed as done",
        *(f"! {warning}" for warning in imported.warnings),
        f"next: write the open steps as a plan with commands, then {_RUN}",
    ]
    return Answer(imported._asdict(), lines, next_step=_RUN)
