"""The state of a task, computed from its journal and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, NamedTuple

from reflectloop.errors import StateDamaged
from reflectloop.state import events
from reflectloop.state.journal import JournalEntry
from reflectloop.state.transitions import TaskState, allowed
from reflectloop.terms import Decision

StepStatus = Literal["pending", "running", "done", "failed", "blocked", "skipped"]
RunStatus = Literal["running", "ok", "failed"]


class TaskKind(StrEnum):
    """Who executes the steps of a run."""

    RUN = "run"  # `reflectloop run`: the engine, from a plan file
    AGENTS = "agents"  # `reflectloop tr`: the engine, one step at a time, with agents
    REQUESTS = "requests"  # an outside program, by FileOps requests
    IMPORTED = "imported"  # nobody: the state was imported

    @property
    def is_stepwise(self) -> bool:
        """Return whether steps are executed one at a time between commands, and the gates run when none is left."""
        return self in (TaskKind.AGENTS, TaskKind.REQUESTS)


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


class StepState(NamedTuple):
    id: str
    status: StepStatus = "pending"
    exit_code: int | None = None
    tree: str | None = None  # the one it began with, then the one it left
    start: str | None = None  # the one it began with, once it came to an end
    duration_ms: int | None = None
    attempts: int = 0
    interrupted: int = 0  # in a row, by the engine's own death; these are no attempts
    ended: events.StepFinished | None = None
    answer: str = ""  # of a person, while it was blocked
    reason: str = ""  # why it was skipped, why it failed, or on whose word it is done
    forgiven: int = 0  # attempts that a person's answer has put behind
    unblock: str = ""  # what would let it go on, while it is blocked


@dataclasses.dataclass(slots=True)
class RunState:
    id: str
    plan_hash: str
    base_tree: str
    isolation: str
    started: str
    steps: dict[str, StepState]
    status: RunStatus = "running"
    error_code: str | None = None
    end_tree: str | None = None
    applied: str | None = None
    duration_ms: int | None = None
    mode: str = "git"
    base_commit: str = ""
    order: list[str] = dataclasses.field(default_factory=list)  # in which steps came to their end
    decision: str | None = None  # of the sealed verification; None where none was asked for
    titles: dict[str, str] = dataclasses.field(default_factory=dict)  # of steps that no plan describes
    details: dict[str, events.Json] = dataclasses.field(default_factory=dict)
    objective: events.Json = dataclasses.field(default_factory=dict)
    fixes: list[events.Json] = dataclasses.field(default_factory=list)  # that were tried, of each step's last attempt

    @property
    def kind(self) -> TaskKind:
        if self.mode == events.BY_REQUESTS:
            return TaskKind.AGENTS if self.objective.get("made_by") == events.MADE_BY_TP else TaskKind.REQUESTS
        return TaskKind.IMPORTED if self.mode == events.IMPORTED else TaskKind.RUN

    @property
    def unfinished_steps(self) -> list[StepState]:
        return [step for step in self.steps.values() if step.status not in ("done", "skipped")]

    @property
    def reached(self) -> str:
        """The tree that the last step to be done left, where steps come one after another."""
        trees = (self.steps[name].tree for name in reversed(self.order) if self.steps[name].status == "done")
        return next((tree for tree in trees if tree), self.base_tree)

    @property
    def stands(self) -> str:
        """The same, or the tree that the step at work began with."""
        begun = (step.tree for step in self.steps.values() if step.status == "running")
        return next((tree for tree in begun if tree), self.reached)

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


@dataclasses.dataclass(frozen=True, slots=True)
class AgentUsage:
    """What agents have used; money that nobody knows is counted apart, and never as nothing."""

    calls: int = 0
    tokens: int = 0
    turns: int = 0
    wall_ms: int = 0
    usd: float = 0.0
    unpriced: int = 0  # calls of unknown price

    def plus(self, other: AgentUsage) -> AgentUsage:
        return AgentUsage(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @classmethod
    def of(cls, asked: events.AgentAsked) -> AgentUsage:
        tokens = asked.input_tokens + asked.output_tokens + asked.cache_read_tokens + asked.cache_write_tokens
        usd, unpriced = asked.cost_usd or 0.0, asked.cost_usd is None
        return cls(1, tokens, asked.turns, asked.duration_ms, usd, int(unpriced))


@dataclasses.dataclass(slots=True)
class Task:
    id: str = ""
    plan_path: str = ""
    title: str = ""
    runs: dict[str, RunState] = dataclasses.field(default_factory=dict)
    latch: Latch | None = None
    forgiven: int = 0  # failed runs that a person's unlock has put behind
    state: TaskState = TaskState.IDLE
    left: TaskState | None = None  # what a pause will go back to
    gated: list[events.Json] = dataclasses.field(default_factory=list)  # what gates said since a person last unlocked
    spent: dict[str, dict[str, AgentUsage]] = dataclasses.field(default_factory=dict)  # by step, then by role
    granted: AgentUsage = AgentUsage()  # what was spent when a person last unlocked
    met: dict[str, list[str]] = dataclasses.field(default_factory=dict)  # failures by signature: the step of each time

    @property
    def last_run(self) -> RunState | None:
        """Return the run that started last, or None."""
        return next(reversed(self.runs.values()), None)

    @property
    def passed(self) -> bool:
        return any(run.status == "ok" for run in self.runs.values())

    @property
    def spent_in_all(self) -> AgentUsage:
        total = AgentUsage()
        for one in (spent for roles in self.spent.values() for spent in roles.values()):
            total = total.plus(one)
        return total

    @property
    def failures(self) -> list[RunState]:
        """The failed runs that count against the limit: those in which the work failed, not the machine or the user."""
        return [run for run in self.runs.values() if run.error_code in COUNTED][self.forgiven :]


def fold(entries: Iterable[JournalEntry]) -> Task:
    task = Task()
    for entry in entries:
        advance(task, entry)
    return task


def advance(task: Task, entry: JournalEntry) -> None:
    """Move `task` on by one event; an event that cannot follow is refused."""
    if type(entry.event) in _WANTED:  # first, since nearly all are of these
        _turn_step(task, _running(task, entry), entry.event, entry)
        return
    match entry.event:
        case events.TaskOpened(task_id=task_id, plan_path=path, title=title):
            _expect(not task.id, entry, "a task is opened once")
            task.id, task.plan_path, task.title = task_id, path, title
            _move(task, entry, TaskState.INTAKE, TaskState.CONTEXT, TaskState.PLANNING)
        case events.LatchSet() | events.LatchCleared() as turned:
            _turn_latch(task, turned, entry)
        case events.Applied(run_id=run_id, result_tree=tree):
            _expect(run_id in task.runs and task.runs[run_id].status == "ok", entry, "only a good run is applied")
            task.runs[run_id].applied = tree
        case events.Aborted():
            _move(task, entry, TaskState.ABORTED)
        case (
            events.RunStarted()
            | events.RunFinished()
            | events.RunReopened()
            | events.RunPaused()
            | events.RunResumed() as turned
        ):
            _turn_run(task, turned, entry)
        case events.Judged(decision=decision):
            _running(task, entry).decision = decision
        case events.AgentAsked() as asked:
            _running(task, entry)
            roles = task.spent.setdefault(asked.step_id, {})
            roles[asked.role] = roles.get(asked.role, AgentUsage()).plus(AgentUsage.of(asked))
        case events.GateDecided() as said:
            _running(task, entry)
            task.gated.append(said.payload())
            _judge(task, said, entry)
        case other:
            _turn_step(task, _running(task, entry), other, entry)


def _judge(task: Task, said: events.GateDecided, entry: JournalEntry) -> None:
    """A change that no steps made is executed, and then judged; what steps made is judged in its final review."""
    if said.subject or task.state is not TaskState.EXECUTING:
        return
    _move(task, entry, TaskState.VERIFYING)
    if said.decision == Decision.PASS:
        looked = (TaskState.INSIGHT,) if said.insight else ()
        _move(task, entry, *looked, TaskState.STORING, TaskState.FINAL_REVIEW)


def _turn_run(
    task: Task,
    event: events.RunStarted | events.RunFinished | events.RunReopened | events.RunPaused | events.RunResumed,
    entry: JournalEntry,
) -> None:
    match event:
        case events.RunStarted() as started:
            _expect(bool(task.id) and started.run_id not in task.runs, entry, "a run starts once, in an open task")
            _go_back(task)
            _be(task, entry, TaskState.EXECUTING)
            task.runs[started.run_id] = _started(started, entry)
        case events.RunFinished() as ended:
            _end(task, _running(task, entry), ended, entry)
        case events.RunReopened(run_id=run_id):
            run = task.runs.get(run_id)
            _expect(run is not None and run.status == "failed", entry, "only a failed run is opened again")
            assert run  # noqa: S101 - just expected
            run.status, run.error_code, run.end_tree, run.decision = "running", None, None, None
            task.latch = None
            _be(task, entry, TaskState.EXECUTING)
        case events.RunPaused():
            _running(task, entry)
            if task.state is not TaskState.PAUSED:
                task.left = task.state
                _move(task, entry, TaskState.PAUSED)
        case events.RunResumed():
            _running(task, entry)
            _go_back(task)


def _started(started: events.RunStarted, entry: JournalEntry) -> RunState:
    return RunState(
        started.run_id,
        started.plan_hash,
        started.base_tree,
        started.isolation,
        entry.at,
        {name: _first(name, started.imported.get(name)) for name in started.steps},
        mode=started.mode,
        base_commit=started.base_commit,
        titles=started.titles,
        details=started.details,
        objective=started.objective,
    )


_CLAIMED: dict[object, StepStatus] = {"done": "done", "blocked": "failed"}


def _first(name: str, claim: events.Json | None) -> StepState:
    """A step as its run begins: waiting, or as somebody else's state claims, and marked as such."""
    if claim is None:
        return StepState(name)
    status, attempts = _CLAIMED.get(claim.get("status"), "pending"), claim.get("attempts")
    reason = "" if status == "pending" else "imported"
    return StepState(name, status, attempts=attempts if isinstance(attempts, int) else 0, reason=reason)


