"""The demo with scripted agents: a goal, a false claim, an edited test, a review, a patch."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import NamedTuple

from reflectloop import languages, trust
from reflectloop.agents.answer_models import PlanDesign
from reflectloop.artifacts import usage
from reflectloop.commands import apply_run
from reflectloop.demo.project import Say, check_tests, check_untouched, lay_out, opened
from reflectloop.engine.agent_tasks import planning, task_runner
from reflectloop.engine.agent_tasks.plan_import import ProposedPlan
from reflectloop.engine.agent_tasks.planning import PlanningResult, PlanRequest
from reflectloop.engine.agent_tasks.task_runner import TaskResult
from reflectloop.engine.requests.fileops_session import FileopsTarget
from reflectloop.errors import Internal
from reflectloop.plan.model import Plan

_GOAL = "The last page is shown"
_SCRIPT = "agents.yaml"
_SETTINGS = f"""\
[roles]
planner = "script"
second_planner = "script"
executor = "script"
reviewer = "script"

[agents.script]
file = "../{_SCRIPT}"
"""


class ExpectedLine(NamedTuple):
    """A line that the engine must print, and its explanation."""

    part: str
    kind: str
    moral: str


_EXPECTED = (
    ExpectedLine(
        "the agent said that it is done, and no file differs",
        "failed",
        "the executor said that all tests pass; the engine looked, and nothing had changed",
    ),
    ExpectedLine(
        "step 1 is done",
        "step",
        "green, and the reviewer was content; but the test that was red had only been renamed",
    ),
    ExpectedLine("step 2 is done", "step", "a step made of commands asked no executor"),
    ExpectedLine(
        "the gates refuse it",
        "failed",
        "the gates know the tests as they were, and name the one that no longer runs; the executor is told",
    ),
    ExpectedLine(
        "the review asks for another attempt",
        "failed",
        "now the work is right; the reviewer, who saw only the change and the evidence, wants one thing more",
    ),
    ExpectedLine(
        "step 3 is done", "step", "told what was wrong, it did it; red before, green after, the tests as they were"
    ),
)


class _ExpectedLineChecker:
    """Passes the engine's lines on and checks that the expected ones occur."""

    def __init__(self, say: Say) -> None:
        self.say, self.left = say, list(_EXPECTED)

    def hear(self, line: str) -> None:
        expected = self.left[0] if self.left and self.left[0].part in line else None
        if expected:
            self.left.pop(0)
            self.say(expected.kind, line)
            self.say("moral", expected.moral)
        else:
            self.say("moral", line)


def play(say: Say) -> None:
    """Run the demo; raise Internal if a result differs from what it shows."""
    with opened() as stage, trust.trusting_project():
        project = lay_out(stage / "pager", _SETTINGS)
        builtin = importlib.resources.files("reflectloop.demo").joinpath(_SCRIPT)
        (stage / _SCRIPT).write_bytes(builtin.read_bytes())
        place = FileopsTarget(project, sandbox_root=stage / "sandbox")
        _plan(place, say)
        done = _work(place, say)
        check_untouched(project)
        _report(done, say)
        _apply(project, say)


def _plan(place: FileopsTarget, say: Say) -> None:
    say("scene", "Two planners make a plan, and neither sees the other's")
    say("do", f'reflectloop tp "{_GOAL}"')
    agreed: list[Plan] = []

    def agree(proposed: ProposedPlan) -> bool:
        agreed.append(proposed.plan)
        return True

    planned = planning.plan(place, PlanRequest(_GOAL), agree, lambda line: say("moral", line))
    first, second = (_design(planned, name) for name in ("design-first", "design-second"))
    for who, design in (("planner", first), ("second planner", second), ("merged", planned.proposed.plan)):
        say("step", f"{who}: {design.title} ({len(design.steps)} step(s))")
    _check_plan(planned, agreed, first, second)
    say("answer", f"agreed to after {planned.rounds} round, shown, confirmed: task {planned.task_id}")


def _design(planned: PlanningResult, name: str) -> PlanDesign:
    return PlanDesign.model_validate_json((planned.folder / f"{name}.json").read_bytes())


def _check_plan(planned: PlanningResult, agreed: list[Plan], first: PlanDesign, second: PlanDesign) -> None:
    if first == second or planned.rounds != 1 or agreed != [planned.proposed.plan]:
        raise Internal("demo: two designs that differ were to be merged in a round, and confirmed once")
    prompts = [(planned.folder / f"{who}.prompt.md").read_text() for who in ("planner", "second_planner")]
    if prompts[0] != prompts[1] or any(design.title in prompts[0] for design in (first, second)):
        raise Internal("demo: neither planner was to see the other's design")


def _work(place: FileopsTarget, say: Say) -> TaskResult:
    say("scene", "An executor that claims, cheats, is told, and does it")
    say("do", "reflectloop tr --all")
    checker = _ExpectedLineChecker(say)
    done = task_runner.work(place, checker.hear, every=True)
    if checker.left:
        raise Internal(f"demo: the engine was to say: {checker.left[0].part}")
    if done.error or done.outcome is None or done.task.state != "DONE":
        raise Internal(f"demo: the task was to be done, and is {done.task.state}: {done.error}")
    if {change.path for change in done.outcome.touched} != {"pager.py", "CHANGES.md"}:
        raise Internal("demo: the patch was to hold the fix and its note, and no test")
    say("answer", "OK, exit 0")
    return done


def _report(done: TaskResult, say: Say) -> None:
    say("scene", "The final report, and what it cost")
    text = done.report.read_text() if done.report else ""
    table = usage.table(done.task)
    passed = (
        f"The gates let it through: {done.run.id}, {len(done.outcome.touched if done.outcome else ())} file(s) changed."
    )
    if languages.line(passed) not in text or languages.document("\n".join(table)) not in text:
        raise Internal("demo: the report was to say what the gates said, and what it cost")
    spent = done.task.spent_in_all
    if not (spent.unpriced and spent.usd and spent.tokens):
        raise Internal("demo: tokens and money were to be counted, and what is unknown apart")
    say("do", f"cat .reflectloop/final/{done.task.id}-report.md")
    for line in table:
        say("moral", line)
    say("moral", "what nobody knows the price of is said to be unknown, and never nothing")


def _apply(project: Path, say: Say) -> None:
    say("scene", "The patch is applied")
    before = (project / "test_pager.py").read_bytes()
    apply_run.apply(project, None, commit=False, branch=None, message=None, agree=lambda _: True)
    say("do", "reflectloop apply")
    check_tests(project)
    if (project / "test_pager.py").read_bytes() != before:
        raise Internal("demo: the tests were to stay as they are")
    say("moral", "until now your files were as you left them; now the project's own tests pass")
