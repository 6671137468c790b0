"""Computes the state of a task from its journal alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, NamedTuple

from reflectloop.errors import StateDamaged
from reflectloop.state import events
from reflectloop.state.journal import JournalEntry, no_collection
from reflectloop.state.record import FrozenRecord, Record
from reflectloop.state.transitions import TaskState, allowed
from reflectloop.terms import Decision, OutcomeWord

StepStatus = Literal["pending", "running", "done", "failed", "blocked", "skipped"]
RunStatus = Literal["running", "ok", "failed"]


class TaskKind(StrEnum):
    """The executor of a run's steps."""

    RUN = "run"  # `reflectloop run`: the engine, from a plan file
    AGENTS = "agents"  # `reflectloop tr`: the engine, one step at a time, with agents
    REQUESTS = "requests"  # an outside program, by FileOps requests
    IMPORTED = "imported"  # nobody: the state was imported

    @property
    def is_stepwise(self) -> bool:
        """Return whether steps are executed one at a time between commands, and the gates run when none is left."""
        return self in (TaskKind.AGENTS, TaskKind.REQUESTS)


# Failures of the work itself: they set the task's latch and count against its limit of runs.
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
    tree: str | None = None  # at its start while running, then at its end
    start: str | None = None  # the tree at its start, once it has ended
    duration_ms: int | None = None
    attempts: int = 0
    interrupted: int = 0  # consecutive interruptions by the engine's death, which do not count as attempts
    ended: events.StepFinished | None = None
    answer: str = ""  # a person's answer while it was blocked
    reason: str = ""  # why it was skipped or failed, or "imported"
    forgiven: int = 0  # attempts before a person's last answer, which no longer count
    unblock: str = ""  # what would unblock it
    parts: tuple[str, ...] = ()  # the steps that it was split into


class RunState(Record):
    """A run as its events left it."""

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
    order: list[str] = dataclasses.field(default_factory=list)  # steps in the order in which they ended
    decision: str | None = None  # of the sealed verification, if there was one
    titles: dict[str, str] = dataclasses.field(default_factory=dict)  # of steps that are not in a plan file
    details: dict[str, events.Json] = dataclasses.field(default_factory=dict)
    objective: events.Json = dataclasses.field(default_factory=dict)
    replans: int = 0  # how often the plan was changed
    fixes: list[events.Json] = dataclasses.field(default_factory=list)  # known fixes tried in each step's last attempt
    outcome: str = ""  # the gates' word on the whole change: PASS, REVIEW, REFUSED or NOT JUDGED
    approvals: list[events.Json] = dataclasses.field(default_factory=list)  # findings that people approved

    @property
    def waits_for_approval(self) -> bool:
        """Return True if a person may approve what the gates found on the whole change."""
        return self.outcome == OutcomeWord.REVIEW and self.status != "ok"

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
        """Return the tree of the last step that was done, or the base tree."""
        trees = (self.steps[name].tree for name in reversed(self.order) if self.steps[name].status == "done")
        return next((tree for tree in trees if tree), self.base_tree)

    @property
    def stands(self) -> str:
        """Return the tree at the start of the running step, or the tree of the last step that was done."""
        begun = (step.tree for step in self.steps.values() if step.status == "running")
        return next((tree for tree in begun if tree), self.reached)

    def count(self, status: StepStatus) -> int:
        return sum(step.status == status for step in self.steps.values())


class Latch(FrozenRecord):
    """The reason why a task cannot simply be run again."""

    grade: str
    reason: str
    error_code: str
    run_id: str
    step_id: str | None
    plan_hash: str
    base_tree: str