def _end(task: Task, run: RunState, ended: events.RunFinished, entry: JournalEntry) -> None:
    run.status = "failed" if ended.error_code else "ok"
    run.error_code, run.end_tree, run.duration_ms = ended.error_code, ended.end_tree, ended.duration_ms
    for step in [step for step in run.steps.values() if step.status == "running"]:
        run.steps[step.id] = step._replace(status="failed")
    _go_back(task)
    if task.state is TaskState.LATCHED:
        return
    if ended.error_code:
        _be(task, entry, TaskState.RECOVERING, TaskState.BLOCKED)
    else:
        waiting = [step.id for step in run.steps.values() if step.status not in ("done", "skipped")]
        _expect(not waiting, entry, f"step(s) {', '.join(waiting)} are neither done nor skipped")
        _be(task, entry, TaskState.FINAL_REVIEW, TaskState.DONE)


def _move(task: Task, entry: JournalEntry, *path: TaskState) -> None:
    for state in path:
        if not allowed(task.state, state, task.left):
            raise _refused(entry, f"{task.state} does not become {state}")
        task.state = state


def _be(task: Task, entry: JournalEntry, *path: TaskState) -> None:
    """The same, from wherever on the path the task already is."""
    at = path.index(task.state) + 1 if task.state in path else 0
    _move(task, entry, *path[at:])


