"""Changes the state of a task whose steps are executed one at a time: six operations, each checked, then committed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from reflectloop import secrets
from reflectloop.artifacts import views
from reflectloop.engine.tasks import task_plan
from reflectloop.fileops.ops_context import Refusal
from reflectloop.fileops.plan_ops import NewStep
from reflectloop.plan import change as plan_change
from reflectloop.plan import drafts
from reflectloop.plan.change import PlanPatch
from reflectloop.plan.model import Plan
from reflectloop.state import events
from reflectloop.state.fold import RunState, StepState, Task, advance
from reflectloop.state.journal import JournalEntry
from reflectloop.state.transitions import TaskState
from reflectloop.system import clock
from reflectloop.workspace.folders import Folders

_ENDED = (TaskState.DONE, TaskState.ABORTED)
Drafts = Mapping[str, NewStep]
DEEPEST_SPLIT = 2  # dots in the id of a step that cannot be split again


class NewTask(NamedTuple):
    """The content of a new task. `objective` is what TriFlow's state file says of it."""

    plan: Plan
    objective: events.Json
    details: Mapping[str, events.Json] = {}
    made_by: str = ""  # the command, if it also executes the steps
    imported: Mapping[str, events.Json] = {}  # what an imported state claims of each step


class Base(NamedTuple):
    """The project's tree and commit that a task begins with, and the isolation its steps have."""

    tree: str
    commit: str
    isolation: str


