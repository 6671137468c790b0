"""The events of a task, one frozen record each. Old journals must always load: only add fields, with defaults."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from reflectloop.state.record import FrozenRecord

Json = dict[str, object]

BY_REQUESTS = "fileops"  # the mode of a run whose steps are done by requests
MADE_BY_TP = "tp"  # in the objective of a run that `tp` planned
IMPORTED = "imported"  # the mode of a run that is nothing but somebody else's word


class Event(FrozenRecord):
    """A record of the journal."""

    kind: ClassVar[str]

    def payload(self) -> Json:
        return {"kind": self.kind, **self.fields()}


class TaskOpened(Event):
    kind = "task_opened"
    task_id: str
    plan_path: str
    title: str


class RunStarted(Event):
    kind = "run_started"
    run_id: str
    plan_hash: str
    base_tree: str
    base_commit: str
    isolation: str
    steps: list[str]
    mode: str = "git"
    titles: dict[str, str] = dataclasses.field(default_factory=dict)  # of steps that are not in a plan file
    objective: Json = dataclasses.field(default_factory=dict)
    details: dict[str, Json] = dataclasses.field(default_factory=dict)  # further fields of these steps
    imported: dict[str, Json] = dataclasses.field(default_factory=dict)  # a step's state in the imported file


class StepStarted(Event):
    kind = "step_started"
    run_id: str
    step_id: str
    tree: str


class StepFinished(Event):
    kind = "step_finished"
    run_id: str
    step_id: str
    success: bool
    exit_code: int
    tree: str
    duration_ms: int
    error_code: str | None = None
    reason: str = ""
    command: str = ""
    changed: bool = False
    checks: list[Json] = dataclasses.field(default_factory=list)
    commands_run: int | None = None


class FixTried(Event):
    """A known fix was tried on a failed step, with its outcome; recorded before the step ends."""

    kind = "fix_tried"
    run_id: str
    step_id: str
    lesson: str
    outcome: str  # worked | failed | other | refused
    title: str = ""
    scope: str = "project"
    signature: str = ""  # of the failure that it should fix
    fix: str = ""
    commands: list[str] = dataclasses.field(default_factory=list)
    changed: list[str] = dataclasses.field(default_factory=list)  # files that the fix changed
    reason: str = ""
    log: str = ""
    tried: str = ""  # time


class StepInterrupted(Event):
    """The engine died during a step: its changes are discarded, and it does not count as an attempt."""

    kind = "step_interrupted"
    run_id: str
    step_id: str


class StepSkipped(Event):
    """A person skipped the step, with a reason."""

    kind = "step_skipped"
    run_id: str
    step_id: str
    reason: str


class StepBlocked(Event):
    """A step cannot continue, with the reason and what would unblock it."""

    kind = "step_blocked"
    run_id: str
    step_id: str
    reason: str
    unblock: str


class Answered(Event):
    """A person answered a blocked step, which is pending again."""

    kind = "answered"
    run_id: str
    step_id: str
    text: str


class StepsAdded(Event):
    """Steps were added during the task: by splitting a step, or by the final review."""

    kind = "steps_added"
    run_id: str
    steps: list[str]
    titles: dict[str, str]
    details: dict[str, Json]
    parent: str | None = None
    reason: str = ""


class PlanChanged(Event):
    """The planner changed the plan after a failure. Finished steps stay; the others begin again."""

    kind = "plan_changed"
    run_id: str
    plan: Json
    steps: list[str]  # of the changed plan, in order
    titles: dict[str, str]
    reason: str = ""


class StepsReset(Event):
    """Steps will be executed again, from the tree before the first of them."""

    kind = "steps_reset"
    run_id: str
    steps: list[str]
    how: str  # retry | redo | rewind
    reason: str


class RunReopened(Event):
    """A failed run continues, because a person changed its steps."""

    kind = "run_reopened"
    run_id: str


class RunPaused(Event):
    kind = "run_paused"
    run_id: str
    reason: str


class Aborted(Event):
    kind = "aborted"
    reason: str


class RunResumed(Event):
    """Another engine continues a run where its journal ends."""

    kind = "run_resumed"
    run_id: str


class Judged(Event):
    """The sealed verdict on a run's change."""

    kind = "judged"
    run_id: str
    decision: str
    level: str
    tree: str
    sealed_tree: str


class GateDecided(Event):
    """The gates' decision on the complete change, or on the batch or step named by `subject`."""

    kind = "gate_decided"
    run_id: str
    subject: str
    gate: str
    decision: str
    level: str | None = None
    reasons: list[str] = dataclasses.field(default_factory=list)
    rules: list[str] = dataclasses.field(default_factory=list)
    backtracks: list[Json] = dataclasses.field(default_factory=list)
    insight: bool = False  # True if the insight gate ran
    cause: str = ""  # the root cause of the earlier failures, as stated for this attempt
    outcome: str = ""  # the word for people: PASS, REVIEW, REFUSED or NOT JUDGED


class Approved(Event):
    """A person approved findings on the run's change, which is judged again without them."""

    kind = "approved"
    run_id: str
    by: str
    reason: str
    base_tree: str
    tree: str
    findings: list[Json]  # each with its id and its text


class AgentAsked(Event):
    """An agent was called, with the status of its reply and its usage."""

    kind = "agent_asked"
    run_id: str
    step_id: str  # empty: the task as a whole
    role: str
    agent: str
    status: str
    attempt: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    turns: int = 0
    cost_usd: float | None = None  # None: unknown
    duration_ms: int = 0
    reason: str = ""
    changed: list[str] = dataclasses.field(default_factory=list)  # files that a read-only role changed


class RunFinished(Event):
    kind = "run_finished"
    run_id: str
    error_code: str | None
    end_tree: str
    duration_ms: int


class Applied(Event):
    kind = "applied"
    run_id: str
    result_tree: str
    commit: str | None = None
    ref: str | None = None


class LatchSet(Event):
    kind = "latch_set"
    id: str
    grade: str
    reason: str
    error_code: str
    run_id: str
    step_id: str | None
    plan_hash: str
    base_tree: str
    signature: str = ""  # of the failure


class LatchCleared(Event):
    kind = "latch_cleared"
    how: str  # plan_changed | tree_changed | retry | unlock | passed
    reason: str


KINDS: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        TaskOpened,
        RunStarted,
        StepStarted,
        StepFinished,
        FixTried,
        StepInterrupted,
        StepSkipped,
        StepBlocked,
        Answered,
        StepsAdded,
        PlanChanged,
        StepsReset,
        RunReopened,
        RunPaused,
        RunResumed,
        Aborted,
        Judged,
        GateDecided,
        Approved,
        AgentAsked,
        RunFinished,
        Applied,
        LatchSet,
        LatchCleared,
    )
}