def _go_back(task: Task) -> None:
    """Out of a pause, to where it was."""
    if task.state is TaskState.PAUSED and task.left:
        task.state, task.left = task.left, None


_WANTED: dict[type[events.Event], tuple[StepStatus, ...]] = {
    events.StepStarted: ("pending",),
    events.StepFinished: ("running",),
    events.FixTried: ("running",),
    events.StepInterrupted: ("running",),
    events.StepSkipped: ("pending", "failed", "blocked"),
    events.StepBlocked: ("pending", "running"),
    events.Answered: ("blocked",),
}


def _turn_step(task: Task, run: RunState, event: events.Event, entry: JournalEntry) -> None:
    if isinstance(event, events.StepsReset):
        _reset(run, event, entry)
        _be(task, entry, TaskState.EXECUTING)
        return
    if isinstance(event, events.StepsAdded):
        _add(task, run, event, entry)
        return
    wanted = _WANTED.get(type(event))
    _expect(wanted is not None, entry, f"{event.kind} is not known here")
    name: str = getattr(event, "step_id", "")
    step = run.steps.get(name)
    if step is None or step.status not in (wanted or ()):
        raise _refused(entry, f"step {name} is {step.status if step else 'not known'}")
    _note_fix(run, event)
    run.steps[name] = turned = _turned(step, event)
    if turned.status in ("done", "failed", "skipped"):
        run.order.append(name)
    _follow(task, run, event, entry)


def _note_fix(run: RunState, event: events.Event) -> None:
    """What was tried in an attempt that was dropped is dropped with it."""
    if isinstance(event, events.FixTried):
        run.fixes.append(event.payload())
    elif run.fixes and isinstance(event, events.StepStarted):
        run.fixes = [one for one in run.fixes if one["step_id"] != event.step_id]


def _add(task: Task, run: RunState, event: events.StepsAdded, entry: JournalEntry) -> None:
    """Behind the step they came of, which is then not done itself; or at the end, once nothing else is left."""
    _expect(not set(event.steps) & set(run.steps), entry, "a step is added once")
    if event.parent is None:
        _expect(task.state is TaskState.FINAL_REVIEW, entry, "steps are appended when nothing is left to do")
        _move(task, entry, TaskState.EXECUTING)
    else:
        old = run.steps.get(event.parent, StepState(""))
        _expect(old.status in ("pending", "running"), entry, f"step {event.parent} cannot be split")
        _be(task, entry, TaskState.EXECUTING)
        _move(task, entry, TaskState.PLANNING, TaskState.EXECUTING)
        run.steps[event.parent] = old._replace(status="skipped", reason=f"split into {', '.join(event.steps)}")
    names = list(run.steps)
    at = names.index(event.parent) + 1 if event.parent else len(names)
    order = [*names[:at], *event.steps, *names[at:]]
    run.steps = {name: run.steps.get(name, StepState(name)) for name in order}
    run.titles = {**run.titles, **event.titles}
    run.details = {**run.details, **event.details}