@dataclass
class TaskJournal:
    """The journal of the current task. Changes are pending until `commit` writes all of them."""

    folders: Folders
    pending: list[events.Event] = field(default_factory=list)
    opened: str | None = None  # the task that a pending change opens

    # The state with pending changes --------------------------------------------------------------------------------

    def task(self) -> Task:
        current = None if self.opened else self.folders.current_task()
        task = self.folders.load_task(current) if current else Task()
        for number, event in enumerate(self.pending, 1):
            advance(task, JournalEntry(number, "", event))
        return task

    def current(self) -> tuple[Task, RunState]:
        """Return the task and its run; refuse if there is no such plan to work on."""
        task = self.task()
        run = task.last_run
        if run is None or not run.kind.is_stepwise or task.state in _ENDED:
            raise Refusal(
                "there is no plan to work on",
                hint="send triflow_plan_init first (reflectloop template write_plan_files --list)",
            )
        return task, run

    def plan(self) -> Plan:
        return task_plan.plan_of(*self.current())

    def next_step(self, expected: str | int | None = None) -> StepState:
        """Return the step to execute; refuse a caller that expects another one."""
        _, run = self.current()
        left = run.unfinished_steps
        if not left:
            raise Refusal("nothing is left to do", hint="finish with the final review")
        if expected is not None and str(expected) != left[0].id:
            raise Refusal(f"the next step is {left[0].id}, not {expected}", key="step", hint="send preflight again")
        return left[0]

    # The six operations --------------------------------------------------------------------------------------------

    def open_task(self, new: NewTask, base: Base) -> str:
        """Open a task with its plan; refuse while another one is not done."""
        task = self.task()
        if task.id and task.state not in _ENDED:
            raise Refusal(
                f"task {task.id} is {task.state}: a running plan is not overwritten",
                hint="finish it, or reflectloop abort --reason TEXT",
            )
        _refuse_secrets(json.dumps([new.plan.to_json(), new.objective, dict(new.details)]))
        at = clock.now()
        self.opened, self.pending = clock.task_id(at), []
        self.pending.append(events.TaskOpened(task_id=self.opened, plan_path="", title=new.plan.title))
        self.pending.append(
            events.RunStarted(
                run_id=clock.run_id(at),
                plan_hash="",
                base_tree=base.tree,
                base_commit=base.commit,
                isolation=base.isolation,
                steps=[step.id for step in new.plan.steps],
                mode=events.BY_REQUESTS,
                titles={step.id: step.title for step in new.plan.steps},
                details=dict(new.details),
                imported=dict(new.imported),
                objective={
                    **new.objective,
                    task_plan.PLAN: new.plan.to_json(),
                    **({"made_by": new.made_by} if new.made_by else {}),
                },
            )
        )
        return self.opened

    def begin_step(self, tree: str, *, expected: str | int | None = None, end_tree: str = "", reason: str = "") -> str:
        """Count an attempt at the next step. One that is running is given up: it failed for `reason` at `end_tree`."""
        _, run = self.current()
        step = self.next_step(expected)
        attempts = self.plan().limits.step_attempts
        if step.status == "blocked":
            raise Refusal(
                f"step {step.id} is blocked: {step.reason}; {step.unblock}", hint=f"reflectloop answer {step.id} TEXT"
            )
        if step.attempts - step.forgiven >= attempts:
            raise Refusal(f"step {step.id} had its {attempts} attempts", hint="split it, or mark it blocked")
        if step.status == "running":
            self.pending.append(_finished(run, step, end_tree or tree, success=False, reason=reason or "begun again"))
        if step.status in ("running", "failed"):
            reset = events.StepsReset(run_id=run.id, steps=[step.id], how="retry", reason="another attempt")
            self.pending.append(reset)
        self.pending.append(events.StepStarted(run_id=run.id, step_id=step.id, tree=tree))
        return step.id

    def finish_step(self, tree: str, checks: list[events.Json], *, duration_ms: int = 0) -> Task:
        """Mark the running step done by what the engine ran on `tree`."""
        _, run = self.current()
        step = self.next_step()
        if step.status != "running":
            raise Refusal(f"step {step.id} was not begun", hint="send triflow_state_preflight first")
        self.pending.append(_finished(run, step, tree, success=True, checks=checks, duration_ms=duration_ms))
        return self.task()

    def block_step(self, reason: str, unblock: str, *, expected: str | int | None = None) -> str:
        _, run = self.current()
        step = self.next_step(expected)
        self.pending.append(events.StepBlocked(run_id=run.id, step_id=step.id, reason=reason, unblock=unblock))
        return step.id

    def split_step(self, parts: Sequence[NewStep], reason: str, *, expected: str | int | None = None) -> list[str]:
        """Replace the next step by its parts."""
        _, run = self.current()
        step = self.next_step(expected)
        if step.status not in ("pending", "running"):
            raise Refusal(f"step {step.id} is {step.status} and cannot be split", key="step")
        if step.id.count(".") >= DEEPEST_SPLIT:
            raise Refusal(f"step {step.id} is a part of a part already", key="step", hint="mark the step blocked")
        names = [f"{step.id}.{number}" for number in range(1, len(parts) + 1)]
        self._add(run, dict(zip(names, parts, strict=True)), step.id, reason)
        return names

    def append_steps(self, steps: Sequence[NewStep], reason: str) -> list[str]:
        """Add steps when none is left: what the final review or the gates ask for."""
        task, run = self.current()
        if task.state is not TaskState.FINAL_REVIEW:
            raise Refusal(
                f"steps are appended in FINAL_REVIEW, when none is left; the task is {task.state}",
                hint="make a follow-up task",
            )
        first = sum("." not in name for name in run.steps) + 1
        numbers = (str(number) for number in range(first, first + len(steps) + len(run.steps)))
        names = [name for name in numbers if name not in run.steps][: len(steps)]
        self._add(run, dict(zip(names, steps, strict=True)), None, reason)
        return names

    def change_plan(self, patch: PlanPatch, reason: str, tree: str) -> Plan:
        """Change the plan after a failure, as often as its `limits.replans` allows. A running step has failed."""
        _, run = self.current()
        plan = self.plan()
        if run.replans >= plan.limits.replans:
            raise Refusal(f"the plan was changed {run.replans} times, which is its limit", hint="mark the step blocked")
        finished = [name for name, step in run.steps.items() if step.status in ("done", "skipped")]
        changed = drafts.name_checks(drafts.drop_unused(plan_change.apply(plan, patch, finished), run.steps))
        _refuse_secrets(json.dumps(changed.to_json()))
        for step in run.steps.values():
            if step.status == "running":
                self.pending.append(_finished(run, step, tree, success=False, reason=reason))
        self.pending.append(
            events.PlanChanged(
                run_id=run.id,
                plan=changed.to_json(),
                steps=[step.id for step in changed.steps],
                titles={step.id: step.title for step in changed.steps},
                reason=reason,
            )
        )
        return changed

    def _add(self, run: RunState, steps: Drafts, parent: str | None, reason: str) -> None:
        for step in steps.values():
            _refuse_secrets(step.model_dump_json())
        self.pending.append(
            events.StepsAdded(
                run_id=run.id,
                steps=list(steps),
                titles={name: step.title for name, step in steps.items()},
                details={name: step.model_dump(mode="json", exclude={"title"}) for name, step in steps.items()},
                parent=parent,
                reason=reason,
            )
        )

    # All or nothing ------------------------------------------------------------------------------------------------

    def note(self, event: events.Event) -> None:
        """Write one event of the current task at once."""
        self._write(self.folders.current_task(), [event])

    def commit(self) -> None:
        if self.pending:
            self._write(self.opened or self.folders.current_task(), self.pending)
        self.roll_back()

    def roll_back(self) -> None:
        self.pending, self.opened = [], None

    def _write(self, task_id: str | None, pending: Sequence[events.Event]) -> None:
        if task_id is None:
            raise Refusal("there is no task to write to", hint="reflectloop tp GOAL")
        # A new task is current before its views are written: only those of the current task are published.
        views.append_events(self.folders, task_id, pending, make_current=self.opened is not None)


def _finished(
    run: RunState,
    step: StepState,
    tree: str,
    *,
    success: bool,
    reason: str = "",
    checks: list[events.Json] | None = None,
    duration_ms: int = 0,
) -> events.StepFinished:
    return events.StepFinished(
        run_id=run.id,
        step_id=step.id,
        success=success,
        exit_code=0 if success else 1,
        tree=tree,
        duration_ms=duration_ms,
        error_code=None if success else "STEP_FAILED",
        reason=reason,
        changed=tree != step.tree,
        checks=checks or [],
    )


def _refuse_secrets(text: str) -> None:
    """Refuse a plan that holds a possible secret: the journal stores it, and its checks run from there."""
    for finding in secrets.current_detector().scan(text.encode()):
        raise Refusal(
            f"the plan holds what may be a secret ({finding.rule}, fingerprint {finding.fingerprint})",
            hint="let commands read it from a variable that [run] env_allow names",
        )
