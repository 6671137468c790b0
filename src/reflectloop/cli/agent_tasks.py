"""The commands `tp`, `tr` and `review`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from reflectloop.artifacts import usage
from reflectloop.cli import render
from reflectloop.cli.interrupts import as_interrupts
from reflectloop.cli.progress import PlainProgress, observe
from reflectloop.cli.render import Answer, Note, answers, echo, paint
from reflectloop.cli.run import executor_option
from reflectloop.engine.agent_tasks import planning, task_runner
from reflectloop.engine.agent_tasks.plan_import import ProposedPlan
from reflectloop.engine.agent_tasks.planning import PlanningResult, PlanRequest
from reflectloop.engine.agent_tasks.task_runner import TaskResult
from reflectloop.engine.requests.fileops_session import FileopsTarget
from reflectloop.engine.run.request import NullObserver, RunObserver
from reflectloop.engine.steps.prompts import one_line
from reflectloop.errors import GateRejected, NeedsInput
from reflectloop.plan.model import command_text
from reflectloop.terms import Isolation

_LONGEST = 1_000  # characters of a line of progress
_LARGEST = 4 << 20  # bytes of a design
_isolation = click.option(
    "--isolation",
    type=click.Choice([str(level) for level in Isolation]),
    help="Refuse to run with less isolation than this.",
)


def _target(project_dir: Path, isolation: str | None) -> FileopsTarget:
    return FileopsTarget(project_dir, Isolation(isolation) if isolation else None)


def _progress(observer: RunObserver) -> Callable[[str], None]:
    """Return a function that shows a line of progress."""
    if isinstance(observer, PlainProgress):
        return lambda line: observer.say(one_line(line, _LONGEST))
    return lambda _line: None


@click.command()
@click.argument("goal", required=False)
@click.option(
    "--from",
    "design",
    type=click.Path(path_type=Path),
    help="A design or plan file instead of a goal; - reads a design from standard input.",
)
@click.option("--yes", "-y", is_flag=True, help="Begin without a question, for unattended work.")
@click.option("--loop", is_flag=True, help="Then let autoloop carry the plan out in the background.")
@_isolation
@answers
def tp(
    goal: str | None, design: Path | None, yes: bool, loop: bool, isolation: str | None, project_dir: Path
) -> Answer:
    """Let agents write a plan for GOAL: two independent designs are compared and merged, and shown to you first.

    The agents are named under [roles] in reflectloop.toml: planner, and second_planner if there are two.

    \b
    Example: reflectloop tp "slugify() keeps non-ASCII letters" --yes
    """
    if (goal is None) == (design is None):
        raise click.UsageError("Name a GOAL, or a file with --from.")
    if goal is not None and not goal.strip():
        raise click.UsageError("GOAL must say something.")
    as_interrupts()
    with _as_file(design) as file:
        planned = _planned(_target(project_dir, isolation), PlanRequest(goal or "", file), yes=yes)
    if not loop:
        return planned
    from reflectloop.cli.autoloop import continue_in_background

    started = continue_in_background(project_dir)
    lines = [line for answer in (planned, started) if not callable(answer.lines) for line in answer.lines]
    lines = [line for line in lines if not line.startswith("next: ")] + [Note(f"next: {started.next_step}")]
    return planned._replace(lines=lines, next_step=started.next_step)


@contextmanager
def _as_file(design: Path | None) -> Iterator[Path | None]:
    """Yield the file of a design; standard input becomes one for as long as it is read."""
    if design is None or str(design) != "-":
        yield design
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "design.json"
        path.write_bytes(sys.stdin.buffer.read(_LARGEST))
        yield path


def _planned(target: FileopsTarget, request: PlanRequest, *, yes: bool) -> Answer:
    quiet = render.wants_json()

    def agree(proposed: ProposedPlan) -> bool:
        if not quiet:
            for line in _plan_lines(proposed):
                echo(line)
        if yes:
            return True
        if quiet or not sys.stdin.isatty():
            return False
        try:
            return render.confirm("Begin with this plan?", default=True)
        except click.Abort:
            return False  # the answer still names the file of the design

    observer = NullObserver() if quiet else PlainProgress()  # the plan is printed, and a question asked
    return _plan_answer(planning.plan(target, request, agree, _progress(observer)))


def _plan_answer(result: PlanningResult) -> Answer:
    if result.task_id is None:
        raise NeedsInput(
            "the plan was not begun: nobody agreed to it",
            next_step=f"reflectloop tp --from {result.file} --yes",
        )
    data = {
        "task": result.task_id,
        "rounds": result.rounds,
        "designs": str(result.folder),
        "plan": result.proposed.plan.to_json(),
    }
    lines = [
        Note(f"{paint('green', 'OK')}: task {result.task_id} has {len(result.proposed.plan.steps)} step(s)"),
        Note("next: reflectloop tr --all"),
    ]
    return Answer(data, lines, next_step="reflectloop tr --all")


def _plan_lines(proposed: ProposedPlan) -> Iterator[str]:
    plan = proposed.plan
    yield f"{plan.title}  (track {plan.settled_track})"
    yield f"goal: {one_line(plan.objective.goal or plan.title)}"
    for step in plan.steps:
        yield f"{step.id}. {step.title or step.id}"
        yield from (f"     $ {one_line(command_text(command))}" for command in step.commands)
        yield from (f"     check {one_line(wanted.check.description)}" for wanted in plan.checks_of(step))
    for criterion in plan.acceptance:
        check = f"  (check {one_line(plan.checks[criterion.check].description)})" if criterion.check else ""
        yield f"{criterion.id}: {one_line(criterion.text)}{check}"
    for risk in proposed.risks:
        yield f"risk: {one_line(risk)}"


@click.command()
@click.option("--all", "every", is_flag=True, help="Execute every step, then run the gates.")
@executor_option
@_isolation
@answers
def tr(every: bool, isolation: str | None, project_dir: Path) -> Answer:
    """Execute the current task's steps with agents: one step, or all of them with --all, and then the gates.

    Each step goes through preflight, design, split, request, execute, handle, review and finalize; a final review
    follows the last step. An agent's report proves nothing: the engine runs the checks, and the gates judge the change.

    \b
    Example: reflectloop tr --all
    """
    as_interrupts()
    with observe() as observer:
        result = task_runner.work(_target(project_dir, isolation), _progress(observer), observer, every=every)
    if not render.wants_json():
        _print_files_and_cost(result)
    if result.error:
        raise result.error
    return Answer(_task_data(result), _task_lines(result), next_step=_next_command(result))


def _print_files_and_cost(result: TaskResult) -> None:
    if result.report:
        echo(f"report: {result.report}", err=True)
    if result.task.spent:
        echo(f"agents: {usage.usage_line(result.task.spent_in_all)}", err=True)


def _next_command(result: TaskResult) -> str:
    if result.outcome is None:
        return "reflectloop tr"
    return "reflectloop apply" if result.outcome.touched else "reflectloop status"


def _task_lines(result: TaskResult) -> Iterator[Note]:
    states = [step.status for step in result.run.steps.values()]
    done, skipped = states.count("done"), states.count("skipped")
    progress = f"{done} of {len(states)} step(s) done" + (f", {skipped} skipped" if skipped else "")
    unchanged = "; nothing changed" if result.outcome is not None and not result.outcome.touched else ""
    word = result.outcome.outcome if result.outcome and result.outcome.outcome else "OK"
    yield Note(f"{paint('green', word)}: {progress}{unchanged}; task {result.task.id} is {result.task.state}")
    yield Note(f"next: {_next_command(result)}")


def _task_data(result: TaskResult) -> dict[str, object]:
    return {
        "task": result.task.id,
        "state": str(result.task.state),
        "outcome": result.run.outcome or None,
        "run_id": result.run.id,
        "ended": [attempt._asdict() for attempt in result.ended],
        "steps": {step.id: step.status for step in result.run.steps.values()},
        "report": str(result.report) if result.report else None,
        "cost": usage.data(result.task),
    }


@click.command()
@click.option(
    "--mode", type=click.Choice(["step", "task"]), default="step", show_default=True, help="Review one step, or all."
)
@_isolation
@answers
def review(mode: str, isolation: str | None, project_dir: Path) -> Answer:
    """Review the work of the current task, by rules and by the agents in the role of reviewer.

    \b
    Example: reflectloop review --mode task
    """
    as_interrupts()
    with observe() as observer:
        tell = _progress(observer)
        result = task_runner.reviewed(_target(project_dir, isolation), tell, whole=mode == "task")
    items = [
        f"  {item.severity}: {one_line(f'{item.place}: {item.problem} {item.fix}'.removeprefix(': '))}"
        for item in result.items
    ]
    data = {
        "verdict": result.verdict,
        "by": list(result.by),
        "summary": result.summary,
        "items": [item.model_dump(mode="json") for item in result.items],
    }
    passed = result.verdict == "PASS"
    lines = [f"{result.verdict} by {', '.join(result.by)}", *items]
    return Answer(data, lines, exit_code=0 if passed else GateRejected.exit_code)