def _reset(run: RunState, event: events.StepsReset, entry: JournalEntry) -> None:
    for name in event.steps:
        _expect(name in run.steps and run.steps[name].status != "running", entry, f"step {name} cannot be done again")
        old = run.steps[name]
        # Whoever asks for it again gives it its attempts again.
        forgiven = old.forgiven if event.how == "retry" else old.attempts
        run.steps[name] = StepState(name, attempts=old.attempts, forgiven=forgiven, answer=old.answer)
    run.order = [name for name in run.order if name not in event.steps]
    run.decision = None


def _turned(step: StepState, event: events.Event) -> StepState:
    """The step after an event that fits it."""
    change: dict[str, object] = {}
    match event:
        case events.StepStarted(tree=tree):
            change = {"status": "running", "tree": tree, "attempts": step.attempts + 1}
        case events.StepInterrupted():
            change = {"status": "pending", "attempts": step.attempts - 1, "interrupted": step.interrupted + 1}
        case events.StepSkipped(reason=reason):
            change = {"status": "skipped", "reason": reason, "unblock": "", "ended": None}
        case events.StepBlocked(reason=reason, unblock=unblock):
            change = {"status": "blocked", "reason": reason, "unblock": unblock}
        case events.Answered(text=text):
            change = {"status": "pending", "reason": "", "unblock": "", "answer": text, "forgiven": step.attempts}
        case events.StepFinished() as ended:
            change = {
                "status": "done" if ended.success else "failed",
                "exit_code": ended.exit_code,
                "start": step.tree,
                "tree": ended.tree,
                "duration_ms": ended.duration_ms,
                "interrupted": 0,
                "ended": ended,
                "reason": ended.reason,
            }
    return step._replace(**change)  # type: ignore[arg-type]


def _follow(task: Task, run: RunState, event: events.Event, entry: JournalEntry) -> None:
    """What a step's turn means for its task."""
    match event:
        case events.StepStarted() | events.StepInterrupted() | events.FixTried():
            _be(task, entry, TaskState.EXECUTING)
        case events.StepFinished(success=False):
            _be(task, entry, TaskState.RECOVERING)
        case events.StepBlocked():
            _be(task, entry, TaskState.EXECUTING, TaskState.BLOCKED)
        case events.Answered():
            _be(task, entry, TaskState.EXECUTING)
        case _:
            _be(task, entry, TaskState.EXECUTING)
            # From the end: steps come to theirs in order, and a long plan is not to be gone through at each.
            left = any(step.status in ("pending", "running") for step in reversed(run.steps.values()))
            _move(
                task,
                entry,
                TaskState.VERIFYING,
                TaskState.STORING,
                TaskState.EXECUTING if left else TaskState.FINAL_REVIEW,
            )


def _turn_latch(task: Task, event: events.LatchSet | events.LatchCleared, entry: JournalEntry) -> None:
    if isinstance(event, events.LatchCleared):
        task.latch = None
        task.forgiven += len(task.failures) if event.how == "unlock" else 0
        task.gated = [] if event.how == "unlock" else task.gated
        task.granted = task.spent_in_all if event.how == "unlock" else task.granted
        if event.how == "unlock" and task.state is TaskState.LATCHED:
            _move(task, entry, TaskState.PLANNING)
    else:
        if event.grade == "stop" and task.state not in (TaskState.LATCHED, TaskState.DONE):
            _move(task, entry, TaskState.LATCHED)
        if event.signature:
            task.met.setdefault(event.signature, []).append(event.step_id or "")
        task.latch = Latch(
            event.grade, event.reason, event.error_code, event.run_id, event.step_id, event.plan_hash, event.base_tree
        )


def _running(task: Task, entry: JournalEntry) -> RunState:
    run = task.runs.get(getattr(entry.event, "run_id", ""))
    if run is None or run.status != "running":
        raise StateDamaged(f"journal line {entry.seq}: {entry.event.kind} outside a running run")
    return run


def _expect(condition: bool, entry: JournalEntry, rule: str) -> None:
    if not condition:
        raise _refused(entry, rule)


def _refused(entry: JournalEntry, rule: str) -> StateDamaged:
    return StateDamaged(f"journal line {entry.seq}: {entry.event.kind}: {rule}")