class AgentUsage(FrozenRecord):
    """The agents' usage; calls of unknown cost are counted separately, never as free."""

    calls: int = 0
    tokens: int = 0
    turns: int = 0
    wall_ms: int = 0
    usd: float = 0.0
    unpriced: int = 0  # calls of unknown price

    def plus(self, other: AgentUsage) -> AgentUsage:
        return AgentUsage(**{name: value + getattr(other, name) for name, value in self.fields().items()})

    @classmethod
    def of(cls, event: events.AgentAsked) -> AgentUsage:
        tokens = event.input_tokens + event.output_tokens + event.cache_read_tokens + event.cache_write_tokens
        usd, unpriced = event.cost_usd or 0.0, event.cost_usd is None
        return cls(
            calls=1, tokens=tokens, turns=event.turns, wall_ms=event.duration_ms, usd=usd, unpriced=int(unpriced)
        )


class Task(Record):
    """A task as its events left it."""

    id: str = ""
    plan_path: str = ""
    title: str = ""
    runs: dict[str, RunState] = dataclasses.field(default_factory=dict)
    latch: Latch | None = None
    forgiven: int = 0  # failed runs before the last unlock, which no longer count
    state: TaskState = TaskState.IDLE
    left: TaskState | None = None  # the state to return to after a pause
    gated: list[events.Json] = dataclasses.field(default_factory=list)  # gate decisions since the last unlock
    spent: dict[str, dict[str, AgentUsage]] = dataclasses.field(default_factory=dict)  # by step, then by role
    granted: AgentUsage = dataclasses.field(default_factory=AgentUsage)  # usage at the last unlock
    met: dict[str, list[str]] = dataclasses.field(
        default_factory=dict
    )  # for each failure signature, the steps in which it occurred

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
        for usage in (spent for roles in self.spent.values() for spent in roles.values()):
            total = total.plus(usage)
        return total

    @property
    def failures(self) -> list[RunState]:
        """Return the failed runs that count against the limit: failures of the work, not of the machine or the user."""
        return [run for run in self.runs.values() if run.error_code in COUNTED][self.forgiven :]


def fold(entries: Iterable[JournalEntry]) -> Task:
    task = Task()
    with no_collection():
        for entry in entries:
            advance(task, entry)
    return task


def advance(task: Task, entry: JournalEntry) -> None:
    """Apply one event to `task`, or raise StateDamaged if it cannot follow."""
    if type(entry.event) in _EXPECTED:  # first, because most events are of these kinds
        _apply_step_event(task, _running(task, entry), entry.event, entry)
        return
    match entry.event:
        case events.TaskOpened(task_id=task_id, plan_path=path, title=title):
            _expect(not task.id, entry, "a task is opened once")
            task.id, task.plan_path, task.title = task_id, path, title
            _move(task, entry, TaskState.INTAKE, TaskState.CONTEXT, TaskState.PLANNING)
        case events.LatchSet() | events.LatchCleared() as turned:
            _apply_latch_event(task, turned, entry)
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
            _apply_run_event(task, turned, entry)
        case events.Judged() | events.GateDecided() | events.Approved() as turned:
            _apply_verdict_event(task, turned, entry)
        case events.AgentAsked() as call:
            _running(task, entry)
            roles = task.spent.setdefault(call.step_id, {})
            roles[call.role] = roles.get(call.role, AgentUsage()).plus(AgentUsage.of(call))
        case other:
            _apply_step_event(task, _running(task, entry), other, entry)


def _apply_verdict_event(
    task: Task, event: events.Judged | events.GateDecided | events.Approved, entry: JournalEntry
) -> None:
    run = _running(task, entry)
    match event:
        case events.Judged(decision=decision):
            run.decision = decision
        case events.Approved():
            run.approvals.append({**event.payload(), "at": entry.at})
        case events.GateDecided():
            task.gated.append({name: value for name, value in event.payload().items() if name != "outcome" or value})
            run.outcome = run.outcome if event.subject else event.outcome
            _judge(task, event, entry)


