"""`tp`, `tr`, `review`: a goal into a plan, a plan into proven work, and a look at what was done."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from reflectloop.cli import render
from reflectloop.cli.interrupts import as_interrupts
from reflectloop.cli.render import colours, common, say
from reflectloop.engine.agent_tasks import planning, task_runner
from reflectloop.engine.agent_tasks.plan_import import ProposedPlan
from reflectloop.engine.agent_tasks.planning import PlanningResult, PlanRequest
from reflectloop.engine.agent_tasks.prompts import one_line
from reflectloop.engine.agent_tasks.reviews import ReviewResult
from reflectloop.engine.agent_tasks.task_runner import TaskResult
from reflectloop.engine.artifacts import usage
from reflectloop.engine.requests.fileops_session import FileopsTarget
from reflectloop.engine.run import steps
from reflectloop.errors import NeedsInput
from reflectloop.terms import Isolation

_LEVELS = click.Choice([str(level) for level in Isolation])
_LONGEST = 1_000  # of a line that tells how it goes on
_isolation = click.option("--isolation", type=_LEVELS, help="The least isolation it may have.")


@click.command()
@click.argument("goal", required=False)
@click.option("--from", "design", type=click.Path(path_type=Path), help="A design or plan file, instead of a goal.")
@click.option("--yes", "-y", is_flag=True, help="Begin without asking, for unattended work.")
@_isolation
@common
def tp(
    goal: str | None,
    design: Path | None,
    yes: bool,
    isolation: str | None,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Make a plan of GOAL: two designs that do not see each other, compared, merged, shown to you, begun.

    Who designs is said under [roles] in reflectloop.toml: planner, and second_planner where there are two.

    \b
    Example: reflectloop tp "slugify() keeps non-ASCII letters" --yes
    """
    if (goal is None) == (design is None):
        raise click.UsageError("give a GOAL, or a file with --from.")
    if goal is not None and not goal.strip():
        raise click.UsageError("GOAL must say something.")
    as_interrupts()
    place = FileopsTarget(project_dir, Isolation(isolation) if isolation else None)

    def agree(shown: ProposedPlan) -> bool:
        if not as_json:
            _show_plan(shown)
        if yes:
            return True
        if as_json or not sys.stdin.isatty():
            return False
        try:
            return click.confirm("Begin with this plan?", default=True, err=True)
        except click.Abort:
            return False  # where the design lies is told all the same

    done = planning.plan(place, PlanRequest(goal or "", design), agree, _teller(quiet=as_json))
    _told_plan(done, as_json=as_json)


def _told_plan(done: PlanningResult, *, as_json: bool) -> None:
    if done.task_id is None:
        raise NeedsInput(
            "the plan was not begun: nobody agreed to it",
            next_step=f"reflectloop tp --from {done.file} --yes",
        )
    data = {
        "task": done.task_id,
        "rounds": done.rounds,
        "designs": str(done.folder),
        "plan": done.proposed.plan.to_json(),
    }
    if as_json:
        render.answer("tp", data, next_step="reflectloop tr --all")
        return
    say(f"{colours()('green', 'OK')}: task {done.task_id} has {len(done.proposed.plan.steps)} step(s)", err=True)
    say("next: reflectloop tr --all", err=True)


def _show_plan(proposed: ProposedPlan) -> None:
    plan = proposed.plan
    say(f"{plan.title}  (track {plan.settled_track})")
    say(f"goal: {one_line(plan.objective.goal or plan.title)}")
    for step in plan.steps:
        say(f"{step.id}. {step.title or step.id}")
        for command in step.commands:
            say(f"     $ {one_line(steps.words(command))}")
        for wanted in plan.checks_of(step):
            say(f"     check {one_line(steps.describe(wanted.check))}")
    for item in plan.acceptance:
        check = f"  (check {one_line(steps.describe(plan.checks[item.check]))})" if item.check else ""
        say(f"{item.id}: {one_line(item.text)}{check}")
    for risk in proposed.risks:
        say(f"risk: {one_line(risk)}")


@click.command()
@click.option("--all", "every", is_flag=True, help="Every step, to the gates' last word.")
@_isolation
@common
def tr(every: bool, isolation: str | None, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Work on the current task: one step, or all of them with --all.

    Preflight, design, split, request, execute, handle, review, finalize; and the final review when nothing is left.
    What an agent says is a claim: the engine runs the checks, and the gates judge the whole.

    \b
    Example: reflectloop tr --all
    """
    as_interrupts()
    place = FileopsTarget(project_dir, Isolation(isolation) if isolation else None)
    done = task_runner.work(place, _teller(quiet=as_json), every=every)
    if not as_json:
        _told_papers(done)
    if done.error:
        raise done.error
    _told_work(done, as_json=as_json)


def _told_papers(done: TaskResult) -> None:
    if done.report:
        say(f"report: {done.report}", err=True)
    if done.task.spent:
        say(f"agents: {usage.line(done.task.spent_in_all)}", err=True)


def _told_work(done: TaskResult, *, as_json: bool) -> None:
    changed = done.outcome is not None and bool(done.outcome.touched)
    onward = "reflectloop tr" if done.outcome is None else "reflectloop apply" if changed else "reflectloop status"
    if as_json:
        render.answer("tr", _as_data(done), next_step=onward)
        return
    steps = done.run.steps.values()
    ready, left_out = (sum(step.status == status for step in steps) for status in ("done", "skipped"))
    told = f"{ready} of {len(steps)} step(s) done" + (f", {left_out} skipped" if left_out else "")
    what = "" if done.outcome is None or changed else "; nothing changed"
    say(f"{colours()('green', 'OK')}: {told}{what}; task {done.task.id} is {done.task.state}", err=True)
    say(f"next: {onward}", err=True)


def _as_data(done: TaskResult) -> dict[str, Any]:
    return {
        "task": done.task.id,
        "state": str(done.task.state),
        "run_id": done.run.id,
        "ended": [one._asdict() for one in done.ended],
        "steps": {step.id: step.status for step in done.run.steps.values()},
        "report": str(done.report) if done.report else None,
        "cost": usage.data(done.task),
    }


@click.command()
@click.option("--mode", type=click.Choice(["step", "task"]), default="step", show_default=True)
@_isolation
@common
def review(mode: str, isolation: str | None, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Review what the current task has come to: by rules, and by the agents that are bound to review.

    \b
    Example: reflectloop review --mode task
    """
    as_interrupts()
    place = FileopsTarget(project_dir, Isolation(isolation) if isolation else None)
    found = task_runner.reviewed(place, _teller(quiet=as_json), whole=mode == "task")
    _told_review(found, as_json=as_json)
    sys.exit(0 if found.verdict == "PASS" else 33)


def _told_review(found: ReviewResult, *, as_json: bool) -> None:
    if as_json:
        data = {"verdict": found.verdict, "by": list(found.by), "summary": found.summary}
        render.answer("review", data | {"items": [one.model_dump(mode="json") for one in found.items]})
        return
    say(f"{found.verdict} by {', '.join(found.by)}")
    for one in found.items:
        say(f"  {one.severity}: {one_line(f'{one.place}: {one.problem} {one.fix}'.removeprefix(': '))}")


def _teller(*, quiet: bool) -> Any:  # noqa: ANN401 - a function of a line
    return (lambda _line: None) if quiet else (lambda line: say(one_line(line, _LONGEST), err=True))
