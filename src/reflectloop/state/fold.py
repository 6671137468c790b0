"""The state of a task, computed from its journal and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Literal

from reflectloop.errors import StateDamaged
from reflectloop.state import events
from reflectloop.state.journal import Entry

StepStatus = Literal["pending", "running", "done", "failed"]
RunStatus = Literal["running", "ok", "failed"]

# Failures of the work itself: they latch the task and count as one of its runs.
COUNTED = frozenset(
    (
        "STEP_FAILED",
        "STEP_TIMEOUT",
        "VERIFICATION_FAILED",
        "NEEDS_INPUT",
        "MAX_RETRIES",
        "SECRET_LEAK",
        "SANDBOX_ESCAPE",
    )
)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    id: str
    status: StepStatus = "pending"
    exit_code: int | None = None
    tree: str | None = None  # the one it began with, then the one it left
    duration_ms: int | None = None
    attempts: int = 0
    interrupted: int = 0  # in a row, by the engine's own death; these are no attempts
    ended: events.StepFinished | None = None


@dataclasses.dataclass(slots=True)
class Run:
    id: str
    plan_hash: str
    base_tree: str
    isolation: str
    started: str
    steps: dict[str, Step]
    status: RunStatus = "running"
    error_code: str | None = None
    end_tree: str | None = None
    applied: str | None = None
    duration_ms: int | None = None
    mode: str = "git"
    base_commit: str = ""
    decision: str | None = None  # of the sealed verification; None where none was asked for

    def count(self, status: StepStatus) -> int:
        return sum(step.status == status for step in self.steps.values())


@dataclasses.dataclass(frozen=True, slots=True)
class Latch:
    """What keeps a task from simply being run again."""

    grade: str
    reason: str
    error_code: str
    run_id: str
    step_id: str | None
    plan_hash: str
    base_tree: str


@dataclasses.dataclass(slots=True)
class Task:
    id: str = ""
    plan_path: str = ""
    title: str = ""
    runs: dict[str, Run] = dataclasses.field(default_factory=dict)
    latch: Latch | None = None
    forgiven: int = 0  # failed runs that a person's unlock has put behind

    @property
    def passed(self) -> bool:
        return any(run.status == "ok" for run in self.runs.values())

    @property
    def failures(self) -> list[Run]:
        """The failed runs that count against the limit: those in which the work failed, not the machine or the user."""
        return [run for run in self.runs.values() if run.error_code in COUNTED][self.forgiven :]


def fold(entries: Iterable[Entry]) -> Task:
    task = Task()
    for entry in entries:
        advance(task, entry)
    return task


def advance(task: Task, entry: Entry) -> None:
    """Move `task` on by one event; an event that cannot follow is refused."""
    match entry.event:
        case events.TaskOpened(task_id=task_id, plan_path=path, title=title):
            _expect(not task.id, entry, "a task is opened once")
            task.id, task.plan_path, task.title = task_id, path, title
        case events.RunStarted() as started:
            _expect(bool(task.id) and started.run_id not in task.runs, entry, "a run starts once, in an open task")
            steps = {name: Step(name) for name in started.steps}
            task.runs[started.run_id] = Run(
                started.run_id,
                started.plan_hash,
                started.base_tree,
                started.isolation,
                entry.at,
                steps,
                mode=started.mode,
                base_commit=started.base_commit,
            )
        case events.StepStarted() | events.StepFinished() | events.StepInterrupted() as turned:
            _turn_step(_running(task, entry), turned, entry)
        case events.RunResumed():
            _running(task, entry)
        case events.Judged(decision=decision):
            _running(task, entry).decision = decision
        case events.RunFinished() as ended:
            run = _running(task, entry)
            run.status = "failed" if ended.error_code else "ok"
            run.error_code, run.end_tree, run.duration_ms = (
                ended.error_code,
                ended.end_tree,
                ended.duration_ms,
            )
            for step in [step for step in run.steps.values() if step.status == "running"]:
                run.steps[step.id] = dataclasses.replace(step, status="failed")
        case events.Applied(run_id=run_id, result_tree=tree):
            _expect(run_id in task.runs and task.runs[run_id].status == "ok", entry, "only a good run is applied")
            task.runs[run_id].applied = tree
        case events.LatchSet() | events.LatchCleared() as turned:
            _turn_latch(task, turned)
        case other:
            _expect(False, entry, f"{other.kind} is not known here")


def _turn_step(
    run: Run, event: events.StepStarted | events.StepFinished | events.StepInterrupted, entry: Entry
) -> None:
    name = event.step_id
    step = run.steps.get(name, Step(""))
    wanted = "pending" if isinstance(event, events.StepStarted) else "running"
    _expect(step.status == wanted, entry, f"step {name} is not {'waiting' if wanted == 'pending' else 'running'}")
    match event:
        case events.StepStarted(tree=tree):
            run.steps[name] = dataclasses.replace(step, status="running", tree=tree, attempts=step.attempts + 1)
        case events.StepInterrupted():
            run.steps[name] = dataclasses.replace(
                step, status="pending", attempts=step.attempts - 1, interrupted=step.interrupted + 1
            )
        case events.StepFinished() as ended:
            run.steps[name] = dataclasses.replace(
                step,
                status="done" if ended.success else "failed",
                exit_code=ended.exit_code,
                tree=ended.tree,
                duration_ms=ended.duration_ms,
                interrupted=0,
                ended=ended,
            )


def _turn_latch(task: Task, event: events.LatchSet | events.LatchCleared) -> None:
    if isinstance(event, events.LatchCleared):
        task.latch = None
        task.forgiven += len(task.failures) if event.how == "unlock" else 0
    else:
        task.latch = Latch(
            event.grade, event.reason, event.error_code, event.run_id, event.step_id, event.plan_hash, event.base_tree
        )


def _running(task: Task, entry: Entry) -> Run:
    run = task.runs.get(str(entry.event.payload().get("run_id")))
    if run is None or run.status != "running":
        raise StateDamaged(f"journal line {entry.seq}: {entry.event.kind} outside a running run")
    return run


def _expect(condition: bool, entry: Entry, rule: str) -> None:
    if not condition:
        raise StateDamaged(f"journal line {entry.seq}: {entry.event.kind}: {rule}")