def _judge(task: Task, decision_event: events.GateDecided, entry: JournalEntry) -> None:
    """Move a task without steps through its states; a change made by steps is judged in the final review."""
    if decision_event.subject or task.state is not TaskState.EXECUTING:
        return
    _move(task, entry, TaskState.VERIFYING)
    if decision_event.decision == Decision.PASS:
        looked = (TaskState.INSIGHT,) if decision_event.insight else ()
        _move(task, entry, *looked, TaskState.STORING, TaskState.FINAL_REVIEW)


def _apply_run_event(
    task: Task,
    event: events.RunStarted | events.RunFinished | events.RunReopened | events.RunPaused | events.RunResumed,
    entry: JournalEntry,
) -> None:
    match event:
        case events.RunStarted() as started:
            _expect(bool(task.id) and started.run_id not in task.runs, entry, "a run starts once, in an open task")
            _leave_pause(task)
            _advance_to(task, entry, TaskState.EXECUTING)
            task.runs[started.run_id] = _started(started, entry)
        case events.RunFinished() as ended:
            _end(task, _running(task, entry), ended, entry)
        case events.RunReopened(run_id=run_id):
            run = task.runs.get(run_id)
            if run is None or run.status != "failed":
                raise _refused(entry, "only a failed run is opened again")
            run.status, run.error_code, run.end_tree, run.decision, run.outcome = "running", None, None, None, ""
            task.latch = None
            _end_attempts(task, run_id)
            _advance_to(task, entry, TaskState.EXECUTING)
        case events.RunPaused():
            _running(task, entry)
            if task.state is not TaskState.PAUSED:
                task.left = task.state
                _move(task, entry, TaskState.PAUSED)
        case events.RunResumed():
            _running(task, entry)
            _leave_pause(task)


def _started(started: events.RunStarted, entry: JournalEntry) -> RunState:
    return RunState(
        id=started.run_id,
        plan_hash=started.plan_hash,
        base_tree=started.base_tree,
        isolation=started.isolation,
        started=entry.at,
        steps={name: _initial_step(name, started.imported.get(name)) for name in started.steps},
        mode=started.mode,
        base_commit=started.base_commit,
        titles=started.titles,
        details=started.details,
        objective=started.objective,
    )


_CLAIMED: dict[object, StepStatus] = {"done": "done", "blocked": "failed"}


def _initial_step(name: str, claim: events.Json | None) -> StepState:
    """Return a step at the start of a run: pending, or as an imported state claims, marked "imported"."""
    if claim is None:
        return StepState(name)
    status, attempts = _CLAIMED.get(claim.get("status"), "pending"), claim.get("attempts")
    parts = claim.get("parts")
    if isinstance(parts, list) and parts:
        names = tuple(map(str, parts))
        return StepState(name, "skipped", reason=f"split into {', '.join(names)}", parts=names)
    reason = "" if status == "pending" else "imported"
    return StepState(name, status, attempts=attempts if isinstance(attempts, int) else 0, reason=reason)


def _end(task: Task, run: RunState, ended: events.RunFinished, entry: JournalEntry) -> None:
    run.status = "failed" if ended.error_code else "ok"
    run.error_code, run.end_tree, run.duration_ms = ended.error_code, ended.end_tree, ended.duration_ms
    for step in [step for step in run.steps.values() if step.status == "running"]:
        run.steps[step.id] = step._replace(status="failed")
    _leave_pause(task)
    if task.state is TaskState.LATCHED:
        return
    if ended.error_code:
        _advance_to(task, entry, TaskState.RECOVERING, TaskState.BLOCKED)
    else:
        waiting = [step.id for step in run.steps.values() if step.status not in ("done", "skipped")]
        _expect(not waiting, entry, f"step(s) {', '.join(waiting)} are neither done nor skipped")
        _advance_to(task, entry, TaskState.FINAL_REVIEW, TaskState.DONE)


def _move(task: Task, entry: JournalEntry, *path: TaskState) -> None:
    for state in path:
        if not allowed(task.state, state, task.left):
            raise _refused(entry, f"{task.state} does not become {state}")
        task.state = state


