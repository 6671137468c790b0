"""What can happen to a task, one frozen record each. Old journals must load for ever: add fields with defaults only."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

Json = dict[str, object]
BY_REQUESTS = "fileops"  # the mode of a run whose steps are done by requests
MADE_BY_TP = "tp"  # in the objective of a run that `tp` planned
IMPORTED = "imported"  # the mode of a run that is nothing but somebody else's word


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    kind: ClassVar[str]

    def payload(self) -> Json:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskOpened(Event):
    kind = "task_opened"
    task_id: str
    plan_path: str
    title: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    kind = "run_started"
    run_id: str
    plan_hash: str
    base_tree: str
    base_commit: str
    isolation: str
    steps: list[str]
    mode: str = "git"
    titles: dict[str, str] = dataclasses.field(default_factory=dict)  # of steps that no plan describes
    objective: Json = dataclasses.field(default_factory=dict)
    details: dict[str, Json] = dataclasses.field(default_factory=dict)  # what else is known of them
    imported: dict[str, Json] = dataclasses.field(default_factory=dict)  # what somebody else's state says of a step


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(Event):
    kind = "step_started"
    run_id: str
    step_id: str
    tree: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FixTried(Event):
    """A fix that lessons hold for how this step failed, and what came of it; said before the step comes to its end."""

    kind = "fix_tried"
    run_id: str
    step_id: str
    lesson: str
    outcome: str  # worked | failed | other | refused
    title: str = ""
    scope: str = "project"
    signature: str = ""  # of the failure it was tried against
    fix: str = ""
    commands: list[str] = dataclasses.field(default_factory=list)
    changed: list[str] = dataclasses.field(default_factory=list)  # files, by the fix itself
    reason: str = ""
    log: str = ""
    tried: str = ""  # when


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepInterrupted(Event):
    """The engine died in the middle of a step: what it did is dropped, and it does not count as an attempt."""

    kind = "step_interrupted"
    run_id: str
    step_id: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepSkipped(Event):
    """A person says that it need not be done, and why."""

    kind = "step_skipped"
    run_id: str
    step_id: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepBlocked(Event):
    """A step that cannot go on, why, and what would let it."""

    kind = "step_blocked"
    run_id: str
    step_id: str
    reason: str
    unblock: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Event):
    """What a person says to a blocked step; it waits again."""

    kind = "answered"
    run_id: str
    step_id: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepsAdded(Event):
    """Steps that came up while the work went on: what one was split into, or what the final review asks for."""

    kind = "steps_added"
    run_id: str
    steps: list[str]
    titles: dict[str, str]
    details: dict[str, Json]
    parent: str | None = None
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepsReset(Event):
    """Steps that are to be done again, from the tree before the first of them."""

    kind = "steps_reset"
    run_id: str
    steps: list[str]
    how: str  # retry | redo | rewind
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunReopened(Event):
    """A run that had failed is worked on again, because a person changed what is to be done."""

    kind = "run_reopened"
    run_id: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunPaused(Event):
    kind = "run_paused"
    run_id: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Aborted(Event):
    kind = "aborted"
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(Event):
    """Another engine goes on with a run where its journal ends."""

    kind = "run_resumed"
    run_id: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Event):
    """The sealed verdict on a run's change."""

    kind = "judged"
    run_id: str
    decision: str
    level: str
    tree: str
    sealed_tree: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GateDecided(Event):
    """What the gates said of an output: of a whole change, or of the batch or step that `subject` names."""

    kind = "gate_decided"
    run_id: str
    subject: str
    gate: str
    decision: str
    level: str | None = None
    reasons: list[str] = dataclasses.field(default_factory=list)
    rules: list[str] = dataclasses.field(default_factory=list)
    backtracks: list[Json] = dataclasses.field(default_factory=list)
    insight: bool = False  # whether 慧 looked at it
    cause: str = ""  # the root cause of the failures before, as it was said when this output was made


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentAsked(Event):
    """An agent was asked and answered, or did not; what it used."""

    kind = "agent_asked"
    run_id: str
    step_id: str  # empty: the whole task
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
    changed: list[str] = dataclasses.field(default_factory=list)  # by one who was to look only


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    kind = "run_finished"
    run_id: str
    error_code: str | None
    end_tree: str
    duration_ms: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Applied(Event):
    kind = "applied"
    run_id: str
    result_tree: str
    commit: str | None = None
    ref: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
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
        StepsReset,
        RunReopened,
        RunPaused,
        RunResumed,
        Aborted,
        Judged,
        GateDecided,
        AgentAsked,
        RunFinished,
        Applied,
        LatchSet,
        LatchCleared,
    )
}