def _advance_to(task: Task, entry: JournalEntry, *path: TaskState) -> None:
    """Move along the path from the task's present place on it."""
    at = path.index(task.state) + 1 if task.state in path else 0
    _move(task, entry, *path[at:])


def _leave_pause(task: Task) -> None:
    """Return from a pause to the state before it."""
    if task.state is TaskState.PAUSED and task.left:
        task.state, task.left = task.left, None


_EXPECTED: dict[type[events.Event], tuple[StepStatus, ...]] = {
    events.StepStarted: ("pending",),
    events.StepFinished: ("running",),
    events.FixTried: ("running",),
    events.StepInterrupted: ("running",),
    events.StepSkipped: ("pending", "failed", "blocked"),
    events.StepBlocked: ("pending", "running"),
    events.Answered: ("blocked",),
}


def _apply_step_event(task: Task, run: RunState, event: events.Event, entry: JournalEntry) -> None:
    expected = _EXPECTED.get(type(event))
    if expected is None:
        _apply_plan_event(task, run, event, entry)
        return
    name: str = getattr(event, "step_id", "")
    step = run.steps.get(name)
    if step is None or step.status not in expected:
        raise _refused(entry, f"step {name} is {step.status if step else 'not known'}")
    if run.fixes or isinstance(event, events.FixTried):
        _note_fix(run, event)
    run.steps[name] = turned = _step_after(step, event)
    if turned.status in ("done", "failed", "skipped"):
        run.order.append(name)
    _update_task_state(task, run, event, entry)


def _apply_plan_event(task: Task, run: RunState, event: events.Event, entry: JournalEntry) -> None:
    match event:
        case events.StepsReset():
            _reset(run, event, entry)
            _end_attempts(task, run.id, event.reason)
            _advance_to(task, entry, TaskState.EXECUTING)
        case events.StepsAdded():
            _add(task, run, event, entry)
        case events.PlanChanged():
            _change_plan(task, run, event, entry)
        case _:
            raise _refused(entry, f"{event.kind} is not known here")


def _note_fix(run: RunState, event: events.Event) -> None:
    """Record a tried fix; a new attempt of the step discards the earlier ones."""
    if isinstance(event, events.FixTried):
        run.fixes.append(event.payload())
    elif isinstance(event, events.StepStarted):
        run.fixes = [fix for fix in run.fixes if fix["step_id"] != event.step_id]


def _add(task: Task, run: RunState, event: events.StepsAdded, entry: JournalEntry) -> None:
    """Add steps after the step that was split, which is then skipped; or at the end, if no step is left."""
    _expect(not set(event.steps) & set(run.steps), entry, "a step is added once")
    if event.parent is None:
        _expect(task.state is TaskState.FINAL_REVIEW, entry, "steps are appended when nothing is left to do")
        _move(task, entry, TaskState.EXECUTING)
    else:
        old = run.steps.get(event.parent, StepState(""))
        _expect(old.status in ("pending", "running"), entry, f"step {event.parent} cannot be split")
        _advance_to(task, entry, TaskState.EXECUTING)
        _move(task, entry, TaskState.PLANNING, TaskState.EXECUTING)
        run.steps[event.parent] = old._replace(
            status="skipped", reason=f"split into {', '.join(event.steps)}", parts=tuple(event.steps)
        )
    names = list(run.steps)
    at = names.index(event.parent) + 1 if event.parent else len(names)
    order = [*names[:at], *event.steps, *names[at:]]
    run.steps = {name: run.steps.get(name, StepState(name)) for name in order}
    run.titles = {**run.titles, **event.titles}
    run.details = {**run.details, **event.details}


def _change_plan(task: Task, run: RunState, event: events.PlanChanged, entry: JournalEntry) -> None:
    """Keep the finished steps; begin the others of the changed plan again, with all their attempts."""
    finished = {name: step for name, step in run.steps.items() if step.status in ("done", "skipped")}
    _expect(set(finished) <= set(event.steps), entry, "a finished step stays in the plan")
    _move(task, entry, TaskState.PLANNING, TaskState.EXECUTING)
    run.steps = {name: finished.get(name, StepState(name)) for name in event.steps}
    run.order = [name for name in run.order if name in finished]
    run.titles = {**run.titles, **event.titles}
    run.objective = {**run.objective, "plan": event.plan}
    run.replans += 1


def _end_attempts(task: Task, run_id: str, reason: str = "") -> None:
    """Mark the gate decisions of a run whose steps are done again: each counts as an attempt, with this reason."""
    for decision in task.gated:
        if decision["run_id"] == run_id:
            decision["reopened"] = decision.get("reopened") or reason


def _reset(run: RunState, event: events.StepsReset, entry: JournalEntry) -> None:
    for name in event.steps:
        _expect(name in run.steps and run.steps[name].status != "running", entry, f"step {name} cannot be done again")
        old = run.steps[name]
        # Repeating a step renews its attempts, except for an automatic retry.
        forgiven = old.forgiven if event.how == "retry" else old.attempts
        run.steps[name] = StepState(name, attempts=old.attempts, forgiven=forgiven, answer=old.answer)
    run.order = [name for name in run.order if name not in event.steps]
    run.decision, run.outcome = None, ""


def _step_after(step: StepState, event: events.Event) -> StepState:
    """Return the step after an event."""
    match event:  # the most frequent first
        case events.StepStarted(tree=tree):
            step = step._replace(status="running", tree=tree, attempts=step.attempts + 1)
        case events.StepFinished() as ended:
            step = step._replace(
                status="done" if ended.success else "failed",
                exit_code=ended.exit_code,
                start=step.tree,
                tree=ended.tree,
                duration_ms=ended.duration_ms,
                interrupted=0,
                ended=ended,
                reason=ended.reason,
            )
        case events.StepInterrupted():
            step = step._replace(status="pending", attempts=step.attempts - 1, interrupted=step.interrupted + 1)
        case events.StepSkipped(reason=reason):
            step = step._replace(status="skipped", reason=reason, unblock="", ended=None)
        case events.StepBlocked(reason=reason, unblock=unblock):
            step = step._replace(status="blocked", reason=reason, unblock=unblock)
        case events.Answered(text=text):
            step = step._replace(status="pending", reason="", unblock="", answer=text, forgiven=step.attempts)
    return step


def _update_task_state(task: Task, run: RunState, event: events.Event, entry: JournalEntry) -> None:
    """Update the task's state after an event of a step."""
    kind = type(event)  # a pattern takes twice as long
    if kind is events.StepFinished and not event.success:  # type: ignore[attr-defined]
        _advance_to(task, entry, TaskState.RECOVERING)
        return
    if kind is events.StepBlocked:
        _advance_to(task, entry, TaskState.EXECUTING, TaskState.BLOCKED)
        return
    if task.state is not TaskState.EXECUTING:
        _advance_to(task, entry, TaskState.EXECUTING)
    # Where steps are left, the step is verified and stored, and the task executes the next one.
    if kind in (events.StepFinished, events.StepSkipped) and not _any_left(run):
        _move(task, entry, TaskState.VERIFYING, TaskState.STORING, TaskState.FINAL_REVIEW)


def _any_left(run: RunState) -> bool:
    """Return whether a step is pending or running; from the end, since steps finish in order."""
    for step in reversed(run.steps.values()):  # noqa: SIM110 - a generator takes twice as long
        if step.status in ("pending", "running"):
            return True
    return False


def _apply_latch_event(task: Task, event: events.LatchSet | events.LatchCleared, entry: JournalEntry) -> None:
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
            grade=event.grade,
            reason=event.reason,
            error_code=event.error_code,
            run_id=event.run_id,
            step_id=event.step_id,
            plan_hash=event.plan_hash,
            base_tree=event.base_tree,
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
